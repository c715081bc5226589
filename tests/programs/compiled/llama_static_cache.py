"""transformers' own generate with a static cache: it compiles the step from token to token, once."""
# program: needs=transformers

import torch
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM


def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, eos_token_id=None, bos_token_id=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    settings = CompileConfig(backend="eager", fullgraph=False, dynamic=False, mode=None)
    settings._compile_all_devices = True
    model.generate(
        torch.ones(1, 4, dtype=torch.int64), max_new_tokens=5, do_sample=False,
        cache_implementation="static", compile_config=settings,
    )  # fmt: skip

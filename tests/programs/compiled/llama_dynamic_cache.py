"""transformers' own generate with the cache that it uses unless told otherwise, which grows."""
# program: needs=transformers

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, eos_token_id=None, bos_token_id=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.forward = torch.compile(model.forward, backend="eager", dynamic=False)
    # alert: recompile elsewhere=yes cause=size source="kwargs['cache'].layers[0].keys.shape[2]" expected=5 actual=6 count=2 caller=call advice="cache of fixed size.*cache_implementation" ; recompile elsewhere=yes cause=size source="kwargs['input_ids'].shape[1]" expected=4 actual=1 count=1 caller=call
    model.generate(torch.ones(1, 4, dtype=torch.int64), max_new_tokens=4, do_sample=False)  # mark: call

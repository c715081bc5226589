"""A small Llama of the transformers library writes tokens, with a static cache."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build() -> LlamaForCausalLM:
    """A model with random weights: its speed is that of a trained one."""
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=172,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def main() -> None:
    torch.manual_seed(0)
    model = build()
    prompt = torch.randint(3, 512, (2, 8))
    mask = torch.ones_like(prompt)
    out = model.generate(
        prompt,
        attention_mask=mask,
        max_new_tokens=24,
        min_new_tokens=24,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,
    )
    print(f"{out.shape[1] - prompt.shape[1]} tokens for {len(prompt)} prompts")


if __name__ == "__main__":
    main()

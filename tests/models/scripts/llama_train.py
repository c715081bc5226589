"""Two training steps of a tiny Llama with AdamW, as a user would write them."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build():
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


def main():
    torch.manual_seed(0)
    model = build()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 2):
        ids = torch.randint(0, 64, (2, 16))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss", loss.item())


if __name__ == "__main__":
    main()

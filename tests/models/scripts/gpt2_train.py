"""Two training steps of a tiny GPT-2 with AdamW."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build():
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4))


def main():
    torch.manual_seed(0)
    model = build()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        ids = torch.randint(0, 64, (2, 16))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss", loss.item())


if __name__ == "__main__":
    main()

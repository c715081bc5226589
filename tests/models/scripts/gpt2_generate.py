"""Greedy generation with a static cache from a tiny GPT-2."""

import torch
from gpt2_train import build


def main():
    torch.manual_seed(0)
    model = build().eval()
    prompt = torch.randint(0, 64, (1, 4))
    out = model.generate(
        prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False, cache_implementation="static", pad_token_id=0
    )
    print("tokens", out.tolist())


if __name__ == "__main__":
    main()

"""Models that from_pretrained puts on the device, whole and split over two."""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


def make(folder):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def main(folder, device="neuron"):
    make(folder)
    tokens = torch.arange(2, 14).reshape(1, 12)
    model = AutoModelForCausalLM.from_pretrained(folder, device_map=device)
    where = sorted({str(p.device) for p in model.parameters()})
    with torch.no_grad():
        logits = model(input_ids=tokens.to(model.device)).logits
    words = model.generate(tokens.to(model.device), max_new_tokens=4, min_new_tokens=4, do_sample=False)

    halves = [device, device] if device == "cpu" else [f"{device}:0", f"{device}:1"]
    split = AutoModelForCausalLM.from_pretrained(
        folder,
        device_map={
            "model.embed_tokens": halves[0], "model.rotary_emb": halves[0], "model.layers.0": halves[0],
            "model.layers.1": halves[1], "model.norm": halves[1], "lm_head": halves[0],
        },
    )
    split_where = sorted({str(p.device) for p in split.parameters()})
    with torch.no_grad():
        split_logits = split(input_ids=tokens).logits
    result = {
        "logits": logits[0, -1, :8].tolist(),
        "split": split_logits[0, -1, :8].tolist(),
        "words": words[0].tolist(),
    }
    print("RESULT", json.dumps({"device": str(model.device), "where": where, "split_where": split_where, **result}))


if __name__ == "__main__":
    main(*sys.argv[1:])

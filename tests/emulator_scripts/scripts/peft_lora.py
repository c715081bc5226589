"""LoRA on a small Llama: train the adapter, save it, load it into the base model, merge it."""

import json
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)


def base():
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG)


def main(folder, device="neuron"):
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(base(), lora).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.05)
    tokens = torch.randint(0, 64, (2, 12)).to(device)
    losses = []
    torch.manual_seed(1)  # the device has random numbers of its own, for the dropout
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=tokens).logits
    model.save_pretrained(folder)

    again = PeftModel.from_pretrained(base().to(device), folder).eval()
    merged = again.merge_and_unload()
    with torch.no_grad():
        merged_logits = merged(input_ids=tokens).logits
    result = {
        "losses": losses,
        "trained": len(trained),
        "weights": [p.detach().double().abs().sum().item() for p in trained],
        "logits": logits[0, -1, :8].tolist(),
        "merged": merged_logits[0, -1, :8].tolist(),
    }
    print("RESULT", json.dumps({"device": str(logits.device), **result}))


if __name__ == "__main__":
    main(*sys.argv[1:])

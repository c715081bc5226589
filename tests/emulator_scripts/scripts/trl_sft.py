"""Supervised fine-tuning with TRL: a small Llama, a tokenizer and a data set made here."""

import json
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

WORDS = ["<pad>", "<unk>", "<eos>", "the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "tree", "slept"]


def tokenizer():
    fast = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>", model_max_length=64
    )


def main(folder):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, eos_token_id=2, bos_token_id=None,
    )
    texts = ["the cat sat on a mat", "the dog ran under a tree", "a cat slept", "the dog sat"] * 3
    trainer = SFTTrainer(
        model=LlamaForCausalLM(config),
        args=SFTConfig(
            output_dir=folder, max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=1,
            learning_rate=0.01, logging_steps=1, save_strategy="steps", save_steps=4, report_to="none", bf16=False,
            max_length=64, seed=0,
        ),
        train_dataset=Dataset.from_list([{"text": text} for text in texts]),
        processing_class=tokenizer(),
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    weights = [p.detach().double().abs().sum().item() for p in trainer.model.parameters()]
    print("RESULT", json.dumps({"device": str(trainer.model.device), "losses": losses, "weights": weights}))


if __name__ == "__main__":
    main(sys.argv[1])

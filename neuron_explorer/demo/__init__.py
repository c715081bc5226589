"""A small GPT in plain torch and its training script: what the demo records."""

"""An Accelerate training loop: the device is whatever Accelerate finds."""

import json
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main(folder):
    set_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = torch.nn.Sequential(
        torch.nn.Embedding(32, 16), torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.GELU(),
        torch.nn.Linear(32, 4),
    )
    data = TensorDataset(torch.randint(0, 32, (26, 4)), torch.randint(0, 4, (26,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    model, optimizer, loader, schedule = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=4, shuffle=True), schedule
    )
    losses = []
    for tokens, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(tokens), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather_for_metrics(loss.detach()).mean().item())

    accelerator.save_state(folder)
    before = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.load_state(folder)
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))

    model.eval()
    seen, right = 0, 0
    for tokens, labels in loader:
        with torch.no_grad():
            guess = model(tokens).argmax(-1)
        guess, labels = accelerator.gather_for_metrics((guess, labels))
        seen += len(labels)
        right += (guess == labels).sum().item()
    weights = [p.double().sum().item() for p in accelerator.unwrap_model(model).state_dict().values()]
    result = {"losses": losses, "weights": weights, "restored": same, "seen": seen, "right": right}
    accelerator.print("RESULT", json.dumps({"device": str(accelerator.device), **result}))


if __name__ == "__main__":
    main(sys.argv[1])

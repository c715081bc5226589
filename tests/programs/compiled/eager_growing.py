"""Eager on the device, with a cache that grows: new artifacts in every step."""
# program: device=neuron

import torch


def main(step):
    cache = torch.zeros(1, 1, 8, device="neuron")
    token = torch.ones(1, 1, 8, device="neuron")
    for _ in range(8):
        cache = torch.cat([cache, token], 1)  # alert: shape_churn cause=growing source=aten::cat severity=medium|high advice="static cache"
        scores = (token @ cache.transpose(1, 2)).softmax(-1)
        token = scores @ cache
        step()

"""Eager on the device, with a whole number that changes: it is part of the operator."""
# program: device=neuron only=native

import torch


def main(step):
    x = torch.ones(4, device="neuron")
    for i in range(8):
        position = torch.full((1,), i, device="neuron")  # alert: shape_churn cause=number expected=2|1 actual=7 count=6|7 severity=high|medium advice="keep it in a tensor"
        x = x + position
        step()

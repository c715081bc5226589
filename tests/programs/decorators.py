"""A decorated function keeps its own lines; the wrapper's ops stay in the wrapper."""

import functools

import torch


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args):
        result = function(*args)
        return result * 2  # expect: aten::mul x2 function=doubled.<locals>.wrapper

    return wrapper


def plus(amount):
    def decorate(function):
        def wrapper(x):
            return function(x) + amount  # expect: aten::add x1

        return wrapper

    return decorate


@doubled
def sine(x):
    return torch.sin(x)  # expect: aten::sin x1 function=sine


@plus(3)
@doubled
def cosine(x):
    return torch.cos(x)  # expect: aten::cos x1 function=cosine


@torch.no_grad()
def silent(x):
    return x.tanh()  # expect: aten::tanh x1 function=silent


def main():
    x = torch.rand(4)  # expect: aten::rand
    return sine(x), cosine(x), silent(x)

"""Coroutines: ops are on the coroutine's own lines, however the loop interleaves them."""

import asyncio

import torch


async def left(x):
    x = x.sin()  # expect: aten::sin x1 function=left
    await asyncio.sleep(0)
    x = x * 2  # expect: aten::mul x1 function=left
    return x


async def right(x):
    x = x.cos()  # expect: aten::cos x1 function=right
    await asyncio.sleep(0)
    return x + 1  # expect: aten::add x1 function=right


async def both(x):
    a, b = await asyncio.gather(left(x), right(x))
    return a - b  # expect: aten::sub x1 function=both


def main():
    x = torch.rand(4)  # expect: aten::rand
    return asyncio.run(both(x))  # expect: maybe

"""A notebook cell: text known to linecache only, under the names that IPython uses."""

import linecache

import torch

CELL = """\
def block(x):  # begin: <ipython-input-3-0123456789ab>
    h = x @ x  # expect: aten::matmul|aten::mm function=block
    return h.relu()  # expect: aten::relu x1

answer = block(x) + 1  # expect: aten::add x1
"""  # end

OTHER = """\
late = x * 2  # begin: 4242424242.py  # expect: aten::mul x1
"""  # end


def run_cell(text, name, namespace):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), namespace)


def main():
    namespace = {"x": torch.rand(4, 4)}  # expect: aten::rand
    run_cell(CELL, "<ipython-input-3-0123456789ab>", namespace)
    run_cell(OTHER, "/tmp/ipykernel_4242/4242424242.py", namespace)
    return namespace["answer"], namespace["late"]

"""exec and eval of compiled text keep the file name that was given to compile()."""

import torch

TEXT = """\
def shifted(x):  # begin: generated_layer.py
    y = x + 1  # expect: aten::add x1 function=shifted
    return (
        y  # expect: aten::mul x1
        * 2
    )


result = shifted(value).exp()  # expect: aten::exp x1 function=<module>
"""  # end

EXPRESSION = """\
value.sin() + 1  # begin: an_expression.py  # expect: aten::sin x1; aten::add x1
"""  # end


def main():
    x = torch.rand(4)  # expect: aten::rand
    namespace = {"value": x}
    exec(compile(TEXT, "generated_layer.py", "exec"), namespace)
    z = eval(compile(EXPRESSION.strip(), "an_expression.py", "eval"), {"value": x})
    return namespace["result"], z

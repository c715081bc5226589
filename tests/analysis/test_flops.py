"""FLOPs and bytes of operator calls: on paper, against torch's own counter, and on texts that make no sense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.analysis.flops import cost_of, counts_by_parts, has_model, moves_nothing, why_not
from neuron_explorer.analysis.signature import MOST_ELEMENTS, Tensor, parse


def call(name, *arguments, dtype="float32"):
    """The cost of a call: lists are shapes, tuples (shape, dtype), anything else a plain argument in a list."""
    shapes, dtypes, values = [], [], []
    for a in arguments:
        if isinstance(a, tuple):
            shape, of = a
            shapes.append(shape), dtypes.append(of), values.append(None)
        elif isinstance(a, list):
            shapes.append(a), dtypes.append(dtype), values.append(None)
        else:
            shapes.append(None), dtypes.append(None), values.append(a["is"] if isinstance(a, dict) else a)
    return cost_of(name, json.dumps(shapes), json.dumps(dtypes), json.dumps(values))


@pytest.mark.parametrize(
    ("name", "arguments", "flops", "read", "written"),
    [
        # 2·m·k·n, four bytes an element
        ("aten::mm", ([3, 4], [4, 5]), 120, 4 * (12 + 20), 4 * 15),
        ("aten::addmm", ([5], [3, 4], [4, 5]), 120, 4 * (5 + 12 + 20), 4 * 15),
        ("aten::bmm", ([2, 3, 4], [2, 4, 5]), 240, 4 * (24 + 40), 4 * 30),
        ("aten::mv", ([3, 4], [4]), 24, 4 * 16, 4 * 3),
        ("aten::dot", ([7], [7]), 14, 4 * 14, 4),
        # one addition for each element of the broadcast result
        ("aten::add.Tensor", ([2, 3], [3], 1), 6, 4 * 9, 4 * 6),
        ("aten::add_.Tensor", ([2, 3], [3], 1), 6, 4 * 9, 4 * 6),
        ("aten::add.out", ([2, 3], [3], 1, [2, 3]), 6, 4 * 9, 4 * 6),
        ("aten::addcmul_", ([4], [4], [4], 0.5), 12, 4 * 12, 4 * 4),
        ("aten::sum.dim_IntList", ([4, 5], {"is": [1]}, False), 20, 80, 16),
        ("aten::sum", ([4, 5], None), 20, 80, 4),
        ("aten::mean.dim", ([4, 5], {"is": [0, 1]}, False), 20, 80, 4),
        ("aten::copy_", ([6], [6], False), 0, 24, 24),
        ("aten::zero_", ([6],), 0, 0, 24),
        ("aten::_softmax", ([2, 8], -1, False), 80, 64, 64),
        ("aten::view", ([6], {"is": [2, 3]}), 0, 0, 0),
    ],
)
def test_on_paper(name, arguments, flops, read, written):
    cost = call(name, *arguments)
    assert (cost.flops, cost.bytes_read(), cost.bytes_written()) == (flops, read, written)


def test_comparisons_and_whole_numbers_count_by_their_bytes():
    assert call("aten::eq.Tensor", [8], [8]).flops == 0
    assert call("aten::eq.Tensor", [8], [8]).bytes_written() == 8  # one byte a truth value
    assert call("aten::add.Tensor", ([8], "int64"), ([8], "int64")).flops == 0
    assert call("aten::add.Tensor", ([8], "int64"), ([8], "int64")).bytes_read() == 128


def test_numbers_do_not_widen_a_tensor():
    cost = call("aten::mul.Tensor", ([8], "bfloat16"), ([], "float64"))
    assert cost.dtype == "bfloat16"
    assert cost.bytes_written() == 16


def test_the_device_keeps_64_bits_in_32():
    cost = call("aten::copy_", ([8], "int64"), ([8], "int64"))
    assert (cost.bytes_read(), cost.bytes_read(narrowed=True)) == (64, 32)


def test_embedding_reads_the_rows_it_takes():
    cost = call("aten::embedding", [1000, 16], ([4, 3], "int64"), -1)
    assert cost.bytes_read() == 12 * 16 * 4 + 12 * 8
    assert cost.bytes_written() == 12 * 16 * 4


def test_a_causal_step_of_attention():
    q = [2, 4, 8, 16]
    forward = call("aten::_scaled_dot_product_fused_attention_overrideable", q, q, q)
    assert forward.flops == 2 * 2 * 4 * 8 * 8 * 16 * 2  # two products of 8×16×8 for each of 8 heads
    backward = call("aten::_scaled_dot_product_fused_attention_overrideable_backward", q, q, q, q)
    assert backward.flops == forward.flops * 5 // 2


def test_fused_optimizer_counts_every_list():
    lists = [[[10, 10], [10]]] * 4
    text = json.dumps([*lists, [], None])
    dtypes = json.dumps([*[["float32", "float32"]] * 4, None, None])
    cost = cost_of("aten::_fused_adamw_", text, dtypes)
    assert cost.bytes_read() == 4 * 110 * 4  # parameters, gradients, two moments
    assert cost.bytes_written() == 3 * 110 * 4  # all but the gradients


def test_long_lists_need_the_number_of_their_elements():
    head = [[4]] * 8
    dtypes = json.dumps([["float32"] * 8, None])
    cut = json.dumps([[*head, "42 more"], None])
    assert cost_of("aten::_foreach_add_.Scalar", cut, dtypes) is None
    assert "head of a long list" in why_not("aten::_foreach_add_.Scalar", cut, dtypes)
    known = cost_of("aten::_foreach_add_.Scalar", json.dumps([[*head, "42 more, 1000 elements"], None]), dtypes)
    assert known.flops == 8 * 4 + 1000
    assert known.bytes_written() == 4 * 1032


def test_without_a_model_nothing_is_guessed():
    for name in ("aten::_unique2", "aten::linalg_svd", "mylib::swish", "aten::sort.stable"):
        assert not has_model(name)
        assert call(name, [3, 4]) is None
    assert why_not("mylib::swish", "[[3]]", '["float32"]') == "no model"
    assert cost_of("aten::mm", None, None) is None
    assert why_not("aten::mm", None, None) == "shapes not recorded"
    assert call("aten::mm", [3, 4], [5, 6]) is None  # sizes that do not fit


def test_names_say_what_kind_of_operator_it_is():
    assert moves_nothing("aten::t") and moves_nothing("detach") and moves_nothing("autograd::engine::x")
    assert not moves_nothing("mylib::t")
    assert counts_by_parts("aten::linear") and not counts_by_parts("mylib::linear")


# ---------------------------------------------------------------- against torch


def programs(torch):
    F = torch.nn.functional

    def mlp():
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                                  torch.nn.Linear(16, 4, bias=False))  # fmt: skip
        net(torch.ones(3, 5, 8)).sum().backward()

    def convolutions():
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
            torch.nn.ConvTranspose2d(8, 6, 3, stride=2, output_padding=1), torch.nn.Conv2d(6, 6, 3, dilation=2),
            torch.nn.MaxPool2d(2),
        )  # fmt: skip
        net(torch.ones(2, 3, 17, 19)).sum().backward()

    def one_dimension():
        torch.nn.Conv1d(4, 6, 3, padding=1)(torch.ones(2, 4, 9)).sum().backward()

    def grouped():
        torch.nn.Conv2d(8, 8, 3, groups=4)(torch.ones(2, 8, 9, 9))

    def products():
        a, b = torch.ones(3, 4, 5, requires_grad=True), torch.ones(3, 5, 6, requires_grad=True)
        (a @ b).sum().backward()
        torch.baddbmm(torch.ones(3, 4, 6), a.detach(), b.detach())
        torch.einsum("bij,bjk->bik", a, b)

    def plain_attention():
        q = torch.ones(2, 4, 7, 16, requires_grad=True)
        k = torch.ones(2, 4, 9, 16, requires_grad=True)
        (F.softmax(q @ k.transpose(-1, -2), -1) @ k).sum().backward()

    return (mlp, convolutions, one_dimension, grouped, products, plain_attention)


@pytest.mark.parametrize("number", range(6))
def test_matrix_work_is_that_of_torchs_counter(number):
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    from neuron_explorer.trace.recorders.twin_signature import argument_values, describe

    class Ours(TorchDispatchMode):
        total = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            s = describe(argument_values(func, args, kwargs or {}), True)
            cost = cost_of(func.name(), s.shapes, s.dtypes, s.arguments)
            self.total += cost.flops if cost is not None and cost.unit == "matrix" else 0
            return func(*args, **(kwargs or {}))

    program = programs(torch)[number]
    with FlopCounterMode(display=False) as theirs:
        program()
    with Ours() as ours:
        program()
    assert ours.total == theirs.get_total_flops() > 0


def test_attention_is_counted_as_torch_counts_it():
    pytest.importorskip("torch")
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    q, k, v = (2, 4, 7, 16), (2, 4, 9, 16), (2, 4, 9, 12)
    ours = call("aten::_scaled_dot_product_flash_attention_for_cpu", list(q), list(k), list(v))
    assert ours.flops == sdpa_flop_count(q, k, v)
    grad = (2, 4, 7, 12)
    ours = call("aten::_scaled_dot_product_flash_attention_for_cpu_backward", list(grad), list(q), list(k), list(v))
    assert ours.flops == sdpa_backward_flop_count(grad, q, k, v)


# ---------------------------------------------------------------- texts from elsewhere


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["float32", "42 more", "a", ""]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)  # fmt: skip
NAMES = st.sampled_from(
    ["aten::mm", "aten::addmm", "aten::convolution", "aten::convolution_backward", "aten::sum.dim_IntList", "aten::cat",
     "aten::embedding", "aten::max_pool2d_with_indices", "aten::_foreach_add_.List", "aten::_fused_adamw_",
     "aten::native_layer_norm", "aten::add.out", "aten::where.self", "aten::index_select", "aten::linear",
     "aten::_scaled_dot_product_flash_attention_backward", "aten::embedding_dense_backward", "aten::var.correction"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(NAMES, st.lists(JSON, max_size=7), st.lists(JSON, max_size=7), st.lists(JSON, max_size=7))
def test_any_text_has_an_answer_or_none(name, shapes, dtypes, arguments):
    cost = cost_of(name, json.dumps(shapes), json.dumps(dtypes), json.dumps(arguments))
    assert cost is None or (cost.flops >= 0 and cost.bytes_read() >= 0 and cost.bytes_written() >= 0)


@settings(max_examples=200, deadline=None)
@given(NAMES, st.lists(st.lists(st.integers(0, 40), max_size=5), min_size=1, max_size=11), JSON)
def test_any_shapes_have_an_answer_or_none(name, shapes, argument):
    dtypes = ["float32"] * len(shapes)
    texts = (json.dumps([*shapes, None]), json.dumps([*dtypes, None]), json.dumps([None] * len(shapes) + [argument]))
    cost = cost_of(name, *texts)
    assert cost is None or cost.flops >= 0


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[" * 5000, "{}", '["too long"]', "[[-1]]", f"[[{1 << 80}]]", "[[2.5]]", "[[true]]",
             f"[[{MOST_ELEMENTS}, 2]]", "[" + ",".join(["[1]"] * 40_000) + "]"],
)  # fmt: skip
def test_sizes_that_cannot_be_are_no_sizes(text):
    assert parse(text, '["float32"]', None) is None


def test_a_signature_keeps_its_arguments_apart():
    signature = parse('[[2,3],[[4],[5],"7 more"],null,[]]', '["float32",["int64","int64","7 more"],null,"float64"]',
                      '[null,null,[1,2],null]')  # fmt: skip
    assert signature.tensor(0) == Tensor((2, 3), "float32")
    assert [t.shape for t in signature.tensors] == [(2, 3), (4,), (5,), ()]
    assert signature.value(2) == [1, 2]
    assert signature.cut == 7

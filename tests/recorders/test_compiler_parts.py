"""Parts of the compiler recorder that need no compiler: values, texts of breaks, structured records."""

from __future__ import annotations

import json
import types

import pytest

from neuron_explorer.trace.compiles import Place, Reason
from neuron_explorer.trace.notices import RecompileWarning, warn_at
from neuron_explorer.trace.recorders.compiler_breaks import read_break
from neuron_explorer.trace.recorders.compiler_nearest import mismatches
from neuron_explorer.trace.recorders.compiler_reasons import read
from neuron_explorer.trace.recorders.compiler_structured import facts_of
from neuron_explorer.trace.recorders.compiler_values import found_value, with_found_value
from neuron_explorer.trace.recorders.torch_compiler_private import backend_of

torch = pytest.importorskip("torch")


class Hostile:
    """Runs code of the program's whenever it is asked anything."""

    def __init__(self):
        self.plain = 3
        self.inner = types.SimpleNamespace(scale=2.5)

    @property
    def computed(self):
        raise AssertionError("a property was asked")

    def __getattr__(self, name):
        raise AssertionError("an attribute was asked")

    def __repr__(self):
        raise AssertionError("a text was asked")

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = None

    def __len__(self):
        raise AssertionError("a length was asked")


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_, **__):
        raise AssertionError("a subclass was asked")


def look_up(guard, cause="python_value", source="", dimension=-1, **local):
    reason = Reason(guard, cause, guard, source, dimension=dimension)
    return found_value(reason, local, {"SCALE": 11})


class Net(torch.nn.Module):
    limit = 5

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)])


@pytest.mark.parametrize(
    ("guard", "value"),
    [
        ("n == 3", "4"),
        ("L['n'] == 3  # y = x * n  # a.py:3 in f", "4"),
        ("3 == n", "4"),
        ("not (n == 4)", "4"),
        ("name == 'left'", "'right'"),
        ("SCALE == 10", "11"),
        ("G['SCALE'] == 10", "11"),
        ("items[1] == 5", "6"),
        ("items[-1] == 5", "6"),
        ("len(items) == 3", "2"),
        ("table['a'] == 1", "2"),
        ("self.plain == 1", "3"),
        ("self.inner.scale == 1.0", "2.5"),
        ("net.limit == 4", "5"),
        ("net.training == False", "True"),
        ("net.layers[0].training == False", "True"),
        ("net._modules['layers']._modules['0'].training == False", "True"),
        ("x.size()[0] == 3", "2"),
        ("x.size(1) == 3", "7"),
        ("x.stride()[0] == 3", "7"),
        ("x.shape[1] == 3", "7"),
        ("x.dtype == torch.float64", "torch.float32"),
        ("cell.cell_contents == 1", "9"),
        ("flag is None", "True"),
        ("kind is None", "Hostile"),
        ("pair == (1, 2)", "(1, 3)"),
    ],
)
def test_values(guard, value):
    hostile = Hostile()
    local = {
        "n": 4, "name": "right", "items": [1, 6], "table": {"a": 2}, "self": hostile, "net": Net(),
        "x": torch.ones(2, 7), "cell": types.CellType(9), "flag": True, "kind": Hostile, "pair": (1, 3),
    }  # fmt: skip
    assert look_up(guard, **local) == value


@pytest.mark.parametrize(
    "guard",
    ["self.computed == 1", "self.absent == 1", "len(self) == 1", "f(n) == 2", "n + 1 == 2", "missing == 1",
     "self[0] == 1", "x.size(5) == 2", "sub.shape[0] == 2", "(", "", "n" * 3000, "__import__('os').getcwd() == 1"],
)  # fmt: skip
def test_what_would_run_the_programs_code_is_not_looked_up(guard):
    reason = Reason(guard, "python_value", guard)
    local = {"self": Hostile(), "n": 1, "x": torch.ones(2), "sub": torch.ones(2).as_subclass(Subclass)}
    assert with_found_value(reason, local, {}).actual == ""


def test_objects_are_named_by_their_type():
    assert look_up("___check_obj_id(h, 123)", "object_identity", h=Hostile()) == "an object of type Hostile"
    assert look_up("", "object_identity", source="h", h=Hostile()) == "an object of type Hostile"
    assert look_up("", "size", source="x", x=torch.ones(2, 3)) == "[2, 3]"
    assert look_up("", "size", source="x", dimension=1, x=torch.ones(2, 3)) == "3"
    assert look_up("", "requires_grad", source="x", x=torch.ones(2, requires_grad=True)) == "True"
    assert look_up("x == 1", x=torch.ones(2)) == "a tensor [2] of float32"
    assert len(look_up("x == 1", x="a" * 10_000)) < 200
    assert look_up("x == 1", x=1 << 5000) == "a large integer"


def test_a_mode_of_the_programs_is_not_asked():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, *_, **__):
            raise AssertionError("a mode was asked")

    x = torch.ones(2, 3)
    with Mode():
        assert look_up("x.size()[1] == 4", "size", x=x) == "3"


def test_known_values_stay():
    reason = Reason("n == 3", "python_value", "n == 3", "n", "3", "5")
    assert with_found_value(reason, {"n": 4}, {}) is reason


def test_grad_mode_is_one_of_two():
    reason = Reason("GLOBAL_STATE changed: grad_mode ", "grad_mode", "GLOBAL_STATE changed: grad_mode")
    with torch.no_grad():
        found = with_found_value(reason, {}, {})
    assert (found.expected, found.actual) == ("True", "False")
    text = "GLOBAL_STATE changed: autocast(cpu)_enabled "
    with torch.autocast("cpu"):
        found = with_found_value(Reason(text, "grad_mode", text), {}, {})
    assert (found.expected, found.actual) == ("False", "True")


def test_lengths_are_said_as_the_expected_one():
    reason = Reason("len(items) == 1", "python_value", "len(items) == 1", "items", "1 item")
    assert with_found_value(reason, {"items": [1, 2]}, {}).actual == "2 items"
    assert with_found_value(reason, {"items": [1]}, {}) is reason


# Breaks --------------------------------------------------------------------------------------


BREAK = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`
    with argument types ['str']
  Hint: Avoid calling builtin `print`.
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print [str] False

 For more details about this graph break, please visit: https://example.org/gb0059.html

from user code:
   File "a.py", line 3, in f
"""


def test_text_of_a_break():
    read = read_break(BREAK, "")
    assert read.type == "Failed to trace builtin operator"
    assert read.reason == "Failed to trace builtin operator (builtin print [str] False)"
    assert read.explanation.endswith("`print` with argument types ['str']")
    assert read.hints == ("Avoid calling builtin `print`.", "Please report an issue to PyTorch.")


def test_text_of_a_break_of_another_form():
    read = read_break("something\nnew", "kind of break")
    assert (read.type, read.reason, read.explanation, read.hints) == ("kind of break", "something new", "", ())
    assert read_break("").type == ""


# The log behind TORCH_TRACE ------------------------------------------------------------------


def test_structured_records():
    assert facts_of({"inductor_output_code": {"filename": "/tmp/x.py"}}, "abc") == (
        "inductor_output_code",
        {"inductor_output_code_characters": 3},
    )
    payload = json.dumps({"key": "f00", "cache_state": "miss", "components": ["long"], "time_saved_ms": 3})
    _, facts = facts_of({"artifact": {"name": "fx_graph_cache_miss", "encoding": "json"}}, payload)
    assert facts == {"fx_graph_cache_miss": {"key": "f00", "cache_state": "miss", "time_saved_ms": 3}}
    assert facts_of({"artifact": {"name": "other"}}, "x") == ("other", {})
    assert facts_of({"chromium_event": {}}, "{}") == ("chromium_event", {})
    assert facts_of({}, None) == ("", {})


# Warnings ------------------------------------------------------------------------------------


def test_warning_leaves_the_programs_modules_alone(recwarn):
    place = Place(__file__, 3, "f")
    warn_at("again", RecompileWarning, place)
    warn_at("again", RecompileWarning, place)  # not only once a place
    assert [str(w.message) for w in recwarn] == ["again", "again"]
    assert recwarn[0].filename == __file__
    assert "again" not in str(globals().get("__warningregistry__", ""))


def test_warning_never_raises(capsys):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_at("again", RecompileWarning, Place("<string>", -1, "f"))
    assert capsys.readouterr().err == "neuron-explorer: again\n"


# The version that nearly fitted --------------------------------------------------------------


def version(n, size, dtype="torch.float32", grad=False):
    return [
        "___check_global_state() against {}",
        f"L['n'] == {n}",
        f"check_tensor(L['x'], Tensor, DispatchKeySet(CPU, AutogradCPU), {dtype}, device=None, requires_grad={grad}, "
        f"size={size}, stride=[1])",
        "L['x'].foo() == 3",
        "___check_type_id(L['n'], 123)",
    ]


def test_failed_guards_are_counted():
    local = {"n": 3, "x": torch.ones(2, 5)}
    assert mismatches(version(3, "[2, 5]"), local, {}) == 0
    assert mismatches(version(3, "[None, 5]"), local, {}) == 0
    assert mismatches(version(3, "[2]"), local, {}) == 1
    assert mismatches(version(4, "[2, 4]"), local, {}) == 2
    assert mismatches(version(4, "[1, 4]", "torch.float64", True), local, {}) == 5
    assert mismatches(version("'3'", "[2, 5]"), local, {}) == 1
    assert mismatches(version(3.0, "[2, 5]"), local, {}) == 1


def test_nearest_version_comes_first():
    """The first version differs in size and number, the last one in the number alone."""
    texts = [f"0/{k}: n == {k + 9}" for k in (3, 2, 1)] + [
        "0/0: tensor 'x' size mismatch at index 0. expected 3, actual 5"
    ]
    guards = {f"0/{k}": version(k + 9, "[5]") for k in (1, 2, 3)} | {"0/0": version(2, "[3]")}
    reasons = read(texts, guards, {"n": 13, "x": torch.ones(5)}, {})
    assert [reason.entry for reason in reasons] == ["0/3", "0/2", "0/1", "0/0"]
    assert (reasons[0].cause, reasons[0].expected, reasons[0].actual) == ("python_value", "12", "13")
    local = {"n": 2, "x": torch.ones(5)}
    assert read(texts, guards, local, {})[0].entry in ("0/3", "0/0")  # one failure each
    assert read(["0/0: n == 1"], {}, {}, {})[0].entry == "0/0"


# --- names of backends


def test_the_backend_inside_torchs_switch_for_compiled_autograd():
    def inner_compiler(gm, inputs): ...

    assert backend_of(inner_compiler)[0] == "inner_compiler"
    inner_compiler.__module__ = "torch._dynamo.utils"
    assert backend_of(inner_compiler)[0] == "inductor"

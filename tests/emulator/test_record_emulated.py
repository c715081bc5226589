"""`record --emulate`: programs for Trainium run unchanged, and their processes too."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import neuron_explorer
from neuron_explorer.analysis.readiness import readiness

pytest.importorskip("torch", reason="recording needs torch")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not any(shutil.which(c) for c in ("g++", "c++", "clang++")),
    reason="the device is built on Linux with a C++ compiler",
)

Run = Callable[..., subprocess.CompletedProcess[str]]

TRAIN = """\
import sys
import torch
import torch_neuronx

device = torch.device("neuron")
model = torch.nn.Linear(8, 2).to(device)
for step in range(2):
    loss = model(torch.ones(4, 8).to(device)).pow(2).mean()
    loss.backward()
    print("loss", loss.item())
odd = torch.lgamma(loss.detach())
torch.compile(model, backend="neuron")(torch.ones(4, 8, device=device))
torch.neuron.synchronize()
print(sys.argv[1:], torch_neuronx.get_fallback_ops())
"""


def record(run_python: Run, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "neuron_explorer", "record", "--emulate", *arguments, **variables)


def test_a_script_for_the_device(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = record(run_python, "train.py", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert "['--epochs', '3'] ['aten::lgamma.out'" in done.stdout
    with neuron_explorer.load(tmp_path / "trace.parquet") as trace:
        device = trace.metadata["device"]
        assert (device["type"], device["emulated"], device["count"]) == ("neuron", True, 2)
        graphs = trace.sql_arrow(
            "SELECT line, detail FROM events WHERE kind = 'compile' AND detail LIKE '%graph of %'"
        ).to_pylist()
        rows = trace.sql_arrow("SELECT kind, name, line FROM events WHERE kind IN ('fallback', 'sync')").to_pylist()
    assert {"kind": "fallback", "name": "aten::lgamma", "line": 11} in rows or {
        "kind": "fallback", "name": "aten::lgamma.out", "line": 11,
    } in rows, rows  # fmt: skip
    assert any(row["kind"] == "sync" and row["line"] == 10 for row in rows)
    assert [row["line"] for row in graphs] == [12], graphs


def test_the_package_may_be_imported_first(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text("import torch_neuronx, torch\nprint('child', torch.neuron.is_available())\n")
    (tmp_path / "train.py").write_text(
        "import torch_neuronx\nimport subprocess, sys\nimport torch\n"
        "print(torch_neuronx.is_emulated, torch.ones(1, device='neuron').device)\n"
        "subprocess.run([sys.executable, 'child.py'], check=True)\n"
    )
    done = record(run_python, "train.py")
    assert done.returncode == 0, done.stderr
    assert "True neuron:0" in done.stdout and "child True" in done.stdout


def test_a_module(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "__main__.py").write_text("import torch\nprint(torch.ones(2, device='neuron:1').device)\n")
    done = record(run_python, "-m", "job")
    assert done.returncode == 0, done.stderr
    assert "neuron:1" in done.stdout


def test_processes_that_the_program_starts(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text("import torch\nprint(torch.ones(2, device='neuron').sum().item())\n")
    (tmp_path / "parent.py").write_text(
        "import multiprocessing, subprocess, sys, torch\n"
        "def work(x):\n"
        "    print('worker', torch.full((2,), x, device='neuron').sum().item(), flush=True)\n"
        "if __name__ == '__main__':\n"
        "    torch.ones(2, device='neuron') * 2\n"
        "    subprocess.run([sys.executable, 'child.py'], check=True)\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=work, args=(3,))\n"
        "    worker.start()\n"
        "    worker.join()\n"
    )
    done = record(run_python, "parent.py")
    assert done.returncode == 0, done.stderr
    assert "2.0" in done.stdout and "worker 6" in done.stdout, done.stdout + done.stderr


def test_a_real_torch_neuronx_is_not_replaced(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "torch_neuronx").mkdir()
    (tmp_path / "torch_neuronx" / "__init__.py").write_text("")
    (tmp_path / "train.py").write_text("print('it ran')\n")
    done = record(run_python, "train.py", PYTHONPATH=f"{Path(neuron_explorer.__file__).parents[1]}:{tmp_path}")
    assert done.returncode == 5
    assert "a real torch_neuronx is installed" in done.stderr and "it ran" not in done.stdout
    assert "Traceback" not in done.stderr


def test_another_backend_holds_the_slot(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "torch.utils.rename_privateuse1_backend('other')\n"
        "from neuron_explorer.neuron import emulator\n"
        "try:\n    emulator.enable()\nexcept emulator.EmulatorError as error:\n    print(error)\n"
    )
    done = run_python("train.py")
    assert "PrivateUse1 slot is taken by the backend 'other'" in done.stdout, done.stderr


def test_without_a_compiler_it_says_so(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint('it ran')\n")
    done = record(run_python, "train.py", PATH=str(tmp_path), CXX="", NEURON_EXPLORER_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 5
    assert "the emulated device cannot be built: there is no C++ compiler; install g++" in done.stderr
    assert "Traceback" not in done.stderr and "it ran" not in done.stdout
    assert "never imported torch" not in done.stderr


SETTINGS = """
from neuron_explorer.neuron import emulator
print(emulator.enable())
import torch, torch_neuronx
x = torch.ones(3, device="neuron")
print(torch.neuron.device_count(), torch.neuron.get_device_properties().total_memory)
x = (x + 1) * 2
print(torch_neuronx.get_fallback_ops())
stats = torch_neuronx._C._get_compilation_cache_stats()
print(stats["persistent_hits"], stats["persistent_misses"])
"""


def test_settings_from_the_environment(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "ops.txt").write_text("# mine\naten::add.Tensor  # the one\nfill_.Scalar\n")
    variables = {
        "NEURON_EXPLORER_EMULATOR_DEVICES": "3",
        "NEURON_EXPLORER_EMULATOR_MEMORY": "1000000",
        "NEURON_EXPLORER_EMULATOR_NATIVE_OPS": str(tmp_path / "ops.txt"),
        "NEURON_EXPLORER_EMULATOR_CACHE": str(tmp_path / "cache"),
    }
    first = run_python("-c", SETTINGS, **variables)
    assert "3 1000000" in first.stdout, first.stderr
    assert "['aten::mul.out']" in first.stdout
    assert first.stdout.endswith("0 2\n")
    second = run_python("-c", SETTINGS, **variables)
    assert second.stdout.endswith("2 0\n"), second.stdout  # known from disk


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DEVICES", "many", "must be a whole number"),
        ("DEVICES", "65", "1 to 64 devices"),
        ("MEMORY", "0", "at least one byte"),
        ("NATIVE_OPS", "/nowhere/ops.txt", "cannot be read"),
        ("DYNAMIC", "maybe", "'error' or 'specialise'"),
    ],
)
def test_bad_settings_are_one_line(name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer.neuron import emulator

    monkeypatch.setenv(f"NEURON_EXPLORER_EMULATOR_{name}", value)
    with pytest.raises(emulator.EmulatorError, match=said):
        emulator.enable()
    assert emulator.enabled() is None


CUSTOM = """\
import torch


@torch.library.custom_op("mine::gate", mutates_args=(), device_types="neuron")
def gate(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)


@gate.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("mine::gate_backward", mutates_args=(), device_types="neuron")
def gate_backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    s = torch.sigmoid(x)
    return g * (s + x * s * (1 - s))


@gate_backward.register_fake
def _(g, x):
    return torch.empty_like(x)


gate.register_autograd(
    lambda ctx, g: gate_backward(g, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.inner(x)
        h = gate(h)
        return h.sum()


model = Model().to("neuron")
x = torch.ones(2, 4, device="neuron")
model(x).backward()
torch.compile(model, backend="neuron", fullgraph=True)(x).backward()
"""


def test_a_custom_operator_eager_and_compiled(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "custom.py").write_text(CUSTOM)
    done = record(run_python, "custom.py")
    assert done.returncode == 0, done.stderr
    lines = CUSTOM.splitlines()
    call = lines.index("        h = gate(h)") + 1
    formula = lines.index("    lambda ctx, g: gate_backward(g, *ctx.saved_tensors),") + 1
    with neuron_explorer.load(tmp_path / "trace.parquet") as trace:
        rows = trace.sql_arrow(
            "SELECT name, file, line, phase, attribution, detail FROM events WHERE name LIKE 'mine::%' "
            'GROUP BY ALL ORDER BY min("start")'
        ).to_pylist()
        linear = trace.sql_arrow(
            "SELECT DISTINCT line FROM events WHERE name = 'aten::addmm' AND attribution = 'compiled_graph'"
        ).to_pylist()
        report = readiness(trace)
    found = [(r["name"], r["line"], r["phase"], r["attribution"], json.loads(r["detail"])["kernel"]) for r in rows]
    kernel, backward = (
        {"function": name, "file": "custom.py", "line": lines.index(text) + 1}
        for name, text in (
            ("gate", "def gate(x: torch.Tensor) -> torch.Tensor:"),
            ("gate_backward", "def gate_backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:"),
        )
    )
    assert found == [
        ("mine::gate", call, "forward", "stack", kernel),
        ("mine::gate_backward", formula, "backward", "stack", backward),
        ("mine::gate", call, "forward", "compiled_graph", kernel),
        # In a compiled graph the backward formula is gone: the line is that of the forward call.
        ("mine::gate_backward", call, "backward", "compiled_graph", backward),
    ]
    assert linear == [{"line": lines.index("        h = self.inner(x)") + 1}]
    status = {o.name: o.status for o in report.operators}
    assert {name: how for name, how in status.items() if name.startswith("mine::")} == {
        "mine::gate": "native", "mine::gate_backward": "native",
    }  # fmt: skip

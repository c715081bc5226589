"""The calling-context tree of a trace: what its frames' names say, and whose code they are.

torch.profiler names a frame ``file(line): function``. In its Python events the line is where the
function is defined; in the call stacks that are written inside operators it is the line that ran.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...paths import PathRules
from ...text import TextTable
from ...write import Coded
from .reader import MAX_FRAMES
from .texts import Texts

__all__ = ["DEFINITION", "FrameTree", "Frames"]

_FRAME: Final = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\): (?P<function>.*)", re.DOTALL)
_NAMED: Final = re.compile(rb"([^\\]{1,500}) \(([^\\]{1,2000}):(\d{1,9})\)")
_MODULE: Final = "nn.Module: "
_PACKAGES: Final = frozenset({
    "torch", "torchvision", "torchaudio", "torchtext", "functorch", "triton", "numpy", "scipy", "pandas", "PIL",
    "transformers", "accelerate", "datasets", "diffusers", "peft", "trl", "tokenizers", "huggingface_hub", "timm",
    "lightning", "pytorch_lightning", "lightning_fabric", "torchmetrics", "deepspeed", "megatron", "apex", "vllm",
    "sglang", "flash_attn", "xformers", "einops", "wandb", "tqdm", "fairscale", "fbgemm_gpu", "torchrec", "torch_xla",
    "torch_neuronx", "neuronx_distributed", "ignite", "hydra", "omegaconf", "ray", "IPython", "ipykernel", "jax",
    "flax", "sklearn", "joblib", "matplotlib", "traitlets", "tornado", "zmq", "click", "typer", "fire", "absl",
})  # fmt: skip
"""Installed packages, whose files torch.profiler names without the directory that they are in."""
_BUILT_IN: Final = ("<built-in", "<frozen", "<string>", "<method ", "<slot ")
DEFINITION: Final = "definition"
_DEEPEST: Final = 2000
_MODULE_BYTES: Final = 64 << 20
"""Of all paths of modules: names that grow with every call belong to no model."""


@dataclass(frozen=True)
class Frames:
    """Per node of the tree; node 0 stands for none. ``place`` is equal for equal (file, line)."""

    parent: np.ndarray
    file: np.ndarray
    line: np.ndarray
    function: np.ndarray
    user: np.ndarray
    library: np.ndarray
    shown: np.ndarray  # the node whose line is shown: the nearest user frame, else the nearest outside torch, 0
    exact: np.ndarray
    module: np.ndarray  # code into modules
    in_module: np.ndarray
    checkpoint: np.ndarray  # the nearest node of torch's activation checkpointing, 0
    place: np.ndarray
    files: TextTable
    functions: TextTable
    modules: TextTable
    shown_files: dict[str, str]  # as the source names them → as the trace does

    def columns(self) -> dict[str, Any]:
        """Rows of kind frame."""
        from ... import schema

        values = tuple(schema.ATTRIBUTIONS)
        how = np.where(self.library, values.index("library_frame"), -1)
        how = np.where(self.user, values.index("stack"), how)
        count = len(self.parent) - 1
        return {
            "kind": "frame", "id": np.arange(1, count + 1),
            "parent": np.where(self.parent[1:] > 0, self.parent[1:], -1),
            "file": self.files.column(self.file[1:]), "line": self.line[1:],
            "function": self.functions.column(self.function[1:]), "attribution": Coded(how[1:], values),
        }  # fmt: skip


class FrameTree:
    """Grows from the nodes that nesting found and from call stacks in arguments."""

    def __init__(self, parent: np.ndarray, name: np.ndarray, texts: Texts) -> None:
        self._texts = texts
        self._parent = parent.tolist()
        self._name = [texts.content(n) if n else "" for n in name.tolist()]
        self._exact = [False] * len(self._parent)
        self._children: dict[tuple[int, str], int] = {}
        self._stacks: dict[int, int] = {0: 0}
        self.refused = 0

    @property
    def from_python_events(self) -> bool:
        """Whether any frame is known from an event of its own."""
        return not all(self._exact[1:]) and len(self._parent) > 1

    def of_stack(self, number: int) -> int:
        """The node of a call stack that an argument holds: frames separated by ``;``, innermost first."""
        known = self._stacks.get(number)
        if known is None:
            node = 0
            for name in reversed(self._texts.content(number).split(";")[:_DEEPEST]):
                if name:
                    node = self._child(node, name)
            known = self._stacks[number] = node
        return known

    def of_names(self) -> np.ndarray:
        """By number of a text: the node of a function whose name has its file (``f (file:line)``, as VizTracer has)."""
        nodes = np.zeros(len(self._texts), np.int64)
        for number, raw in enumerate(self._texts.all()):
            found = _NAMED.fullmatch(raw) if raw.endswith(b")") else None
            if found is not None:
                function, file, line = (part.decode("utf-8", "replace") for part in found.groups())
                nodes[number] = self._child(0, f"{file}({line}): {function}")
                self._exact[int(nodes[number])] = False
        return nodes

    def _child(self, parent: int, name: str) -> int:
        known = self._children.get((parent, name))
        if known is None:
            if len(self._parent) >= MAX_FRAMES:
                self.refused += 1
                return parent
            known = self._children[parent, name] = len(self._parent)
            self._parent.append(parent)
            self._name.append(name)
            self._exact.append(True)
        return known

    def frames(self) -> Frames:
        """Everything about the frames."""
        known = {name: _parsed(name) for name in dict.fromkeys(self._name)}
        parsed = [known[name] for name in self._name]
        rules = _rules({p[0] for p in parsed})
        files, functions, modules = TextTable(), TextTable(), TextTable()
        count = len(parsed)
        infos = [rules.info(p[0]) if p[0] else None for p in parsed]
        user = np.fromiter((i is not None and i.user for i in infos), bool, count)
        library = np.fromiter((i is not None and not i.user and not i.torch for i in infos), bool, count)
        file = np.fromiter((files.code(i.shown) if i else -1 for i in infos), np.int32, count)
        line = np.fromiter((p[1] for p in parsed), np.int32, count)
        parent = np.array(self._parent, np.int64)
        module, in_module = self._modules(parsed, modules)
        return Frames(
            parent=parent, file=file, line=line, function=functions.codes(p[2] for p in parsed), user=user,
            library=library, shown=_shown(parent, user, library), exact=np.array(self._exact, bool), module=module,
            in_module=in_module, checkpoint=_checkpoints(parent, [p[0] for p in parsed]),
            place=np.where(file >= 0, file.astype(np.int64) << 32 | np.maximum(line, 0), -1),
            files=files, functions=functions, modules=modules,
            shown_files={p[0]: i.shown for p, i in zip(parsed, infos, strict=True) if i is not None},
        )  # fmt: skip

    def _modules(self, parsed: list[tuple[str, int, str]], table: TextTable) -> tuple[np.ndarray, np.ndarray]:
        """Path of the innermost module of each node: the names that the profiler gave, outermost first."""
        codes, within = np.full(len(parsed), -1, np.int32), np.zeros(len(parsed), bool)
        paths = [""] * len(parsed)
        left = _MODULE_BYTES
        for node in range(1, len(parsed)):
            above = self._parent[node]
            name = self._name[node]
            if name.startswith(_MODULE) and left > 0:
                left -= len(paths[above]) + len(name)
                paths[node] = f"{paths[above]}.{name[len(_MODULE):]}".lstrip(".")[-2000:]
            else:
                paths[node] = paths[above]
            within[node] = within[above] or bool(paths[node]) or parsed[node][0].endswith("torch/nn/modules/module.py")
            codes[node] = table.code(paths[node])
        return codes, within


def _parsed(name: str) -> tuple[str, int, str]:
    """(file, line, function) of a frame's name; ("", -1, name) of what has no file."""
    found = _FRAME.fullmatch(name)
    if found is None or found["file"].startswith(_BUILT_IN):
        return "", -1, name[:2000]
    line = int(found["line"])
    return found["file"][:4000], line if 0 < line < 1 << 31 else -1, found["function"][:2000]


def _checkpoints(parent: np.ndarray, files: list[str]) -> np.ndarray:
    found = [0] * len(parent)
    for node, above in enumerate(parent.tolist()):
        found[node] = node if files[node].replace("\\", "/").endswith("torch/utils/checkpoint.py") else found[above]
    return np.array(found, np.int64)


def _shown(parent: np.ndarray, user: np.ndarray, library: np.ndarray) -> np.ndarray:
    nearest_user, nearest_library = [0] * len(parent), [0] * len(parent)
    for node, (above, mine, other) in enumerate(zip(parent.tolist(), user.tolist(), library.tolist(), strict=True)):
        if node:
            nearest_user[node] = node if mine else nearest_user[above]
            nearest_library[node] = node if other else nearest_library[above]
    found = np.array(nearest_user, np.int64)
    return np.where(found > 0, found, np.array(nearest_library, np.int64))


class _ForeignRules:
    """``PathRules`` for names that another machine's profiler wrote."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def info(self, file: str) -> Any:
        return self._rules.info(_with_directory(file))


def _rules(files: set[str]) -> _ForeignRules:
    plain = PathRules({})
    users = [os.path.dirname(os.path.normpath(f)) for f in files if os.path.isabs(f) and plain.info(f).user]
    try:
        project = os.path.commonpath(users) if users else ""
    except ValueError:
        project = ""
    return _ForeignRules(PathRules({"cwd": "" if project in ("", "/", "/home", "/Users", "/root") else project}))


def _with_directory(file: str) -> str:
    """A name that was cut to what follows a directory of ``sys.path``, with a directory that says whose it is."""
    if os.path.isabs(file) or file.startswith("<"):
        return file
    first = re.split(r"[/\\]", file, maxsplit=1)[0]
    top = first.removesuffix(".py")
    if top in _PACKAGES or top in sys.stdlib_module_names:
        return f"/site-packages/{file}"
    return file

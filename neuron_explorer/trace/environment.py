"""What a recording ran on: versions, device, rank, script, and whose code counts as the user's."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import site
import sys
import sysconfig
import time
from collections.abc import Sequence
from typing import Any

__all__ = [
    "device_facts", "facts", "machine_facts", "rank_and_world_size", "restart_count", "script_name", "user_code_rules",
    "versions",
]  # fmt: skip


def facts(user_code: Sequence[str] | None) -> dict[str, Any]:
    """What `session.json` says about where a recording runs. Times are those of this call."""
    return {
        "spool_version": 1,
        "start_unix_ns": time.time_ns(),
        "start_monotonic_ns": time.monotonic_ns(),
        "pid": os.getpid(),
        "versions": versions(),
        "device": device_facts(),
        "machine": machine_facts(),
        "cwd": os.getcwd(),
        "project": project_root(os.getcwd()),
        "user_code": user_code_rules(user_code),
        "script": script_name(),
    }


def versions() -> dict[str, str]:
    """Versions of Python, torch and this package."""
    import torch

    import neuron_explorer

    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "neuron_explorer": neuron_explorer.__version__,
    }


def device_facts() -> dict[str, Any]:
    """The device in use: an accelerator that the program has initialised, else the CPU.

    Nothing is initialised by asking.
    """
    from neuron_explorer.trace.recorders import torch_private

    kind = "neuron" if _is_emulated() else torch_private.initialised_accelerator()
    if kind is None:
        return {"type": "cpu", "name": _cpu_name(), "emulated": False}
    if kind == "neuron":
        from neuron_explorer.neuron import backend

        return backend.device()
    count = torch_private.accelerator_count()
    return {"type": kind, "name": torch_private.accelerator_name(kind), "emulated": False, "count": count}


def machine_facts() -> dict[str, Any]:
    """The host's processor and how many threads torch computes with: which inner operators run depends on both."""
    import torch

    return {"cpu": _cpu_name(), "cores": os.cpu_count() or 0, "threads": torch.get_num_threads()}


def _is_emulated() -> bool:
    """Whether this package emulates the device in this process: then it is what the program runs on."""
    emulator = sys.modules.get("neuron_explorer.neuron.emulator")
    return emulator is not None and emulator.enabled() is not None


def rank_and_world_size() -> tuple[int, int]:
    """Distributed rank and number of processes: from torch.distributed if it is up, else the environment."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:  # a half-initialised process group must not stop a recording
        pass
    return _int_from_environment("RANK", 0), max(1, _int_from_environment("WORLD_SIZE", 1))


def restart_count() -> int:
    """How often torchrun has started this process's group again."""
    return _int_from_environment("TORCHELASTIC_RESTART_COUNT", 0)


def script_name() -> str | None:
    """The script that runs, relative to the working directory where it lies below it; no arguments."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):
        return None
    absolute = os.path.abspath(file)
    relative = os.path.relpath(absolute)
    return os.path.basename(absolute) if relative.startswith("..") else relative


def user_code_rules(user_code: Sequence[str] | None) -> dict[str, Any]:
    """Which files count as the user's, as directories of this machine.

    ``exclude`` is what is not by default, ``include`` what is all the same (null: nothing more).
    """
    import torch

    import neuron_explorer

    exclude = [
        os.path.dirname(str(torch.__file__)),
        os.path.dirname(neuron_explorer.__file__),
        *_site_packages(),
        *_standard_library(),
    ]
    include = None if user_code is None else [_directory_of(entry) for entry in user_code]
    return {"include": include, "exclude": list(dict.fromkeys(os.path.realpath(d) for d in exclude))}


def _site_packages() -> list[str]:
    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    with contextlib.suppress(AttributeError, OSError):  # absent in old virtualenvs
        found += site.getsitepackages()
        found.append(site.getusersitepackages())
    return [d for d in found if d]


def _standard_library() -> list[str]:
    return [d for d in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) if d]


def _directory_of(entry: str) -> str:
    """A directory or file as it is; a module or package name as the place it is imported from."""
    if os.path.exists(entry):
        return os.path.realpath(entry)
    module = sys.modules.get(entry)
    origin = getattr(module, "__file__", None)
    if origin is None and entry.isidentifier():
        try:
            spec = importlib.util.find_spec(entry)
            origin = spec.origin if spec is not None else None
        except (ImportError, ValueError):
            origin = None
    if isinstance(origin, str):
        is_package = os.path.basename(origin).startswith("__init__.")
        return os.path.realpath(os.path.dirname(origin) if is_package else origin)
    raise ValueError(f"user_code: {entry!r} is neither a directory nor a module that can be found")


def _int_from_environment(name: str, default: int) -> int:
    try:
        return max(0, int(os.environ.get(name, "")))
    except ValueError:
        return default


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Model Name", "Processor"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def project_root(folder: str) -> str:
    """The nearest folder at or above ``folder`` that is a checkout of git; "" where there is none."""
    here = os.path.abspath(folder)
    while not os.path.exists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return ""
        here = above
    return here

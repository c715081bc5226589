"""Compiles the C++ recorder and the emulated device for this torch and this Python, once, and loads them.

The result is kept in ``$NEURON_EXPLORER_CACHE``, else in the user's cache folder, under a
name made of the torch version, the Python version and a hash of the sources and of how they are
compiled. A build works on a copy of the sources, in a folder of its own, while other processes
that need the same wait for it; where they cannot, the last rename wins, and all of them hold the
same bytes' worth of code.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from neuron_explorer.errors import NeuronExplorerError

__all__ = ["NativeUnavailable", "cache_folder", "load", "load_chrome", "load_emulator"]

_BUILD_SECONDS = 600
_STANDARDS = ("c++20", "c++17")  # the second where the compiler is too old for the first
_FLAGS = ("-g0", "-fPIC", "-fno-plt", "-DNDEBUG", "-w")


@dataclass(frozen=True)
class Extension:
    """One extension module: its name, what messages call it, and how it is built."""

    module: str
    title: str
    folder: Path
    sources: tuple[str, ...]
    libraries: tuple[str, ...]
    optimise: str
    duration: str
    torch: bool = True  # False: needs nothing but a compiler and Python


_SOURCES = Path(__file__).parent / "src"
RECORDER = Extension(
    "nx_recorder", "native recorder", _SOURCES, ("recorder.cpp",), ("torch_cpu", "c10"), "-O2", "some 10 s"
)
EMULATOR = Extension(
    "nx_emulator",
    "emulated device",
    _SOURCES / "emulator",
    # The slow ones first: they are compiled side by side.
    (
        "autocast.cpp",
        "collectives.cpp",
        "kernels.cpp",
        "own_kernels.cpp",
        "host_view.cpp",
        "module.cpp",
        "counts.cpp",
        "device.cpp",
    ),
    ("torch_cpu", "c10", "torch_python"),
    "-O1",
    "some 40 s on two cores",
)
CHROME = Extension(
    "nx_chrome", "reader of JSON traces", _SOURCES / "chrome", ("module.cpp",), (), "-O2", "some 5 s", torch=False
)
KNOWN_MINORS = ((3, 10), (3, 11), (3, 12), (3, 13))
"""Python minors whose frame layout ``frames.h`` knows."""


class NativeUnavailable(NeuronExplorerError):
    """There is no native recorder here.

    Attributes:
        reason: what is missing, one clause.
        advice: what to do about it, one clause.
    """

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}; {advice}")
        self.reason = reason
        self.advice = advice


_loaded: dict[str, ModuleType] = {}


def load() -> ModuleType:
    """The native recorder, compiled first where that is needed.

    Raises:
        NativeUnavailable: no compiler, no Python headers, an unknown Python minor, another
            platform than Linux, or a failed build.
    """
    if RECORDER.module not in _loaded:
        _check_platform()
        _loaded[RECORDER.module] = _load(RECORDER)
    return _loaded[RECORDER.module]


def load_emulator() -> ModuleType:
    """The emulated device, compiled first where that is needed; not registered yet.

    Raises:
        NativeUnavailable: as :func:`load`; every Python minor is known to it.
    """
    if EMULATOR.module not in _loaded:
        _check_system(EMULATOR)
        _loaded[EMULATOR.module] = _load(EMULATOR)
    return _loaded[EMULATOR.module]


def load_chrome() -> ModuleType:
    """The reader of Chrome JSON traces, compiled first where that is needed; torch need not be installed.

    Raises:
        NativeUnavailable: as :func:`load`; every Python minor is known to it.
    """
    if os.environ.get("NEURON_EXPLORER_NATIVE") == "0":
        raise NativeUnavailable("NEURON_EXPLORER_NATIVE=0 is set", "unset it to read traces with native code")
    if CHROME.module not in _loaded:
        _check_system(CHROME)
        _loaded[CHROME.module] = _load(CHROME)
    return _loaded[CHROME.module]


@dataclass(frozen=True)
class _Torch:
    """The torch that an extension is built against."""

    version: str
    folder: Path
    new_abi: bool


def _torch() -> _Torch:
    import torch

    return _Torch(torch.__version__, Path(torch.__file__).parent, bool(torch._C._GLIBCXX_USE_CXX11_ABI))


def _load(extension: Extension) -> ModuleType:
    torch = _torch() if extension.torch else None
    version = torch.version if torch else ""
    library = _cached_library(version, extension, extension.folder)
    if not library.exists():
        with _one_at_a_time(library.parent.parent):
            library = _cached_library(version, extension, extension.folder)
            if not library.exists():
                library = _build(torch, extension)
    _check_owner(library)
    return _import(library, extension)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """The ranks of a run start together: one builds and the others wait, where the file system can lock."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / "build.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield  # the build itself says what is wrong with the folder
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # the system gives it back when its holder dies
        yield
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Where compiled recorders are kept (it may not exist yet)."""
    chosen = os.environ.get("NEURON_EXPLORER_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "neuron_explorer"


def _check_platform() -> None:
    if os.environ.get("NEURON_EXPLORER_NATIVE") == "0":
        raise NativeUnavailable("NEURON_EXPLORER_NATIVE=0 is set", "unset it to use the native recorder")
    _check_system(RECORDER)
    if sys.version_info[:2] not in KNOWN_MINORS:
        raise NativeUnavailable(
            f"the frame layout of Python {sys.version_info[0]}.{sys.version_info[1]} is not known",
            "use Python 3.10 to 3.13, or a newer neuron_explorer",
        )


def _check_system(extension: Extension) -> None:
    if not sys.platform.startswith("linux"):
        raise NativeUnavailable(f"the {extension.title} needs Linux, this is {platform.system()}", "use Linux")
    if platform.python_implementation() != "CPython":
        raise NativeUnavailable(f"the {extension.title} needs CPython", "use CPython")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NativeUnavailable("the free-threaded build of Python is not supported", "use the default build")


def _source_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".h", ".cpp"))


def _source_hash(extension: Extension, folder: Path) -> str:
    """Of the sources in ``folder`` and of how they are compiled and linked."""
    recipe = (*_STANDARDS, *_FLAGS, extension.optimise, *extension.libraries)
    digest = hashlib.sha256(" ".join(recipe).encode())
    for path in _source_files(folder):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cached_library(torch_version: str, extension: Extension, sources: Path) -> Path:
    tag = sysconfig.get_config_var("SOABI") or f"cp{sys.version_info[0]}{sys.version_info[1]}"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}"
    against = f"torch-{torch_version}-" if extension.torch else f"{extension.module}-"
    folder = f"{against}py-{version}-{tag}-{_source_hash(extension, sources)}"
    return cache_folder() / "native" / folder.replace(os.sep, "_") / f"{extension.module}.so"


def _check_owner(library: Path) -> None:
    """Code that another user could have written is not loaded."""
    for path in (library, library.parent):
        info = path.stat()
        if info.st_uid not in (os.getuid(), 0) or info.st_mode & stat.S_IWOTH:
            raise NativeUnavailable(
                f"{path} belongs to another user or is writable by all",
                "delete it, or set NEURON_EXPLORER_CACHE to a folder of your own",
            )


def _build(torch: _Torch | None, extension: Extension) -> Path:
    """Compiles a copy of the sources, which somebody may be editing, and returns what was built from it."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if not compiler or shutil.which(compiler.split()[0]) is None:
        raise NativeUnavailable("there is no C++ compiler", "install g++ (Debian: apt install g++)")
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").exists():
        raise NativeUnavailable(
            f"the C headers of Python are missing ({headers / 'Python.h'})",
            "install them (Debian: apt install python3-dev)",
        )
    if torch and not (torch.folder / "include" / "ATen" / "record_function.h").exists():
        raise NativeUnavailable("this torch has no C++ headers", "install torch from a wheel")
    folder = cache_folder() / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = Path(tempfile.mkdtemp(prefix="build-", dir=folder))
    except OSError as error:
        raise NativeUnavailable(
            f"the cache folder {folder} cannot be written ({error.strerror})",
            "set NEURON_EXPLORER_CACHE to a folder that can",
        ) from None
    try:
        print(
            f"neuron-explorer: building the {extension.title} for this {'torch and ' if torch else ''}Python (once, "
            f"{extension.duration}) ...",
            file=sys.stderr,
            flush=True,
        )
        for path in _source_files(extension.folder):
            shutil.copyfile(path, work / path.name)
        library = _cached_library(torch.version if torch else "", extension, work)
        _compile(compiler, work, headers, torch, extension)
        library.parent.mkdir(exist_ok=True, mode=0o700)
        os.replace(work / library.name, library)
        return library
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _compile(compiler: str, work: Path, headers: Path, torch: _Torch | None, extension: Extension) -> None:
    errors = ""
    for standard in _STANDARDS:
        flags = [f"-std={standard}", extension.optimise, *_FLAGS, f"-I{headers}"]
        if torch:
            flags += [
                f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.new_abi)}", f"-I{torch.folder / 'include'}",
                f"-I{torch.folder / 'include' / 'torch' / 'csrc' / 'api' / 'include'}",
            ]  # fmt: skip
        failed = _compile_objects([*compiler.split(), *flags], work, extension)
        if failed is None:
            objects = [str(work / f"{source}.o") for source in extension.sources]
            libraries = [f"-l{name}" for name in extension.libraries]
            if torch:
                libraries.insert(0, f"-L{torch.folder / 'lib'}")
            target = str(work / f"{extension.module}.so")
            failed = _run([*compiler.split(), "-shared", *objects, *libraries, "-o", target])
        if failed is None:
            return
        errors = errors or failed
    first = next((line for line in errors.splitlines() if "error" in line), errors.strip()[:300])
    log = work.parent / "build-failed.log"
    log.write_text(errors)
    raise NativeUnavailable(f"the build failed ({first.strip()[:300]})", f"see {log}")


def _compile_objects(command: list[str], work: Path, extension: Extension) -> str | None:
    """Compiles every source, some at a time. The first one's errors, or None."""

    def compile_one(source: str) -> str | None:
        return _run([*command, "-c", str(work / source), "-o", str(work / f"{source}.o")])

    if len(extension.sources) == 1:
        return compile_one(extension.sources[0])
    # Each compiler takes up to a gigabyte.
    with ThreadPoolExecutor(max_workers=max(1, min(os.cpu_count() or 1, 4))) as pool:
        return next((errors for errors in pool.map(compile_one, extension.sources) if errors is not None), None)


def _run(command: list[str]) -> str | None:
    """What the compiler complained about, or None when it succeeded."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"the compiler did not run ({error})", "check CXX") from None
    return None if done.returncode == 0 else done.stderr or "error without a message"


def _import(library: Path, extension: Extension = RECORDER) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(extension.module, str(library))
    spec = importlib.util.spec_from_file_location(extension.module, library, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise NativeUnavailable(
            f"the built {extension.title} does not load ({error})", f"delete {library.parent}"
        ) from None
    return module

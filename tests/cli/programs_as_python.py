"""Programs that must do the same under ``record`` as under ``python``: name → files.

The first file is the script. ``{}`` in an argument is the directory of the program.
"""

from __future__ import annotations

PROGRAMS: dict[str, dict[str, str]] = {
    "facts": {
        "s.py": """
import sys, __main__
print(sorted(k for k in globals() if k not in ("sys", "__main__")))
print(sys.argv, __name__, __file__, __spec__, __package__, __doc__, type(__loader__).__name__)
print(sys.path[0], sys.modules["__main__"] is __main__, __main__.__dict__ is globals(), __builtins__)
print("__cached__" in globals() and __cached__, len(sys.argv))
"""
    },
    "input": {"s.py": "print(input() + '!')"},
    "sibling": {"s.py": "import other; print(other.WORD)", "other.py": "WORD = 'sibling'"},
    "unicode_ñ_名": {"s.py": "print(__file__)\nraise ValueError('ñ')"},
    "exit_number": {"s.py": "import sys; sys.exit(3)"},
    "exit_text": {"s.py": "import sys; sys.exit('no good')"},
    "exit_none": {"s.py": "raise SystemExit"},
    "exit_true": {"s.py": "raise SystemExit(True)"},
    "exit_hard": {"s.py": "import os; print('x', flush=True); os._exit(5)"},
    "killed": {"s.py": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"},
    "terminated": {"s.py": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"},
    "interrupted": {
        "s.py": "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**9): pass"
    },
    "exception": {
        "s.py": """
def inner():
    raise ValueError("deep")

def outer():
    try:
        inner()
    except ValueError as error:
        raise RuntimeError("wide") from error

outer()
"""
    },
    "syntax_error": {"s.py": "print('before')\ndef f(:\n    pass\n"},
    "import_error": {"s.py": "import other", "other.py": "import nothing_of_this_name"},
    "own_excepthook": {
        "s.py": """
import sys
def hook(kind, value, trace):
    print(kind.__name__, value, trace.tb_frame.f_code.co_name, trace.tb_frame.f_code.co_filename)
sys.excepthook = hook
raise ValueError("mine")
"""
    },
    "recursion": {
        "s.py": "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    print('deep')"
    },
    "at_exit": {
        "s.py": """
import atexit, threading, time
gate = threading.Event()
atexit.register(lambda: print("first in, last out"))
atexit.register(lambda: print("last in, first out"))
def work():
    gate.wait()
    print("thread is done")
threading.Thread(target=work).start()
print("main is done")
gate.set()
"""
    },
    "open_executor": {
        "s.py": """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
print(pool.submit(pow, 2, 10).result())
"""
    },
    "pickle_main": {
        "s.py": """
import pickle
class Thing:
    pass
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, Thing.__module__)
"""
    },
    "inspect_main": {
        "s.py": """
import inspect, dataclasses, typing
@dataclasses.dataclass
class Thing:
    x: "typing.Optional[int]" = None
print(inspect.getsource(Thing), typing.get_type_hints(Thing), inspect.getmodule(Thing).__name__)
"""
    },
    "spawn": {
        "s.py": """
import multiprocessing as mp
def square(x):
    return x * x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [1, 2, 3]))
else:
    print("imported as", __name__, flush=True)
"""
    },
    "fork": {
        "s.py": """
import os, sys
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    sys.exit(7)
print("parent saw", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    },
    "subprocess": {
        "s.py": """
import subprocess, sys
child = [sys.executable, "-c", "import sys; print(len(sys.path[0]))"]
print(subprocess.run(child, capture_output=True).stdout)
"""
    },
}

MODULES: dict[str, tuple[str, dict[str, str]]] = {
    "plain": ("m", {"m.py": PROGRAMS["facts"]["s.py"].replace("__spec__", "__spec__.name")}),
    "package": (
        "pkg",
        {
            "pkg/__init__.py": "print('init')",
            "pkg/__main__.py": "from .x import Y; print(Y, __name__)",
            "pkg/x.py": "Y = 1",
        },
    ),
    "relative": (
        "pkg.x",
        {
            "pkg/__init__.py": "",
            "pkg/x.py": "import sys; from . import y; print(y.Z, __package__, sys.argv)",
            "pkg/y.py": "Z = 2",
        },
    ),
    "raises": ("m", {"m.py": "def f():\n    raise KeyError('k')\nf()"}),
    "spawn": ("pkg.s", {"pkg/__init__.py": "", "pkg/s.py": PROGRAMS["spawn"]["s.py"]}),
    "stdlib": ("json.tool", {}),
}

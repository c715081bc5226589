"""Runs programs in processes that have torch imported already, since that import takes a second.

Reads one JSON request a line ({"script", "arguments", "cwd", "convert"}), forks a child
that runs the script as `python script` would, and answers {"returncode"}. Output goes to
the files `stdout` and `stderr` in the request's directory.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import types

import torch


def main():
    torch.ones(2).sum()
    for module in sys.argv[1:]:
        importlib.import_module(module)
    requests = os.fdopen(os.dup(0), closefd=True)
    answers = os.fdopen(os.dup(1), "w", closefd=True)
    for line in requests:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become(request)
            requests.close()
            answers.close()
            return request["script"]
        _, status = os.waitpid(pid, 0)
        answers.write(json.dumps({"returncode": os.waitstatus_to_exitcode(status)}) + "\n")
        answers.flush()
    return None


def become(request):
    os.chdir(request["cwd"])
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = [request["script"], *request["arguments"]]
    if not request["convert"]:
        sys.modules["neuron_explorer.trace.convert"] = stand_in()


def stand_in():
    """A conversion that only says that it was asked for."""
    module = types.ModuleType("neuron_explorer.trace.convert")

    def convert(spool, output, **_):
        with open(f"{output}.converted", "a") as file:
            file.write("converted\n")

    module.convert = convert
    return module


script = main()
if script is not None:
    runpy.run_path(script, run_name="__main__")

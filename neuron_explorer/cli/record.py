"""``neuron-explorer record script.py ARGS…``: run a program unchanged and record it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from neuron_explorer.cli.handover import Handover


class RecordCommand(TyperCommand):
    """Everything behind the script, or behind ``-m module``, belongs to the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _end_options(args, self._names_with_value()))

    def _names_with_value(self) -> set[str]:
        return {
            name
            for param in self.params
            if param.param_type_name == "option" and not getattr(param, "is_flag", False)
            for name in param.opts
        }


def _end_options(args: list[str], with_value: set[str]) -> list[str]:
    """``args`` with ``--`` put behind ``-m module``, or before the script."""
    index = 0
    while index < len(args):
        arg = args[index]
        if arg == "--":
            return args
        if arg == "-m":
            return [*args[: index + 2], "--", *args[index + 2 :]]
        if arg.startswith("-m") and not arg.startswith("--"):
            return [*args[:index], "-m", arg[2:], "--", *args[index + 1 :]]
        if not arg.startswith("-") or arg == "-":
            return [*args[:index], "--", *args[index:]]
        index += 2 if arg in with_value else 1
    return args


class Source(str, Enum):
    """How much source text the trace carries."""

    all = "all"
    lines = "lines"
    none = "none"


class Recorder(str, Enum):
    """Which recorder is used."""

    auto = "auto"
    native = "native"
    twin = "twin"


class Compile(str, Enum):
    """How much of compilations is recorded."""

    light = "light"
    full = "full"
    off = "off"


class Paths(str, Enum):
    """How file names are written."""

    relative = "relative"
    absolute = "absolute"


def record(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCRIPT [ARGS]...", help="The script and its arguments.", show_default=False),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option("-m", metavar="MODULE", help="Run a module, as `python -m` does.", show_default=False),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="The trace to write, or a directory with a final slash. {rank} stands for the distributed rank; "
            "each of several ranks writes its own trace (trace.rank0.parquet).",
        ),
    ] = "trace.parquet",
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite an existing trace.")] = False,
    user_code: Annotated[
        list[str] | None,
        typer.Option(
            "--user-code",
            metavar="PKG",
            help="A directory or module that counts as your code, instead of everything outside torch and "
            "site-packages (repeatable).",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Source,
        typer.Option("--source", help="Source text in the trace: whole files, the lines that ran, or none."),
    ] = Source.all,
    paths: Annotated[Paths, typer.Option("--paths", help="How file names are written.")] = Paths.relative,
    stacks: Annotated[bool, typer.Option("--stacks/--no-stacks", help="Record Python stacks.")] = True,
    shapes: Annotated[bool, typer.Option("--shapes/--no-shapes", help="Record shapes, dtypes and arguments.")] = True,
    tensors: Annotated[bool, typer.Option("--tensors/--no-tensors", help="Record which tensor each input is.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory/--no-memory", help="Record allocations and releases of memory.")
    ] = False,
    emulate: Annotated[
        bool,
        typer.Option("--emulate", help="Give the program an emulated `neuron` device that runs on the CPU."),
    ] = False,
    recorder: Annotated[Recorder, typer.Option("--recorder", help="Which recorder to use.")] = Recorder.auto,
    compile_: Annotated[
        Compile,
        typer.Option("--compile", help="Compilations: light, full (slower, with what TORCH_TRACE tells) or off."),
    ] = Compile.light,
    warn_on_recompile: Annotated[
        bool,
        typer.Option("--warn-on-recompile", help="Show a Python warning whenever torch.compile compiles again."),
    ] = False,
) -> None:
    """Run a Python program unchanged and record it.

    The program runs as `python SCRIPT ARGS...` or `python -m MODULE ARGS...` would run it,
    and its exit code is kept.
    """
    from neuron_explorer.record.plan import RunPlan

    words = list(command or ())
    if module is None:
        if not words:
            raise typer.BadParameter("give a script to run, or -m MODULE", param_hint="SCRIPT")
        target, arguments = words[0], words[1:]
    else:
        target, arguments = module, words
    plan = RunPlan(
        target=target,
        is_module=module is not None,
        arguments=tuple(arguments),
        output=output,
        overwrite=force,
        emulate=emulate,
        settings={
            "user_code": list(user_code) if user_code else None,
            "source": source.value,
            "paths": paths.value,
            "stacks": stacks,
            "shapes": shapes,
            "tensors": tensors,
            "memory": memory,
            "recorder": recorder.value,
            "compile": compile_.value,
            "warn_on_recompile": warn_on_recompile,
        },
    )

    def program() -> int:
        from neuron_explorer.record.runner import run_recorded

        return run_recorded(plan)

    raise Handover(program)

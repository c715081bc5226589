"""What the user calls the thing that a guard looks at, where Dynamo has a name of its own for it.

A library's wrapper is given ``*args`` and ``**kwargs``, code after a graph break finds values that the
break left on the stack, and compiled autograd compiles graphs with inputs of its own.
"""

from __future__ import annotations

import re
from typing import Final

from neuron_explorer.analysis.compile_events import Row, resumed, shown_function
from neuron_explorer.analysis.plain import plain

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_KEYWORD: Final = re.compile(r"^kwargs\[(['\"])([A-Za-z_]\w*)\1\]")
_POSITION: Final = re.compile(r"^(fn\.)?args\[(\d)\]")
_WRAPPED: Final = re.compile(r"^fn\.(?!args\[|keywords\b|func\b)(.+)$")
_LEFT: Final = re.compile(r"^___stack\d+\b")
_BACKWARD: Final = re.compile(r"^(?:inputs|sizes|scalars|hooks|packed_data)\[\d+\]")
_SIZE: Final = re.compile(r"^(.* .*)\.shape\[(\d+)\]$")
BACKWARD_INPUT: Final = "an input of the compiled backward"


def called_source(row: Row) -> str:
    """The source of a recompilation as the user knows it; words where it has no name in the user's code."""
    source = row.text("source")
    if is_backward_graph(row):
        return _BACKWARD.sub(BACKWARD_INPUT, source)
    after = resumed(row.function) or resumed(row.name)
    if after:
        return _LEFT.sub(f"what the call in line {after[1]} returned", source)
    if not row.library:
        return source
    if source == "kwargs":
        return "the keyword arguments"
    keyword = _KEYWORD.match(source)
    if keyword:
        return keyword[2] + source[keyword.end() :]
    attribute = _WRAPPED.match(source)
    if attribute and (row.function or row.name).startswith("wrap_inline."):
        return f"{attribute[1]} of the compiled module"
    position = _POSITION.match(source)
    if position:
        bound = " that functools.partial binds" if position[1] else ""
        return f"the {_ORDINALS[int(position[2])]} argument{bound}{source[position.end() :]}"
    return source


def in_words(source: str) -> str:
    """A source as part of a sentence: ``dimension 0 of the first argument``."""
    match = _SIZE.match(source)
    return f"dimension {match[2]} of {match[1]}" if match else source


def called_function(row: Row) -> str:
    """The function of a recompilation as the user knows it: by the call, where it is a library's wrapper."""
    name = row.function or row.name
    if is_backward_graph(row):
        return "the backward of compiled autograd"
    shown = shown_function(name)
    if name.startswith("wrap_inline.") and re.match(r"fn\.(?:args\[|keywords\b|func\b)", row.text("source")):
        return "the compiled functools.partial"
    caller = row.text("caller_file")
    if row.library and "<locals>" in name and caller and not name.startswith("wrap_inline."):
        return f"the call at {plain(caller.rsplit('/', 1)[-1], 60)}:{row.number('caller_line')} ({shown})"
    return shown


def is_backward_graph(row: Row) -> bool:
    """It is a graph that compiled autograd made of a backward."""
    return row.file.startswith("<eval_with_key>") and bool(_BACKWARD.match(row.text("source")))

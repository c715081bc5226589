"""Parts of an operator's name."""

from __future__ import annotations


def without_namespace(name: str) -> str:
    """``aten::add_.Tensor`` → ``add_.Tensor``."""
    return name.removeprefix("aten::")


def base_name(name: str) -> str:
    """``aten::add_.Tensor`` → ``add_``; names of other libraries keep their namespace."""
    return without_namespace(name).split(".", 1)[0]


def overload(name: str) -> str:
    """``aten::add_.Tensor`` → ``Tensor``, "" for the default one."""
    return name.split(".", 1)[1] if "." in name else ""


def words(text: str) -> frozenset[str]:
    """A long list of names, written as one text."""
    return frozenset(text.split())

"""What a recording was asked to hold."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]

_CHOICES = {
    "source": ("all", "lines", "none"),
    "recorder": ("auto", "native", "twin"),
    "paths": ("relative", "absolute"),
    "steps": ("auto", "none"),
    "compile": ("light", "full", "off"),
}


@dataclass(frozen=True)
class Settings:
    """What to record; see :func:`neuron_explorer.profile`."""

    stacks: bool = True
    shapes: bool = True
    tensors: bool = False
    memory: bool = False
    source: str = "all"
    user_code: tuple[str, ...] | None = None
    recorder: str = "auto"
    paths: str = "relative"
    steps: str = "auto"
    compile: str = "light"
    warn_on_recompile: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")

"""How an operator reaches a Neuron device: with a kernel there, through its parts, or not at all.

Facts are data files of the package: the operators with a native kernel
(``emulator/native_ops.txt``, or a list of the user's) and what torch itself puts together from
other operators (``dispatch.txt``). Nothing here imports torch.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
NATIVE_LIST: Final = _HERE / "emulator" / "native_ops.txt"

_ALWAYS: Final = frozenset(
    (
        "empty.memory_format", "empty_strided", "as_strided", "view", "view.dtype", "view_as_real", "view_as_complex",
        "_reshape_alias", "unfold", "resize_", "set_", "set_.source_Storage", "set_.source_Storage_storage_offset",
        "set_.source_Tensor", "record_stream", "_copy_from", "_copy_from_and_resize", "copy_", "_local_scalar_dense",
        "convolution_overrideable", "convolution_backward_overrideable", "_fused_sdp_choice",
        "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_fused_attention_overrideable_backward",
    )
)  # fmt: skip
"""What every backend of this kind has to bring."""

_OF_OTHER_DEVICES: Final = (
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)  # fmt: skip


@lru_cache(maxsize=1)
def _table() -> dict[str, str]:
    return dict(line.split(" ", 1) for line in _lines(_HERE / "dispatch.txt"))


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


@lru_cache(maxsize=8)
def native_operators(path: Path = NATIVE_LIST) -> frozenset[str] | None:
    """The list's operators, without ``aten::``; None where the file is not there."""
    try:
        return frozenset(line.removeprefix("aten::") for line in _lines(path))
    except (OSError, UnicodeDecodeError):
        return None


def is_composite(name: str) -> bool:
    """Whether torch puts the operator together from others, on a device without a kernel for it."""
    return _table().get(name.removeprefix("aten::")) == "composite"


def is_native(name: str, native: frozenset[str]) -> bool:
    """Whether the operator has a kernel on the device, by itself or by the one it is handed to."""
    short = name.removeprefix("aten::")
    if short in native or short in _ALWAYS:
        return True
    handed_to = _table().get(short)
    if handed_to is not None and handed_to in native:
        return True
    if short.startswith(_OF_OTHER_DEVICES):
        # On the device the same call is its own form of attention.
        form = "_backward" if short.split(".", 1)[0].endswith("_backward") else ""
        return f"_scaled_dot_product_fused_attention_overrideable{form}" in native
    return False


def is_known(name: str) -> bool:
    """Whether the operator is one of torch's own, about which the lists say something."""
    return name.startswith("aten::")

"""What a device profile (AWS Neuron Explorer's) says of a NeuronCore as a whole: facts in the metadata.

They stand under :data:`KEY` as the JSON form of :class:`DeviceProfile`: an importer writes
``as_json(profile)``, analyses read ``device_profile(trace.metadata)``. Times are integer nanoseconds,
sizes bytes, rates per second, and every share is a fraction from 0 to 1, never 0 to 100. What the
source did not say is None (a number), "" (a text) or empty (a list): never 0.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar

KEY: Final = "device_profile"
MAX_ITEMS: Final = 10_000
"""A longer list in a file's metadata is cut when read."""

ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "sync")
"""Compute engines of a NeuronCore, as :attr:`EngineUse.engine` names them."""


@dataclass(frozen=True)
class Hardware:
    """The NeuronCore and the versions that ran on it."""

    instance_type: str = ""
    """EC2 type (``trn2.48xlarge``); "" when the profile does not name it."""
    chip: str = ""
    """Inferentia2, Trainium, Trainium2 or Trainium3: follows from the instance type, else ""."""
    device: int | None = None
    core: int | None = None
    physical_cores: int | None = None
    """Physical cores of the logical NeuronCore (1 or 2)."""
    peak_flops: float | None = None
    """FLOP/s in BF16 of one physical core: rows x columns x 2 x clock of the tensor engine."""
    hbm_bandwidth: float | None = None
    """B/s of ONE HBM stack, which several cores share."""
    dma_bandwidth: float | None = None
    """B/s of all DMA engines of one physical core."""
    simulated: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    """runtime, driver, compiler, collectives, explorer."""


@dataclass(frozen=True)
class EngineUse:
    """One compute engine of one physical core."""

    engine: str
    core: int = 0
    active_ns: int | None = None
    """Union of its busy intervals (instructions overlap: their sum would be more)."""
    active_share: float | None = None
    """Of ``total_ns``."""
    instructions: int | None = None
    kernel_instructions: int | None = None
    """Of them, from a hand-written kernel (NKI): they name a line of one; None without any such column."""
    wait_ns: int | None = None
    """Sum of the time that instructions waited for a semaphore before they were issued."""


@dataclass(frozen=True)
class QueueTypeUse:
    """DMA packets of one queue type (``instruction``, ``input``, ``hardware_dynamic`` ...) of one core."""

    queue_type: str
    core: int = 0
    packets: int = 0
    bytes: int = 0
    active_ns: int | None = None
    """Union of the packets' intervals."""
    small_packets: int = 0
    """Packets that move less than :data:`SMALL_DMA` bytes, of those that move more than 4."""


SMALL_DMA: Final = 4096
"""Bytes. AWS advises at least so much contiguous data for a DMA."""


@dataclass(frozen=True)
class Transfers:
    """What DMA moved, worked out from the packets (from the transfers where there are no packets)."""

    source: str = ""
    """The table: ``DmaPacket``, ``DmaPacketAggregated`` or ``dma``."""
    active_ns: int | None = None
    """Union of the intervals of all of them: AWS's ``memory_bound``."""
    payload_bytes: int | None = None
    """Bytes of queues that carry no instructions, of packets of more than 4 bytes (``memory_bound_ideal``)."""
    bytes: int | None = None
    transfer_bytes: int | None = None
    """Bytes of ``DmaPacketAggregated``, which may cover only a part of them."""
    by_queue_type: tuple[QueueTypeUse, ...] = ()


@dataclass(frozen=True)
class Compute:
    """Sums over instructions of the tensor engine. FLOP are BF16 equivalents where ``adjusted``."""

    matmul_instructions: int | None = None
    flops: int | None = None
    adjusted_flops: int | None = None
    transpose_flops: int | None = None
    adjusted_transpose_flops: int | None = None


@dataclass(frozen=True)
class TensorLoad:
    """A tensor of the model that was loaded into SBUF more than once."""

    name: str
    type: str = ""
    bytes: int | None = None
    loads: int | None = None
    loaded_bytes: int | None = None
    repeat_factor: float | None = None
    """1: loaded once; more: loaded again."""


@dataclass(frozen=True)
class Tensors:
    """Sizes of the model's tensors, by type (``IN``, ``OUT``, ``WEIGHT``), and those that were reloaded."""

    bytes_by_type: dict[str, int] = field(default_factory=dict)
    reloaded: tuple[TensorLoad, ...] = ()
    """Repeat factor above 1, those of the most extra bytes first, at most 100."""


@dataclass(frozen=True)
class Throttling:
    """Throttling of one core, one type; type ``all`` is the sum over the types."""

    core: int
    type: str
    active_ns: int | None = None
    active_share: float | None = None
    max_utilisation: float | None = None
    """Highest share of the peak that was reachable; 1: no throttle."""


@dataclass(frozen=True)
class MemoryUse:
    """HBM of one core by what it holds."""

    device: int | None
    core: int | None
    usage: str
    bytes: int


@dataclass(frozen=True)
class CollectiveUse:
    """Durations of the collectives of one operation, size and algorithm."""

    operation: str
    algorithm: str = ""
    input_bytes: int | None = None
    count: int = 0
    min_ns: int | None = None
    median_ns: int | None = None
    mean_ns: float | None = None
    max_ns: int | None = None


@dataclass(frozen=True)
class Notice:
    """A warning or error that the profile itself holds."""

    category: str
    message: str
    count: int = 1


@dataclass(frozen=True)
class DeviceProfile:
    """Facts of one profile. One device profile is of one logical NeuronCore."""

    kind: str = "device"
    """``device``: one NeuronCore from inside; ``system``: the host, its runtime and all cores from outside."""
    format: str = ""
    """``parquet`` or ``json``."""
    name: str = ""
    schema_version: str = ""
    newer_schema: bool = False
    """Its major version is above those that the importer was written for; it was read by names."""
    hardware: Hardware = field(default_factory=Hardware)
    total_ns: int | None = None
    """Time of the profile on the device (``Summary.total_time``), idle gaps included."""
    summary: dict[str, float] = field(default_factory=dict)
    """AWS's ``Summary`` by its own names; ``*_percent`` are fractions, as AWS writes them; times in seconds."""
    engines: tuple[EngineUse, ...] = ()
    transfers: Transfers = field(default_factory=Transfers)
    compute: Compute = field(default_factory=Compute)
    tensors: Tensors = field(default_factory=Tensors)
    throttling: tuple[Throttling, ...] = ()
    memory: tuple[MemoryUse, ...] = ()
    hbm_capacity: int | None = None
    """Bytes per core; system profiles."""
    collectives: tuple[CollectiveUse, ...] = ()
    notices: tuple[Notice, ...] = ()
    tables: dict[str, int] = field(default_factory=dict)
    """Rows of each table that the profile has."""
    absent: dict[str, str] = field(default_factory=dict)
    """What the profile cannot say and why: ``source_lines``, ``framework``, ``packets``, ``hbm`` ..."""

    def metric(self, name: str) -> float | None:
        """One metric of ``Summary`` (``mfu_estimated_percent``: a fraction), None when it is not there."""
        return self.summary.get(name)

    def engine(self, name: str, core: int = 0) -> EngineUse | None:
        """One engine of one physical core."""
        return next((e for e in self.engines if e.engine == name and e.core == core), None)


def device_profile(metadata: Mapping[str, Any]) -> DeviceProfile | None:
    """The facts in a trace's metadata; None when it was not made from a device or system profile.

    Fields of a wrong type count as not said. Never raises.
    """
    found = metadata.get(KEY)
    return _read(DeviceProfile, found) if isinstance(found, Mapping) else None


def core_profile(metadata: Mapping[str, Any]) -> DeviceProfile | None:
    """The same of a trace that tells of one NeuronCore from inside; None for a system profile, too. Never raises."""
    found = device_profile(metadata)
    return found if found is not None and found.kind == "device" else None


def as_json(profile: DeviceProfile) -> dict[str, Any]:
    """The value to store under :data:`KEY`; what is not said is left out."""
    document: dict[str, Any] = _without_empty(asdict(profile))
    return document


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: _without_empty(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v is not None and v != "" and v != {} and v != []}
    if isinstance(value, list | tuple):
        return [_without_empty(v) for v in value]
    return value


_T = TypeVar("_T")


def _read(cls: type[_T], found: Mapping[str, Any]) -> _T:
    hints = typing.get_type_hints(cls)
    values = {}
    for one in fields(typing.cast(Any, cls)):
        value = _value(hints[one.name], found[one.name]) if one.name in found else None
        if value is None and type(None) not in typing.get_args(hints[one.name]):
            value = _empty(hints[one.name]) if _required(one) else None
        if value is not None or _required(one):
            values[one.name] = value
    return cls(**values)


def _required(one: Any) -> bool:
    from dataclasses import MISSING

    return one.default is MISSING and one.default_factory is MISSING


def _empty(hint: Any) -> Any:
    return {str: "", int: 0, float: 0.0, bool: False}.get(hint)


def _value(hint: Any, value: Any) -> Any:
    """``value`` as ``hint`` says, None when it is something else."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
        return _value(hint, value)
    if is_dataclass(hint):
        return _read(typing.cast(Any, hint), value) if isinstance(value, Mapping) else None
    if origin is tuple:
        of = typing.get_args(hint)[0]
        read = [_value(of, v) for v in value[:MAX_ITEMS]] if isinstance(value, list | tuple) else []
        return tuple(v for v in read if v is not None)
    if origin is dict:
        of = typing.get_args(hint)[1]
        given = list(value.items())[:MAX_ITEMS] if isinstance(value, Mapping) else []
        return {str(k): said for k, v in given if (said := _value(of, v)) is not None}
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if number and math.isfinite(value) else None
    if hint is int:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return value if isinstance(value, hint) else None

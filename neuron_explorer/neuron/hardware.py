"""Peaks of the Neuron chips and their cores, each figure with its source.

Sources are pages of AWS's public documentation (repository ``aws-neuron/aws-neuron-sdk``,
SDK 2.32 of August 2026, paths below ``about-neuron/arch/`` unless they say otherwise).
Where pages disagree, ``Figure.conflict`` says how. All rates are dense, in FLOP/s or
bytes/s; a dtype that is missing has no published rate.

Two pages of the Explorer's glossary are not used: they give SBUF as 256 KiB a partition
and 32 GB of HBM a core on Trn2, where the architecture pages give 192 or 224 KiB, and
96 GiB over 8 cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TERA: Final = 1e12
GIB: Final = 1 << 30
MIB: Final = 1 << 20


@dataclass(frozen=True)
class Figure:
    """One published figure. ``conflict``: what another page says, "" where pages agree."""

    value: float
    unit: str
    source: str
    conflict: str = ""


@dataclass(frozen=True)
class Core:
    """One physical NeuronCore. ``peaks``: of the tensor engine, by dtype as torch names it.

    ``vector`` and ``scalar``: FP32 rates of those engines. ``dma``: bandwidth of the core's
    own DMA engines.
    """

    name: str
    peaks: Mapping[str, Figure]
    vector: Figure
    scalar: Figure
    tensor_clock: Figure
    sbuf: Figure
    psum: Figure
    dma: Figure


@dataclass(frozen=True)
class Chip:
    """One chip. ``peaks``: of all its cores together, as its page says.

    ``link``: NeuronLink, all links of the chip together. ``cores_per_device``: physical cores behind one
    ``neuron`` device, with the default
    logical core configuration. ``fp8``: what 8-bit floats are on this chip, in words.
    """

    key: str
    name: str
    core: Core
    cores: Figure
    cores_per_device: Figure
    peaks: Mapping[str, Figure]
    hbm: Figure
    hbm_bandwidth: Figure
    dma: Figure
    link: Figure
    fp8: str
    fp8_native: bool

    @property
    def devices(self) -> int:
        """``neuron`` devices a chip has."""
        return int(self.cores.value // self.cores_per_device.value)

    def peak(self, dtype: str, cores: int | None = None) -> float | None:
        """FLOP/s of the tensor engines for a dtype: of the whole chip, or of some cores of it.

        Where the chip's page and its cores' pages disagree, the larger: a time made of it is
        a floor. None where the chip has no rate for the dtype.
        """
        whole, one = self.peaks.get(dtype), self.core.peaks.get(dtype)
        if cores is None:
            by_core = one.value * self.cores.value if one else 0.0
            return max(whole.value if whole else 0.0, by_core) or None
        if one is not None:
            return one.value * cores
        return whole.value * cores / self.cores.value if whole is not None else None

    def elementwise_peak(self, cores: int | None = None) -> float:
        """FLOP/s of the vector and scalar engines together, FP32."""
        number = self.cores.value if cores is None else cores
        return (self.core.vector.value + self.core.scalar.value) * number

    def bandwidth(self, cores: int | None = None) -> float:
        """Bytes/s of HBM: of the chip, or the share of some of its cores."""
        return self.hbm_bandwidth.value * (1.0 if cores is None else cores / self.cores.value)


def _tera(value: float, source: str, conflict: str = "") -> Figure:
    return Figure(value * TERA, "FLOP/s", source, conflict)


_V2 = "neuron-hardware/neuron-core-v2.rst"
_V3 = "neuron-hardware/neuron-core-v3.rst"
_V4 = "neuron-hardware/neuron-core-v4.rst"
_DMA = "nki/deep-dives/nki-dma-bandwidth-guide.rst"
_LNC = "neuron-features/logical-neuroncore-config.rst"


def _core_v2() -> Core:
    half = _tera(92, _V2, "128 × 128 × 2 × 2.8 GHz is 91.75")
    return Core(
        name="NeuronCore-v2",
        peaks={
            "bfloat16": half,
            "float16": half,
            "float32": _tera(23, _V2),
            "float8_e4m3fn": _tera(92, _V2, "as cFP8, at the rate of bfloat16"),
            "float8_e5m2": _tera(92, _V2, "as cFP8, at the rate of bfloat16"),
        },
        vector=_tera(2.3, _V2),
        scalar=_tera(2.9, _V2),
        tensor_clock=Figure(2.8e9, "Hz", "nki/guides/architecture/trainium_inferentia2_arch.rst"),
        sbuf=Figure(24 * MIB, "B", "nki/guides/architecture/trainium_inferentia2_arch.rst",
                    "the Explorer's glossary says 256 KiB a partition, the architecture page 192 KiB"),
        psum=Figure(2 * MIB, "B", "nki/guides/architecture/trainium_inferentia2_arch.rst"),
        dma=Figure(16 * 17e9, "B/s", _DMA,
                   "the NKI guide says 27 GiB/s an engine; exported profiles of inf2 say 435 GB/s a core"),
    )  # fmt: skip


def _core_v3() -> Core:
    half = _tera(79, _V3, "128 × 128 × 2 × 2.4 GHz is 78.6")
    return Core(
        name="NeuronCore-v3",
        peaks={
            "bfloat16": half,
            "float16": half,
            "float32": _tera(20, _V3),
            "float8_e4m3fn": _tera(158, _V3),
            "float8_e5m2": _tera(158, _V3),
        },
        vector=_tera(1.0, _V3),
        scalar=_tera(1.2, _V3),
        tensor_clock=Figure(2.4e9, "Hz", "nki/guides/architecture/trainium2_arch.rst"),
        sbuf=Figure(28 * MIB, "B", "nki/guides/architecture/trainium2_arch.rst"),
        psum=Figure(2 * MIB, "B", "nki/guides/architecture/trainium2_arch.rst"),
        dma=Figure(16 * 23e9, "B/s", _DMA),
    )


def _core_v4() -> Core:
    half = _tera(79, _V4, "128 × 128 × 2 × 2.4 GHz is 78.6")
    mx = "as MXFP8, through kernels of its own"
    return Core(
        name="NeuronCore-v4",
        peaks={
            "bfloat16": half,
            "float16": half,
            "float32": _tera(20, _V4),
            "float8_e4m3fn": _tera(315, _V4, mx),
            "float8_e5m2": _tera(315, _V4, mx),
        },
        vector=_tera(1.2, _V4),
        scalar=_tera(1.2, _V4),
        tensor_clock=Figure(2.4e9, "Hz", "nki/guides/architecture/trainium3_arch.rst"),
        sbuf=Figure(32 * MIB, "B", "nki/guides/architecture/trainium3_arch.rst"),
        psum=Figure(2 * MIB, "B", "nki/guides/architecture/trainium3_arch.rst"),
        dma=Figure(16 * 33e9, "B/s", _DMA),
    )


CORE_V2: Final = _core_v2()
CORE_V3: Final = _core_v3()
CORE_V4: Final = _core_v4()


def _first_generation(key: str, name: str, page: str, link: Figure) -> Chip:
    half = _tera(190, page)
    return Chip(
        key=key,
        name=name,
        core=CORE_V2,
        cores=Figure(2, "cores", page),
        cores_per_device=Figure(1, "cores", _LNC),
        peaks={"bfloat16": half, "float16": half, "float32": _tera(47.5, page),
               "int8": Figure(380 * TERA, "OP/s", page)},
        hbm=Figure(32 * GIB, "B", page),
        hbm_bandwidth=Figure(820e9, "B/s", page, "the instance pages write the same number as GiB/s"),
        dma=Figure(1e12, "B/s", page),
        link=link,
        fp8="cFP8 only, at the rate of bfloat16; no MX formats",
        fp8_native=False,
    )  # fmt: skip


def _trn2() -> Chip:
    page = "neuron-hardware/trainium2.rst"
    half = _tera(667, page, "8 cores of 79 are 632; the pages do not reconcile")
    return Chip(
        key="trn2",
        name="Trainium2",
        core=CORE_V3,
        cores=Figure(8, "cores", page),
        cores_per_device=Figure(2, "cores", _LNC, "1 with a logical core configuration of 1"),
        peaks={
            "bfloat16": half,
            "float16": half,
            "float32": _tera(181, page, "8 cores of 20 are 160"),
            "float8_e4m3fn": _tera(1299, page, "8 cores of 158 are 1,264"),
            "float8_e5m2": _tera(1299, page, "8 cores of 158 are 1,264"),
        },
        hbm=Figure(96 * GIB, "B", page, "the Explorer's glossary says 32 GB a core; 96 GiB over 8 cores are 12"),
        hbm_bandwidth=Figure(2.9e12, "B/s", page, "the NKI guide says 3 TB/s"),
        dma=Figure(3.5e12, "B/s", page, "8 cores of 368 GB/s are 2.9 TB/s"),
        link=Figure(1.28e12, "B/s", page, "the instance page says 1,024 GB/s inside an instance and 256 between"),
        fp8="FP8 at twice the rate of bfloat16; _scaled_mm has no kernel; no MX formats",
        fp8_native=True,
    )


def _trn3() -> Chip:
    page = "neuron-hardware/trainium3.rst"
    half = _tera(671, page, "8 cores of 79 are 632; the pages do not reconcile")
    mx = "as MXFP8, through kernels of its own"
    return Chip(
        key="trn3",
        name="Trainium3",
        core=CORE_V4,
        cores=Figure(8, "cores", page),
        cores_per_device=Figure(2, "cores", _LNC, "1 with a logical core configuration of 1"),
        peaks={
            "bfloat16": half,
            "float16": half,
            "float32": _tera(183, page, "8 cores of 20 are 160"),
            "float8_e4m3fn": _tera(2517, page, mx),
            "float8_e5m2": _tera(2517, page, mx),
        },
        hbm=Figure(144 * GIB, "B", page),
        hbm_bandwidth=Figure(4.9e12, "B/s", page, "the NKI guide says 4.7 TB/s; 8 DMA caps of 528 GB/s are 4.2"),
        dma=Figure(4.9e12, "B/s", page),
        link=Figure(2.56e12, "B/s", page, "the instance page says 2,048 GiB/s"),
        fp8="MXFP8 and MXFP4 through kernels of their own; _scaled_mm has no kernel",
        fp8_native=False,
    )


CHIPS: Final[dict[str, Chip]] = {
    chip.key: chip
    for chip in (
        _first_generation("trn1", "Trainium1", "neuron-hardware/trainium.rst",
                          Figure(384e9, "B/s", "neuron-hardware/trn1-arch.rst", "768 on a trn1n.32xlarge")),
        _trn2(),
        _trn3(),
        _first_generation("inf2", "Inferentia2", "neuron-hardware/inferentia2.rst",
                          Figure(192 * GIB, "B/s", "neuron-hardware/inf2-arch.rst")),
    )
}
"""The chips that TorchNeuron or its predecessor run on, by the name of their instances."""

NARROWED: Final[dict[str, str]] = {
    "float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64",
}  # fmt: skip
"""Dtypes that the device keeps as a narrower one (TorchNeuron rewrites them on the way)."""

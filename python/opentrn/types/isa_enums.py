"""Enumerations of the NKI instruction set, with the documented values (nki/api/nki/isa,
nki/api/nki/language).

They live outside `opentrn.nki` so that the oracle and the core can be imported without the language layer;
`opentrn.nki._enums` re-exports them.
"""

from __future__ import annotations

from enum import Enum

from opentrn.errors import InputError


class engine(Enum):
    """Engines of a NeuronCore, and its DMA rings."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6
    # names of the NKI 0.1-0.3 dialects
    pe = 1
    pool = 3
    act = 2
    dve = 5

    @classmethod
    def _missing_(cls, value):
        return cls.__members__.get(value) if isinstance(value, str) else None


class reduce_cmd(Enum):
    """What an instruction does to its engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Who generates DMA descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """What a DMA does with an index outside the tensor."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Throughput mode of nc_matmul."""

    none = "none"
    double_row = "double_row"
    # name in the 0.1 dialect
    double_row_gen3 = "double_row"


class nc_version(Enum):
    """NeuronCore generation: gen2 Trn1/Inf2, gen3 Trn2, gen4 Trn3."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def _order(self, other):
        return other.value if isinstance(other, nc_version) else other

    def __lt__(self, other):
        return self.value < self._order(other)

    def __le__(self, other):
        return self.value <= self._order(other)

    def __gt__(self, other):
        return self.value > self._order(other)

    def __ge__(self, other):
        return self.value >= self._order(other)


class dma_engine(Enum):
    """Which DMA moves a sendrecv."""

    dma = 1
    gpsimd_dma = 2


class MemoryRegion(str, Enum):
    """Memory that holds a tensor. A str, so that `t.buffer == "sbuf"` holds too."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"
    hbm = "private_hbm"  # documented alias

    @classmethod
    def _missing_(cls, value):
        return cls.private_hbm if value == "hbm" else None

    @property
    def is_on_chip(self) -> bool:
        """True for SBUF and PSUM, whose dimension 0 is the partition."""
        return self is MemoryRegion.sbuf or self is MemoryRegion.psum

    @property
    def is_hbm(self) -> bool:
        return not self.is_on_chip


# Deprecated module constants of nki.isa.
tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

PLATFORM_TARGETS: dict[str, nc_version] = {
    "trn1": nc_version.gen2,
    "inf2": nc_version.gen2,
    "gen2": nc_version.gen2,
    "trn2": nc_version.gen3,
    "gen3": nc_version.gen3,
    "trn3": nc_version.gen4,
    "trn3pre": nc_version.gen4,  # in command lines of public programs
    "gen4": nc_version.gen4,
}

# Physical cores of a logical one, at most (NCC_EARG001: "on trn1, only lnc=1 is supported"; NKI's LNC page: 1 or 2).
LNC_MAX: dict[nc_version, int] = {nc_version.gen2: 1, nc_version.gen3: 2, nc_version.gen4: 2}


def target_version(target: str | nc_version) -> nc_version:
    """The generation of a target or of an nc_version.

    A target is "trn2", "gen3", "v3", "NeuronCore-v3", "Trainium2", "trn2.48xlarge" or "Trn2 UltraServer", letter case
    aside. NKI starts with gen2, whose rules stand in for Inf1's (src/arch/stated.h). Raises ValueError with the
    nearest names for another name.
    """
    if isinstance(target, nc_version):
        return target
    name = str(target).strip()
    found = PLATFORM_TARGETS.get(name.lower())
    return nc_version(_generation_of(name)) if found is None else found


def _generation_of(name: str) -> int:
    """The generation whose rules hold on an instance, chip, core or UltraServer, which the machine tables know."""
    try:
        from opentrn import _core
    except ImportError:
        raise InputError(
            f"unknown platform target {name!r}; known without the C++ extension: {', '.join(PLATFORM_TARGETS)}",
            label="arch.target",
        ) from None
    return _core.target_generation(name)


def require_logical_core(target: str | nc_version, cores: int) -> None:
    """Raise ValueError for `cores` physical cores as one logical core where `target` has no such cores."""
    version = target_version(target)
    most = LNC_MAX.get(version, 1)
    if not 1 <= cores <= most:
        name = target.name if isinstance(target, nc_version) else target
        raise InputError(
            f"a logical core of {name} is {'1 core' if most == 1 else f'1 to {most} cores'}, not {cores}; LNC "
            "2 exists from NeuronCore-v3 (Trainium2) on",
            label="target.cores", hint="one core (--lnc 1), or the target trn2 or trn3",
        )

"""Enumerations of `nki.isa`; `nki.isa.constants` shows the same objects."""

from enum import Enum, IntEnum


class engine(Enum):
    """Engines of a core."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(Enum):
    """What an instruction does with the accumulators of its engine."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Who makes the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """What a DMA does with an index outside its tensor."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Rows-per-cycle modes of the tensor engine."""

    none = "none"
    double_row = "double_row"
    double_row_sw_interleave = "double_row_sw_interleave"


class nc_version(IntEnum):
    """Generations of NeuronCores."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(Enum):
    """Who moves the data of a `sendrecv`."""

    dma = 1
    gpsimd_dma = 2


class dma_compute_op(Enum):
    """Operations of the DMA's compute unit."""

    none = 0
    add = 1


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
dma_engine_kind = engine.dma
sync_engine = engine.sync
unknown_engine = engine.unknown

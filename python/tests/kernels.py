"""Small kernels as people write them, one per feature. They import the vendor's names only."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def swap(x):
    """Each core loads its half of the rows, swaps it with the other core, stores what it received."""
    half, f = x.shape[0] // 2, x.shape[1]
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    mine = nl.ndarray((half, f), dtype=x.dtype, buffer=nl.sbuf)
    theirs = nl.ndarray((half, f), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=x[nl.ds(core * half, half)])
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.dma_copy(dst=out[core * half : (core + 1) * half, :], src=theirs)
    return out


@nki.jit
def copied(x):
    """Each core copies half of the rows, from memory to memory."""
    half = x.shape[0] // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    rows = nl.ds(nl.program_id(0) * half, half)
    nisa.dma_copy(dst=out[rows], src=x[rows])
    return out


@nki.jit
def doubled(x):
    """Each core doubles 64 rows of its half in place."""
    half, f = x.shape[0] // 2, x.shape[1]
    rows = nl.ds(nl.program_id(0) * half, 64)
    tile = nl.ndarray((64, f), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x[rows], src=tile)


@nki.jit
def strided_swap(x):
    """The source of the swap is an explicit pattern: partitions 32..95, every fourth column from 2."""
    core = nl.program_id(0)
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    got = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(core * 128, 128)])
    nisa.sendrecv(
        src=tile.ap(pattern=[[256, 64], [4, 32]], offset=256 * 32 + 2),
        dst=got,
        send_to_rank=1 - core,
        recv_from_rank=1 - core,
        pipe_id=0,
    )
    nisa.dma_copy(dst=out[nl.ds(core * 64, 64)], src=got)
    return out


@nki.jit
def sum_of_squares(x):
    """Partial sums of squares over halves of the columns, exchanged and added; both cores store the total."""
    core, h = nl.program_id(0), x.shape[1] // 2
    out = nl.ndarray((2, 128, 1), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    part = nl.ndarray((128, h), dtype=x.dtype, buffer=nl.sbuf)
    square = nl.ndarray((128, h), dtype=x.dtype, buffer=nl.sbuf)
    mine, theirs, total = (nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=part, src=x[:, nl.ds(core * h, h)])
    nisa.tensor_tensor(dst=square, data1=part, data2=part, op=nl.multiply)
    nisa.tensor_reduce(dst=mine, op=nl.add, data=square, axis=1)
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_tensor(dst=total, data1=mine, data2=theirs, op=nl.add)
    nisa.dma_copy(dst=out[core], src=total)
    return out


@nki.jit
def rmsnorm(x, gamma):
    """RMS norm of rows whose columns are split over the cores."""
    rows, cols = x.shape
    core, n = nl.program_id(axis=0), nl.num_programs(axes=0)
    h = cols // n
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    data = nl.ndarray((rows, h), dtype=x.dtype, buffer=nl.sbuf)
    weight = nl.ndarray((rows, h), dtype=x.dtype, buffer=nl.sbuf)
    eps = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf)
    square = nl.ndarray((rows, h), dtype=x.dtype, buffer=nl.sbuf)
    mine, theirs, total, scale = (nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf) for _ in range(4))
    scaled = nl.ndarray((rows, h), dtype=x.dtype, buffer=nl.sbuf)
    result = nl.ndarray((rows, h), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x[:, nl.ds(core * h, h)])
    nisa.dma_copy(dst=weight, src=gamma.ap([[0, rows], [1, h]], offset=core * h))
    nisa.memset(dst=eps, value=1e-6)
    nisa.activation_reduce(dst=square, op=nl.square, data=data, reduce_op=nl.add, reduce_res=mine)
    if n == 2:
        nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nisa.tensor_tensor(dst=total, data1=mine, data2=theirs, op=nl.add)
    else:
        nisa.tensor_copy(dst=total, src=mine)
    nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / cols, bias=eps)
    nisa.tensor_scalar(dst=scaled, data=data, op0=nl.multiply, operand0=scale)
    nisa.tensor_tensor(dst=result, data1=scaled, data2=weight, op=nl.multiply)
    nisa.dma_copy(dst=out[:, nl.ds(core * h, h)], src=result)
    return out


@nki.jit
def barrier_exchange(x):
    """Each core doubles its half into a shared buffer, and after a barrier reads the other half."""
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="xbuf")
    mine, twice, theirs = (nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=mine, src=x[core * 128 : core * 128 + 128])
    nisa.tensor_scalar(dst=twice, data=mine, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=shared[nl.ds(core * 128, 128)], src=twice)
    nisa.core_barrier(shared, (0, 1))
    nisa.dma_copy(dst=theirs, src=shared[nl.ds((1 - core) * 128, 128)])
    nisa.dma_copy(dst=out[nl.ds(core * 128, 128)], src=theirs)
    return out


@nki.jit
def no_barrier(x):
    """The same without the barrier: a race."""
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[nl.ds(core * 128, 128)])
    nl.store(shared[nl.ds(core * 128, 128)], tile)
    other = nl.load(shared[nl.ds((1 - core) * 128, 128)])
    nl.store(out[nl.ds(core * 128, 128)], other)
    return out


@nki.jit
def softmax(x):
    """Softmax of rows whose columns are split over the cores: two exchanges, the maximum and the sum."""
    rows, cols = x.shape
    core, h = nl.program_id(0), cols // nl.num_programs(0)
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)

    def exchanged(value, op, pipe):
        other = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.sendrecv(src=value, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=pipe)
        nisa.tensor_tensor(dst=value, data1=value, data2=other, op=op)

    data = nl.load(x[:, nl.ds(core * h, h)])
    top = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=data, axis=1)
    exchanged(top, nl.maximum, 0)
    nisa.tensor_scalar(dst=top, data=top, op0=nl.multiply, operand0=-1.0)
    power, total = nl.ndarray((rows, h), nl.float32), nl.ndarray((rows, 1), nl.float32)
    nisa.activation(dst=power, op=nl.exp, data=data, bias=top)
    nisa.tensor_reduce(dst=total, op=nl.add, data=power, axis=1)
    exchanged(total, nl.add, 1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=power, data=power, op0=nl.multiply, operand0=total)
    nl.store(out[:, nl.ds(core * h, h)], power)
    return out


@nki.jit
def layernorm(x, eps=1e-5):
    """Layer norm, a tile of rows after the other; the cores take every second tile."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(nl.program_id(0), rows // 128, nl.num_programs(0)):
        data = nl.load(x[i * 128 : (i + 1) * 128])
        stats, aggregate = nl.ndarray((128, 6), nl.float32), nl.ndarray((128, 2), nl.float32)
        nisa.bn_stats(dst=stats, data=data)
        nisa.bn_aggr(dst=aggregate, data=stats)
        scale, result = nl.ndarray((128, 1), nl.float32), nl.ndarray((128, cols), nl.float32)
        nisa.activation(dst=scale, op=nl.rsqrt, data=aggregate[:, 1:2], bias=eps)
        nisa.tensor_scalar(
            dst=result, data=data, op0=nl.subtract, operand0=aggregate[:, 0:1], op1=nl.multiply, operand1=scale
        )
        nl.store(out[i * 128 : (i + 1) * 128], result)
    return out


@nki.jit
def matmul_k_split(lhs_t, rhs):
    """`lhs_t.T @ rhs` with the contraction split over the cores; accumulation in PSUM, partial sums exchanged."""
    k, m = lhs_t.shape
    n = rhs.shape[1]
    core = nl.program_id(0)
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    per = k // 2 // 128
    for i in range(per):
        at = (core * per + i) * 128
        stationary = nl.load(lhs_t[nl.ds(at, 128)])
        moving = nl.load(rhs[nl.ds(at, 128)])
        nisa.nc_matmul(dst=acc, stationary=stationary, moving=moving)
    part, other = nl.ndarray((m, n), nl.float32), nl.ndarray((m, n), nl.float32)
    nisa.tensor_copy(dst=part, src=acc)
    nisa.sendrecv(src=part, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_tensor(dst=part, data1=part, data2=other, op=nl.add)
    h = m // 2
    nisa.dma_copy(dst=out[nl.ds(core * h, h)], src=part[nl.ds(core * h, h)])
    return out


@nki.jit
def private_scratch(x):
    """Each core stages its half in memory of its own."""
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scratch = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.private_hbm)
    tile = nl.load(x[nl.ds(core * 128, 128)])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(core + 1))
    nl.store(scratch, tile)
    nl.store(out[nl.ds(core * 128, 128)], nl.load(scratch))
    return out


@nki.jit
def in_place(cache, new, position):
    """Writes rows into an input; nothing is returned."""
    tile = nl.load(new)
    nisa.dma_copy(dst=cache[nl.ds(position, new.shape[0])], src=tile)


@nki.jit
def in_place_returned(cache, new, position):
    tile = nl.load(new)
    nisa.dma_copy(dst=cache[nl.ds(position, new.shape[0])], src=tile)
    return cache


@nki.jit
def two_outputs(x):
    """Row maxima and row sums."""
    top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm, name="top")
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm, name="total")
    data = nl.load(x)
    for out, op in ((top, nl.maximum), (total, nl.add)):
        r = nl.ndarray((128, 1), nl.float32)
        nisa.tensor_reduce(dst=r, op=op, data=data, axis=(1, 2))
        nl.store(out, r)
    return top, (total, None)


@nki.jit
def bits(x):
    """The high halves of 32-bit floats, through a view of another element type."""
    p, f = x.shape
    out = nl.ndarray((p, f), dtype=nl.uint16, buffer=nl.shared_hbm)
    halves = nl.load(x).view(nl.uint16)
    tile = nl.ndarray((p, f), nl.uint16)
    nisa.tensor_copy(dst=tile, src=halves.ap([[2 * f, p], [2, f]], offset=1))
    nl.store(out, tile)
    return out


@nki.jit
def gather(table, rows):
    """Rows of a table by indices that are data."""
    p, f = rows.shape[0], table.shape[1]
    out = nl.ndarray((p, f), dtype=table.dtype, buffer=nl.shared_hbm)
    index = nl.load(rows)
    tile = nl.ndarray((p, f), table.dtype)
    nisa.dma_copy(
        dst=tile, src=table.ap([[f, p], [1, f]], vector_offset=index, indirect_dim=0), dge_mode=nisa.dge_mode.swdge
    )
    nl.store(out, tile)
    return out


@nki.jit
def scatter(values, rows, out):
    """Rows written to places that are data."""
    p, f = values.shape
    index, tile = nl.load(rows), nl.load(values)
    nisa.dma_copy(
        dst=out.ap([[f, p], [1, f]], vector_offset=index, indirect_dim=0), src=tile, dge_mode=nisa.dge_mode.swdge
    )


@nki.jit
def banks(a, b):
    """Products in PSUM banks chosen by address, the banks used in turns."""
    out = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    at, bt = nl.load(a), nl.load(b)
    for i in range(4):
        acc = nl.ndarray((128, 512), nl.float32, buffer=nl.psum, address=(0, i % 2 * 2048))
        nisa.nc_matmul(dst=acc, stationary=at, moving=bt[:, nl.ds(i * 512, 512)])
        tile = nl.ndarray((128, 512), nl.float32, address=(0, 65536 + i * 2048))
        nisa.tensor_copy(dst=tile, src=acc)
        nl.store(out[i], tile)
    return out


@nki.jit
def dynamic_loop(x, count):
    """As many tiles as a number in memory says, addressed by the loop's register; both cores their half."""
    n = x.shape[0]
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = n // 2
    limit = nisa.register_alloc()
    c = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(dst=c, src=count)
    nisa.register_load(limit, c)
    base = core * tiles
    for i in nl.dynamic_range(0, tiles):
        at = i + base
        tile = nl.ndarray(x.shape[1:], x.dtype)
        nisa.dma_copy(dst=tile, src=x[at])
        for _ in nl.dynamic_range(0, limit):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[at], src=tile)
    return out


@nki.jit
def count_down(x, count):
    """Doubles a tile until a register is zero."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, c = nl.load(x), nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(dst=c, src=count)
    left = nisa.register_alloc()
    nisa.register_load(left, c)
    while left:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.tensor_scalar(dst=c, data=c, op0=nl.subtract, operand0=1)
        nisa.register_load(left, c)
    nl.store(out, tile)
    return out


@nki.jit
def structured_loops(x):
    """`fori_loop` and `while_loop`."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, c = nl.load(x), nl.full((1, 1), 3, nl.int32)

    def add(_):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    def halve(r):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.tensor_scalar(dst=c, data=c, op0=nl.subtract, operand0=1)
        nisa.register_load(r, c)
        return r

    nl.fori_loop(2, 10, add, step=4)
    nl.while_loop(nisa.register_alloc(c), halve)
    nl.store(out, tile)
    return out


@nki.jit
def transposes(x):
    """By the tensor engine, by DMA, and by the vector engine."""
    out = nl.ndarray((3, 32, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    acc, tile = nl.ndarray((32, 32), x.dtype, buffer=nl.psum), nl.ndarray((32, 32), x.dtype)
    nisa.nc_transpose(dst=acc, data=data)
    nisa.tensor_copy(dst=tile, src=acc)
    nl.store(out[0], tile)
    by_dma = nl.ndarray((32, 32), x.dtype)
    nisa.dma_transpose(dst=by_dma, src=x)
    nl.store(out[1], by_dma)
    by_vector = nl.ndarray((32, 32), x.dtype)
    nisa.nc_transpose(dst=by_vector, data=data, engine=nisa.vector_engine)
    nl.store(out[2], by_vector)
    return out


@nki.jit
def constants(x):
    """A constant that is part of the kernel, and the identity."""
    ramp = nl.shared_constant(np.arange(128 * 64, dtype=np.float32).reshape(128, 64) / 64)
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, r = nl.load(x[nl.ds(core * 128, 128)]), nl.load(ramp)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=r, op=nl.add)
    eye = nl.shared_identity_matrix(64, dtype=nl.float32)
    nisa.tensor_tensor(dst=tile[0:64], data1=tile[0:64], data2=eye, op=nl.add)
    nl.store(out[nl.ds(core * 128, 128)], tile)
    return out


@nki.jit
def ordered(x):
    """A region whose order is kept, and an edge between statements."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    with nl.no_reorder():
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    a = nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, name="last_add")
    nisa.dma_copy(dst=out, src=tile, name="write").depends_on(a)
    return out


@nki.jit
def all_reduce_sbuf(x):
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    mine, total = (nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=mine, src=x[nl.ds(core * 128, 128)])
    ncc.all_reduce(srcs=[mine], dsts=[total], replica_group=ncc.ReplicaGroup([[0, 1]]), op=nl.add)
    nisa.dma_copy(dst=out[nl.ds(core * 128, 128)], src=total)
    return out


@nki.jit
def all_gather_hbm(x):
    core = nl.program_id(0)
    out = nl.ndarray((2, 128, 128), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    src = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.private_hbm, name="src")
    dst = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.private_hbm, name="dst")
    nisa.dma_copy(dst=src, src=x[nl.ds(core * 64, 64)])
    ncc.all_gather(srcs=[src], dsts=[dst], replica_group=ncc.ReplicaGroup([[0, 1]]), collective_dim=0)
    nisa.dma_copy(dst=out[core], src=dst)
    return out


@nki.jit
def add_one_core(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    x, y, z = (nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=z, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=z)
    return out


@nki.jit
def reshaped_dynamic(x, index):
    """A row of a reshaped tensor by a register: the moving dimension counts the reshaped shape."""
    p, f = x.shape
    out = nl.ndarray((1, f // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(dst=i, src=index)
    r = nisa.register_alloc(i)
    rows = x.reshape((p * 2, f // 2))
    tile = nl.ndarray((1, f // 2), x.dtype)
    nisa.dma_copy(dst=tile, src=rows.ap([[f // 2, 1], [1, f // 2]], scalar_offset=r, indirect_dim=0))
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def row_by_number(x, index):
    """Rows chosen by numbers in SBUF that a transfer of the same queue has just brought."""
    f = x.shape[1]
    out = nl.ndarray((2, f), dtype=x.dtype, buffer=nl.shared_hbm)
    at = nl.full((1, 2), 0, nl.int32)
    nisa.dma_copy(dst=at, src=index)
    tile = nl.ndarray((1, f), x.dtype)
    for i in range(2):
        row = x.ap([[f, 1], [1, f]], scalar_offset=at[0:1, i : i + 1], indirect_dim=0)
        nisa.dma_copy(dst=tile, src=row)
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@nki.jit
def both_cores_whole(x):
    """Not divided: both cores store the whole output."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(out, tile)
    return out


@nki.jit
def both_cores_sum(x):
    """Both cores store the same sum of their halves, added in another order."""
    core, h = nl.program_id(0), x.shape[1] // 2
    out = nl.ndarray((x.shape[0], h), dtype=x.dtype, buffer=nl.shared_hbm)
    mine, theirs = nl.load(x[:, nl.ds(core * h, h)]), nl.ndarray((x.shape[0], h), x.dtype)
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_tensor(dst=mine, data1=mine, data2=theirs, op=nl.add)
    nl.store(out, mine)
    return out


@nki.jit
def both_cores_differ(x):
    """Both cores store the whole output, with other values."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0 + nl.program_id(0))
    nl.store(out, tile)
    return out

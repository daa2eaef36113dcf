"""`nki.collectives`: one row per collective."""

from __future__ import annotations

from .._core import NkiTensor
from .._table import Alu, Function, Instruction, describe, parameters, plain
from .._trace import VirtualRegister

__all__ = ["ReplicaGroup"]
TABLE = {}


class ReplicaGroup:
    """Which ranks take part: lists of ranks, or a name."""

    def __init__(self, groups):
        self.groups = groups if isinstance(groups, str) else [[int(plain(r)) for r in g] for g in groups]

    def __repr__(self):
        return f"ReplicaGroup({self.groups!r})"

    def __eq__(self, other):
        return isinstance(other, ReplicaGroup) and other.groups == self.groups

    def __hash__(self):
        return hash(repr(self.groups))


def row(name, signature, build):
    f = Function(name, parameters(", ".join(p for p in (signature, "priority=None, name=None") if p), {}), build=build, short="ncc")
    f.__module__ = __name__
    TABLE[name] = f
    globals()[name] = f
    __all__.append(name)


def _group(c, name="replica_group"):
    g = c.a[name]
    if isinstance(g, ReplicaGroup):
        return g.groups
    if isinstance(g, (list, tuple, str)):
        return ReplicaGroup(g).groups
    raise c.fail(name, f"expected a ReplicaGroup, not {describe(g)}")


def _tensors(c, name, exactly=None):
    v = c.a[name]
    v = [v] if type(v) is NkiTensor else v
    if not isinstance(v, (list, tuple)) or not v or any(type(t) is not NkiTensor for t in v):
        raise c.fail(name, f"expected a list of tensors, not {describe(v)}")
    if exactly is not None and len(v) != exactly:
        raise c.fail(name, f"{len(v)} tensors, {exactly} needed")
    return list(v)


def _pair(c, srcs="srcs", dsts="dsts", exactly=None):
    s, d = _tensors(c, srcs, exactly), _tensors(c, dsts, exactly)
    if len(s) != len(d):
        raise c.fail(dsts, f"{len(d)} tensors, `{srcs}` has {len(s)}")
    chip = {t._on_chip for t in s + d}
    if len(chip) > 1:
        raise c.fail(dsts, "tensors in memory and on the chip in one collective")
    if any(t._psum for t in s + d):
        raise c.fail(dsts, "a collective works in HBM or SBUF, not PSUM")
    if chip == {True} and len(s) > 1:
        raise c.fail(srcs, "several tensors only in memory")
    return s, d


def _emit(c, operator, dsts, srcs, op=None, group=None, dim=None, pairs=None, channel=None, channels=None):
    priority = c.a["priority"]
    values = (dsts, srcs, op, group, dim, pairs, channel, channels, None if priority is None else int(plain(priority)))
    return TABLE[c.fn.split(".")[1]].emit(c, operator, values)


def _all_reduce(c):
    s, d = _pair(c)
    return _emit(c, "allReduce", d, s, Alu("op")(c), _group(c))


def _all_gather(c):
    s, d = _pair(c)
    return _emit(c, "allGather", d, s, None, _group(c), c.number("collective_dim", int))


def _reduce_scatter(c):
    s, d = _pair(c)
    return _emit(c, "reduceScatter", d, s, Alu("op")(c), _group(c), c.number("collective_dim", int))


def _all_to_all(c):
    s, d = _pair(c)
    return _emit(c, "allToAll", d, s, None, _group(c), c.number("collective_dim", int))


def _permute(c):
    s, d = _pair(c, exactly=1)
    pairs = [[int(plain(a)), int(plain(b))] for a, b in c.a["source_target_pairs"]]
    return _emit(c, "collectivePermute", d, s, pairs=pairs)


def _channels(c, *names):
    lists, ids = [c.a[n] for n in names], [int(plain(i)) for i in c.a["channel_ids"]]
    for n, v in zip(names, lists):
        if not isinstance(v, (list, tuple)) or len(v) != len(ids):
            raise c.fail(n, f"expected one list of tensors for each of {len(ids)} channels, not {describe(v)}")
    out = []
    for k, channel in enumerate(ids):
        tensors = []
        for n, v in zip(names, lists):
            one = v[k][0] if isinstance(v[k], (list, tuple)) and len(v[k]) == 1 else v[k]
            if type(one) is not NkiTensor:
                raise c.fail(n, f"expected one tensor for channel {channel}, not {describe(v[k])}")
            tensors.append(one)
        out.append((channel, tensors))
    return out


def _permute_implicit(c):
    group, done = _group(c), None
    channels = _channels(c, "srcs_by_channel", "dsts_by_channel")
    c.core.counters["channels"] = len(channels)
    for channel, (s, d) in channels:
        done = _emit(c, "collectivePermuteImplicit", [d], [s], None, group, channel=channel, channels=len(channels))
    return done


def _permute_reduce(c):
    group, op, done = _group(c), Alu("op")(c), None
    channels = _channels(c, "srcs0_by_channel", "srcs1_by_channel", "dsts_by_channel")
    c.core.counters["channels"] = len(channels)
    for channel, (a, b, d) in channels:
        done = _emit(
            c, "collectivePermuteImplicitReduce", [d], [a, b], op, group, channel=channel, channels=len(channels)
        )
    return done


def _current_rank(c):
    channels = c.a["num_channels"]
    if channels is None:
        channels = c.core.counters.get("channels", 1)
    register = c.core.fresh_register("current_processing_rank_id", True)
    group = _group(c)
    if isinstance(group, str):
        raise c.fail("replica_group", "KLR wants the ranks themselves here", "T0003")
    values = (register._register, c.number("iteration_id", int), c.number("channel_id", int), int(channels), group)
    c.core.emit("currentProcessingRankId", values, c.a["name"])
    return register


def _rank_id(c):
    register = c.core.fresh_register("rank_id", True)
    c.core.emit("rankId", (register._register,), c.a["name"])
    return register


def _not_in_klr(c):
    raise c.fail(None, "KLR has no operator for it", "T0003")


row("all_reduce", "srcs, dsts, replica_group, op", _all_reduce)
row("all_gather", "srcs, dsts, replica_group, collective_dim", _all_gather)
row("reduce_scatter", "srcs, dsts, replica_group, collective_dim, op", _reduce_scatter)
row("all_to_all", "srcs, dsts, replica_group, collective_dim", _all_to_all)
row("collective_permute", "srcs, dsts, source_target_pairs", _permute)
row(
    "collective_permute_implicit",
    "srcs_by_channel, dsts_by_channel, replica_group, channel_ids=[0]",
    _permute_implicit,
)
row(
    "collective_permute_implicit_reduce",
    "srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids=[0]",
    _permute_reduce,
)
row(
    "collective_permute_implicit_current_processing_rank_id",
    "iteration_id, replica_group, channel_id=0, num_channels=None@0.2:0.3",
    _current_rank,
)
row("rank_id", "", _rank_id)
for _name in ("all_gather_v", "all_to_all_v"):
    row(_name, "srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False", _not_in_klr)

__all__ += ["Instruction", "VirtualRegister"]

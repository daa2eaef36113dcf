#!/usr/bin/env python3
"""Decode the traces that `tandem time --trace` writes with Perfetto's own message classes, and check them.

usage: check_trace.py --tandem PATH [FILE...]      (without files: examples and the corpus)

Needs the PyPI package perfetto (its protobuf classes only; the query engine is not used). Per trace:
  sequences   every packet names one, its first packet clears the incremental state, events say that they need it
  names       every interned number that is used was announced in its sequence before
  tracks      every event is on a track that was described before, below a described parent; no uuid twice
  slices      on a track slices nest and siblings do not overlap; `duration_ps` fits the times in the file
  flows       every flow leaves one slice and ends at one, which does not end before the first begins
  counters    stay between 0 and the size of the memory, end at 0, and every value is a new one
  sums        slices add up to the totals of `tandem time --format json`, per core and engine and per DMA engine, to the picosecond
Last line: `N passed, M failed`.
"""
import argparse, collections, glob, json, os, subprocess, sys, tempfile

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackDescriptor, TrackEvent

CLEARED = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
NEEDED = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE


class Bad(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Bad(what)


class Slice:
    def __init__(self, begin, name, notes, out, into, depth):
        self.begin, self.end, self.name, self.notes, self.out, self.into, self.depth = begin, None, name, notes, out, into, depth


def interned(packet, tables):
    for kind in ("event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values", "source_locations"):
        for e in getattr(packet.interned_data, kind):
            table = tables[kind]
            need(e.iid and e.iid not in table, f"{kind} {e.iid} announced twice")
            table[e.iid] = e


def look(tables, kind, iid):
    need(iid in tables[kind], f"{kind} {iid} is used before it is announced")
    return tables[kind][iid]


def decode(path):
    """Tracks, slices by track, counter values by track."""
    trace = Trace()
    with open(path, "rb") as f:
        trace.ParseFromString(f.read())
    need(trace.packet, "no packets")
    sequences, tracks, events = {}, {}, collections.defaultdict(list)
    for n, p in enumerate(trace.packet):
        seq = p.trusted_packet_sequence_id
        need(seq, f"packet {n} has no sequence")
        if seq not in sequences:
            need(p.sequence_flags & CLEARED and p.first_packet_on_sequence, f"sequence {seq} does not begin with cleared state")
            need(p.trace_packet_defaults.timestamp_clock_id, f"sequence {seq} has no clock")
            sequences[seq] = collections.defaultdict(dict)
        else:
            need(not p.sequence_flags & CLEARED, f"sequence {seq} is cleared again")
        interned(p, sequences[seq])
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            need(d.uuid and d.uuid not in tracks, f"track {d.uuid} is described twice")
            need(d.HasField("process") or d.parent_uuid in tracks, f"track {d.uuid} has no parent")
            tracks[d.uuid] = d
        elif p.HasField("track_event"):
            need(p.HasField("timestamp"), f"event {n} has no time")
            need(p.sequence_flags & NEEDED, f"event {n} does not ask for its sequence's state")
            need(p.track_event.track_uuid in tracks, f"event {n} is on an unknown track")
            events[p.track_event.track_uuid].append((p.timestamp, n, p.track_event, sequences[seq]))
        else:
            raise Bad(f"packet {n} is of another kind")
    slices, counters = {}, {}
    for uuid, list_ in events.items():
        # A reader sorts by time and keeps the order of the file among equals.
        list_.sort(key=lambda e: e[:2])
        if tracks[uuid].HasField("counter"):
            need(tracks[uuid].counter.unit == 3, "a counter is not in bytes")
            need(all(e.type == TrackEvent.TYPE_COUNTER for _, _, e, _ in list_), "a counter track has slices")
            counters[uuid] = [(t, e.counter_value) for t, _, e, _ in list_]
        else:
            slices[uuid] = nest(uuid, list_)
    return tracks, slices, counters


def nest(uuid, events):
    done, stack, free = [], [], {0: 0}
    for t, n, e, tables in events:
        if e.type == TrackEvent.TYPE_SLICE_BEGIN:
            depth = len(stack)
            need(t >= free.get(depth, 0), f"slice {n} overlaps the one before it on track {uuid}")
            notes = {}
            for a in e.debug_annotations:
                value = look(tables, "debug_annotation_string_values", a.string_value_iid).str.decode() if a.string_value_iid else a.uint_value
                notes[look(tables, "debug_annotation_names", a.name_iid).name] = value
            for c in e.category_iids:
                look(tables, "event_categories", c)
            if e.source_location_iid:
                s = look(tables, "source_locations", e.source_location_iid)
                need(notes.get("nki_source_location") == f"{s.file_name}:{s.line_number}", f"slice {n}: two source positions")
            name = look(tables, "event_names", e.name_iid).name
            need(name, f"slice {n} has no name")
            s = Slice(t, name, notes, list(e.flow_ids), list(e.terminating_flow_ids), depth)
            stack.append(s)
            done.append(s)
            free[depth + 1] = t
        elif e.type == TrackEvent.TYPE_SLICE_END:
            need(stack, f"event {n} ends nothing on track {uuid}")
            s = stack.pop()
            s.end = t
            free[len(stack)] = t
            need(abs((s.end - s.begin) * 1000 - s.notes["duration_ps"]) < 1000, f"slice {n}: duration_ps does not fit")
        else:
            raise Bad(f"event {n} on a track of slices is of type {e.type}")
    need(not stack, f"track {uuid} ends with open slices")
    return done


def flows(slices):
    out, into = {}, {}
    for list_ in slices.values():
        for s in list_:
            for table, ids in ((out, s.out), (into, s.into)):
                for f in ids:
                    need(f and f not in table, f"flow {f} has two ends of one kind")
                    table[f] = s
    need(out.keys() == into.keys(), f"{len(out.keys() ^ into.keys())} flows have one end only")
    for f, a in out.items():
        need(into[f].end >= a.begin, f"flow {f} goes back in time")
    return len(out)


def ps(ns):
    return round(ns * 1000)


def sums(tracks, slices, report):
    """Top-level slices against the totals; also where the time of a wait for a partner goes."""
    engines, control, dma = collections.Counter(), collections.Counter(), collections.Counter()
    for uuid, list_ in slices.items():
        d, name = tracks[uuid], tracks[uuid].name
        top = d
        while not top.HasField("process"):
            top = tracks[top.parent_uuid]
        core, total = top.process.pid - 1, sum(s.notes["duration_ps"] for s in list_ if s.depth == 0)
        if name.startswith("DMA engine "):
            dma[core, int(name.split()[2].rstrip(","))] += total
        elif name == "all engines":
            control[core] += total
        else:
            engines[core, name] += total
    seen = 0
    for c in report["cores"]:
        core = c["core"]
        for e in c["engines"]:
            name = EXTERNAL[e["engine"]]
            got, want = engines.pop((core, name), 0) + control[core], ps(e["held_ns"])
            need(got == want, f"core {core} {name}: slices add up to {got} ps, the report says {want}")
            seen += 1
        for k, ns in enumerate(c["dma_engine_busy_ns"]):
            got = dma.pop((core, k), 0)
            need(got == ps(ns), f"core {core} DMA engine {k}: lanes add up to {got} ps, the report says {ps(ns)}")
    need(not engines and not dma, f"tracks that the report does not have: {list(engines) + list(dma)}")
    need(seen, "the report has no engines")


# Arrays of trn2, all partitions.
CAPACITY = {"SBUF in use": 128 * 229_376, "PSUM in use": 128 * 16_384}
EXTERNAL = {"Pool": "GPSIMD", "Activation": "Scalar", "PE": "Tensor", "DVE": "Vector", "SP": "Sync"}


def check(tandem, file, tmp):
    path = os.path.join(tmp, "t.pftrace")
    p = subprocess.run([tandem, "time", file, "--random", "1", "--trace", path, "--format", "json"], capture_output=True, text=True)
    report = json.loads(p.stdout)["timing"]
    if report is None:
        need(not os.path.exists(path), "a trace without a run")
        return None
    tracks, slices, counters = decode(path)
    for uuid, values in counters.items():
        name = tracks[uuid].name
        need(all(v >= 0 for _, v in values) and max(v for _, v in values) <= CAPACITY[name], f"counter {name} leaves its range")
        need(values[-1][1] == 0, f"counter {name} does not end at 0")
        need(all(a[1] != b[1] for a, b in zip(values, values[1:])), f"counter {name} stands still")
    n = flows(slices)
    sums(tracks, slices, report)
    with open(path, "rb") as f:
        first = f.read()
    subprocess.run([tandem, "time", file, "--random", "1", "--trace", path, "--format", "json"], capture_output=True)
    with open(path, "rb") as f:
        need(f.read() == first, "a second run writes other bytes")
    os.remove(path)
    return f"{sum(map(len, slices.values()))} slices, {n} flows, {sum(map(len, counters.values()))} counter values, {len(tracks)} tracks"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--tandem", required=True)
    a.add_argument("files", nargs="*")
    a = a.parse_args()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    files = a.files or sorted(glob.glob(f"{root}/examples/*.klr") + glob.glob(f"{root}/testdata/klr/*.klr") + glob.glob(f"{root}/examples/kernels/*.klr"))
    good, bad, arrows = 0, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for f in files:
            try:
                said = check(a.tandem, f, tmp)
                print(f"ok    {os.path.basename(f)}: {said or 'does not finish, no trace'}")
                good += said is not None
                arrows += said is not None and " 0 flows" not in said
            except (Bad, KeyError, ValueError) as e:
                print(f"FAIL  {os.path.basename(f)}: {type(e).__name__}: {e}")
                bad += 1
    # Most kernels here have two cores that meet.
    if not a.files and arrows * 2 < good:
        print("FAIL  most traces have no flows")
        bad += 1
    print(f"{good} passed, {bad} failed")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())

//! Writes packets: sequences with their interned names, tracks, slices, counters.

use super::proto::Message;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Field numbers of the messages that are written.
///
/// # Source
/// The public definitions `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`, `counter_descriptor.proto`,
/// `process_descriptor.proto`, `interned_data.proto`, `debug_annotation.proto`, `source_location.proto`,
/// `trace_packet_defaults.proto` of Perfetto. Documented; the tests decode with classes made from the same definitions.
mod field {
    pub(super) const TRACE_PACKET: u64 = 1;

    pub(super) const TIMESTAMP: u64 = 8;
    pub(super) const SEQUENCE_ID: u64 = 10;
    pub(super) const TRACK_EVENT: u64 = 11;
    pub(super) const INTERNED_DATA: u64 = 12;
    pub(super) const SEQUENCE_FLAGS: u64 = 13;
    pub(super) const DEFAULTS: u64 = 59;
    pub(super) const TRACK_DESCRIPTOR: u64 = 60;
    pub(super) const FIRST_PACKET: u64 = 87;

    pub(super) const DEFAULT_CLOCK: u64 = 58;

    pub(super) const EV_CATEGORY: u64 = 3;
    pub(super) const EV_ANNOTATION: u64 = 4;
    pub(super) const EV_TYPE: u64 = 9;
    pub(super) const EV_NAME: u64 = 10;
    pub(super) const EV_TRACK: u64 = 11;
    pub(super) const EV_COUNTER: u64 = 30;
    pub(super) const EV_SOURCE: u64 = 34;
    pub(super) const EV_FLOW: u64 = 47;
    pub(super) const EV_FLOW_END: u64 = 48;

    pub(super) const TD_UUID: u64 = 1;
    pub(super) const TD_NAME: u64 = 2;
    pub(super) const TD_PROCESS: u64 = 3;
    pub(super) const TD_PARENT: u64 = 5;
    pub(super) const TD_COUNTER: u64 = 8;
    pub(super) const TD_ORDERING: u64 = 11;
    pub(super) const TD_RANK: u64 = 12;

    pub(super) const PROCESS_PID: u64 = 1;
    pub(super) const PROCESS_NAME: u64 = 6;

    pub(super) const COUNTER_UNIT: u64 = 3;

    pub(super) const IN_CATEGORY: u64 = 1;
    pub(super) const IN_NAME: u64 = 2;
    pub(super) const IN_ANNOTATION_NAME: u64 = 3;
    pub(super) const IN_SOURCE: u64 = 4;
    pub(super) const IN_STRING: u64 = 29;

    pub(super) const IID: u64 = 1;
    pub(super) const IID_TEXT: u64 = 2;
    pub(super) const SOURCE_FILE: u64 = 2;
    pub(super) const SOURCE_LINE: u64 = 4;

    pub(super) const DA_NAME: u64 = 1;
    pub(super) const DA_UINT: u64 = 3;
    pub(super) const DA_STRING: u64 = 17;
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: u64 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`.
const NEEDS_STATE: u64 = 2;
/// `BUILTIN_CLOCK_BOOTTIME`, in nanoseconds: the clock that the viewer takes for the trace's own.
const BOOTTIME: u64 = 6;
/// `EXPLICIT` order of child tracks.
const EXPLICIT: u64 = 3;
/// `UNIT_SIZE_BYTES`.
const UNIT_BYTES: u64 = 3;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;
/// The packet buffer is handed on when it is this long.
const CHUNK: usize = 1 << 16;

/// A sequence of packets that share interned names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqId(usize);

/// What slices are called: name, category and annotations, encoded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelId(usize);

/// Name and annotations of slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Label<'a> {
    /// Name that the viewer shows in the slice.
    pub name: &'a str,
    /// Category.
    pub category: &'a str,
    /// Named texts.
    pub annotations: &'a [(&'a str, &'a str)],
    /// Source file and line.
    pub source: Option<(&'a str, u32)>,
}

/// A slice on a track. Slices of one track come in the order of their beginnings, an outer one before those inside it.
#[derive(Clone, Copy, Debug)]
pub struct SliceEvent<'a> {
    /// Track.
    pub track: u64,
    /// What it is.
    pub label: LabelId,
    /// Begin in picoseconds.
    pub begin_ps: u64,
    /// Flows that leave here.
    pub flows_out: &'a [u64],
    /// Flows that end here.
    pub flows_in: &'a [u64],
    /// Named numbers.
    pub numbers: &'a [(&'static str, u64)],
}

#[derive(Debug, Default)]
struct Names {
    of: FxHashMap<String, u64>,
}

impl Names {
    /// The number of a text, and whether it is new.
    fn id(&mut self, text: &str) -> (u64, bool) {
        if let Some(i) = self.of.get(text) {
            return (*i, false);
        }
        let i = self.of.len() as u64 + 1;
        self.of.insert(text.to_owned(), i);
        (i, true)
    }
}

#[derive(Debug, Default)]
struct Sequence {
    started: bool,
    /// Interned data for the next packet.
    pending: Message,
    categories: Names,
    names: Names,
    annotations: Names,
    strings: Names,
    sources: Names,
    labels: Vec<Message>,
}

/// Writes a trace packet by packet; keeps only names.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    chunk: Message,
    packet: Message,
    event: Message,
    sequences: Vec<Sequence>,
    events: u64,
}

impl<W: Write> TraceWriter<W> {
    /// A trace without packets.
    pub fn new(out: W) -> TraceWriter<W> {
        TraceWriter {
            out,
            chunk: Message::default(),
            packet: Message::default(),
            event: Message::default(),
            sequences: Vec::new(),
            events: 0,
        }
    }

    /// Opens a sequence.
    pub fn sequence(&mut self) -> SeqId {
        self.sequences.push(Sequence::default());
        SeqId(self.sequences.len() - 1)
    }

    /// Events written: begins, ends and counter values.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// A group of tracks, shown as a process.
    ///
    /// # Errors
    /// As the output says.
    pub fn process(&mut self, seq: SeqId, uuid: u64, pid: u64, name: &str) -> io::Result<()> {
        let mut p = Message::default();
        p.varint(field::PROCESS_PID, pid).text(field::PROCESS_NAME, name);
        let mut d = Message::default();
        d.varint(field::TD_UUID, uuid).text(field::TD_NAME, name).message(field::TD_PROCESS, &p);
        d.varint(field::TD_ORDERING, EXPLICIT);
        self.descriptor(seq, &d)
    }

    /// A track of slices below a group or track. Siblings stand in the order of `rank`.
    ///
    /// # Errors
    /// As the output says.
    pub fn track(&mut self, seq: SeqId, uuid: u64, parent: u64, name: &str, rank: u64) -> io::Result<()> {
        let mut d = Message::default();
        d.varint(field::TD_UUID, uuid).text(field::TD_NAME, name).varint(field::TD_PARENT, parent);
        d.varint(field::TD_RANK, rank);
        self.descriptor(seq, &d)
    }

    /// A track of values in bytes.
    ///
    /// # Errors
    /// As the output says.
    pub fn bytes_track(
        &mut self,
        seq: SeqId,
        uuid: u64,
        parent: u64,
        name: &str,
        rank: u64,
    ) -> io::Result<()> {
        let mut c = Message::default();
        c.varint(field::COUNTER_UNIT, UNIT_BYTES);
        let mut d = Message::default();
        d.varint(field::TD_UUID, uuid).text(field::TD_NAME, name).varint(field::TD_PARENT, parent);
        d.message(field::TD_COUNTER, &c).varint(field::TD_RANK, rank);
        self.descriptor(seq, &d)
    }

    /// Interns what slices are called.
    pub fn label(&mut self, seq: SeqId, l: &Label<'_>) -> LabelId {
        let s = &mut self.sequences[seq.0];
        let mut e = Message::default();
        e.varint(
            field::EV_CATEGORY,
            intern(&mut s.categories, &mut s.pending, field::IN_CATEGORY, l.category),
        );
        e.varint(field::EV_NAME, intern(&mut s.names, &mut s.pending, field::IN_NAME, l.name));
        for (name, text) in l.annotations {
            let mut a = Message::default();
            a.varint(
                field::DA_NAME,
                intern(&mut s.annotations, &mut s.pending, field::IN_ANNOTATION_NAME, name),
            );
            a.varint(field::DA_STRING, intern(&mut s.strings, &mut s.pending, field::IN_STRING, text));
            e.message(field::EV_ANNOTATION, &a);
        }
        if let Some((file, line)) = l.source {
            let (id, new) = s.sources.id(&format!("{line}:{file}"));
            if new {
                let mut m = Message::default();
                m.varint(field::IID, id).text(field::SOURCE_FILE, file);
                m.varint(field::SOURCE_LINE, u64::from(line));
                s.pending.message(field::IN_SOURCE, &m);
            }
            e.varint(field::EV_SOURCE, id);
        }
        s.labels.push(e);
        LabelId(s.labels.len() - 1)
    }

    /// A slice begins.
    ///
    /// # Errors
    /// As the output says.
    pub fn begin(&mut self, seq: SeqId, e: &SliceEvent<'_>) -> io::Result<()> {
        let s = &mut self.sequences[seq.0];
        self.event.clear();
        self.event.varint(field::EV_TYPE, SLICE_BEGIN).varint(field::EV_TRACK, e.track);
        self.event.append(&s.labels[e.label.0]);
        for (name, v) in e.numbers {
            let mut a = Message::default();
            let id = intern(&mut s.annotations, &mut s.pending, field::IN_ANNOTATION_NAME, name);
            a.varint(field::DA_NAME, id).varint(field::DA_UINT, *v);
            self.event.message(field::EV_ANNOTATION, &a);
        }
        for f in e.flows_out {
            self.event.fixed64(field::EV_FLOW, *f);
        }
        for f in e.flows_in {
            self.event.fixed64(field::EV_FLOW_END, *f);
        }
        self.packet_at(seq, e.begin_ps)
    }

    /// The innermost slice of a track ends.
    ///
    /// # Errors
    /// As the output says.
    pub fn end(&mut self, seq: SeqId, track: u64, end_ps: u64) -> io::Result<()> {
        self.event.clear();
        self.event.varint(field::EV_TYPE, SLICE_END).varint(field::EV_TRACK, track);
        self.packet_at(seq, end_ps)
    }

    /// A value from now on.
    ///
    /// # Errors
    /// As the output says.
    pub fn counter(&mut self, seq: SeqId, track: u64, at_ps: u64, value: u64) -> io::Result<()> {
        self.event.clear();
        self.event.varint(field::EV_TYPE, COUNTER).varint(field::EV_TRACK, track);
        self.event.varint(field::EV_COUNTER, value.min(i64::MAX as u64));
        self.packet_at(seq, at_ps)
    }

    /// Hands the rest to the output and gives it back.
    ///
    /// # Errors
    /// As the output says.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(self.chunk.bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn descriptor(&mut self, seq: SeqId, d: &Message) -> io::Result<()> {
        self.packet.clear();
        self.packet.message(field::TRACK_DESCRIPTOR, d);
        self.write(seq, false)
    }

    /// The event in `self.event`, at a time. Times are nanoseconds in the file: what is below is cut off.
    fn packet_at(&mut self, seq: SeqId, ps: u64) -> io::Result<()> {
        self.events += 1;
        self.packet.clear();
        self.packet.varint(field::TIMESTAMP, ps / 1000).message(field::TRACK_EVENT, &self.event);
        self.write(seq, true)
    }

    /// The packet in `self.packet`, completed by what its sequence needs.
    fn write(&mut self, seq: SeqId, needs_state: bool) -> io::Result<()> {
        let s = &mut self.sequences[seq.0];
        self.packet.varint(field::SEQUENCE_ID, seq.0 as u64 + 1);
        let mut flags = if needs_state { NEEDS_STATE } else { 0 };
        if !s.started {
            s.started = true;
            flags |= CLEARED;
            let mut d = Message::default();
            d.varint(field::DEFAULT_CLOCK, BOOTTIME);
            self.packet.message(field::DEFAULTS, &d).varint(field::FIRST_PACKET, 1);
        }
        if flags != 0 {
            self.packet.varint(field::SEQUENCE_FLAGS, flags);
        }
        if !s.pending.is_empty() {
            self.packet.message(field::INTERNED_DATA, &s.pending);
            s.pending.clear();
        }
        self.chunk.message(field::TRACE_PACKET, &self.packet);
        if self.chunk.bytes().len() >= CHUNK {
            self.out.write_all(self.chunk.bytes())?;
            self.chunk.clear();
        }
        Ok(())
    }
}

/// The number of a text; announced to the reader when it is new.
fn intern(names: &mut Names, pending: &mut Message, kind: u64, text: &str) -> u64 {
    let (id, new) = names.id(text);
    if new {
        let mut m = Message::default();
        m.varint(field::IID, id).text(field::IID_TEXT, text);
        pending.message(kind, &m);
    }
    id
}

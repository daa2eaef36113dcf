//! Runs instructions on small memories: from golden files, or built by hand in a test.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared by several test crates, each using a part"
)]

use serde_json::Value;
use std::path::PathBuf;
use tandem_bir::arch::ArchLevel;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::{AttrType, F32};
use tandem_bir::{
    ApPair, Attr, AttrValue, BirEnum as _, CoreId, Dtype, EngineKind, Immediate, Inst, InstId, Opcode,
};
use tandem_sim::exec::{Arg, Decoded, ExecCx, exec};
use tandem_sim::memory::{BufId, BufInfo, Dim, Dims, Memory, View};
use tandem_sim::numeric_profile::NumericProfile;
use tandem_sim::state::{CoreState, Fault, Note};

/// One core with its memories; operands are laid out one after the other.
pub struct Bench {
    pub mem: Memory,
    pub core: CoreState,
    pub profile: NumericProfile,
    pub arch: ArchLevel,
    pub notes: Vec<Note>,
    pub sbuf: BufId,
    pub psum: BufId,
    pub dram: BufId,
    sbuf_at: usize,
    psum_at: usize,
    dram_at: usize,
}

/// Where an operand lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Sbuf,
    Psum,
    Dram,
}

impl Bench {
    pub fn new(profile: NumericProfile, arch: ArchLevel) -> Bench {
        let spec = arch.spec().unwrap();
        let mut mem = Memory::new();
        let sbuf = mem.add((spec.sbuf_bytes * spec.partitions) as usize, 0);
        let psum = mem.add((spec.psum_bytes * spec.partitions) as usize, 0);
        let dram = mem.add(1 << 20, 0);
        mem.describe(sbuf, BufInfo { pitch: Some(spec.sbuf_bytes as usize), psum: false });
        mem.describe(psum, BufInfo { pitch: Some(spec.psum_bytes as usize), psum: true });
        Bench {
            mem,
            core: CoreState::new(CoreId(0), 0, 8),
            profile,
            arch,
            notes: Vec::new(),
            sbuf,
            psum,
            dram,
            sbuf_at: 0,
            psum_at: 0,
            dram_at: 0,
        }
    }
    pub fn hw() -> Bench {
        Bench::new(NumericProfile::hw(), ArchLevel::Gen3)
    }
    /// Forgets the operands and the engine state; memory content stays.
    pub fn reset(&mut self, profile: NumericProfile, arch: ArchLevel) {
        assert_eq!(arch.spec().unwrap().sbuf_bytes * 128, self.mem.bytes(self.sbuf).len() as u64);
        (self.sbuf_at, self.psum_at, self.dram_at) = (0, 0, 0);
        self.core = CoreState::new(CoreId(0), 0, 8);
        self.profile = profile;
        self.arch = arch;
        self.notes.clear();
    }
    /// A new row-major operand of `shape` (partitions first).
    pub fn place(&mut self, place: Place, dtype: Dtype, shape: &[usize]) -> View {
        let spec = self.arch.spec().unwrap();
        let size = dtype.bytes() as usize;
        let free: usize = shape[1..].iter().product();
        let row = (free * size).next_multiple_of(8);
        let (buf, base, pitch) = match place {
            Place::Sbuf => {
                self.sbuf_at += row;
                (self.sbuf, self.sbuf_at - row, spec.sbuf_bytes as usize)
            }
            Place::Psum => {
                self.psum_at += row;
                (self.psum, self.psum_at - row, spec.psum_bytes as usize)
            }
            Place::Dram => {
                self.dram_at += row * shape[0];
                (self.dram, self.dram_at - row * shape[0], row)
            }
        };
        let mut dims = Dims::new();
        let mut stride = size as isize;
        for &n in shape[1..].iter().rev() {
            dims.insert(0, Dim { stride, num: n });
            stride *= n as isize;
        }
        dims.insert(0, Dim { stride: pitch as isize, num: shape[0] });
        let v = View { buf, dtype, base, dims };
        assert!(v.fits(self.mem.bytes(buf).len()), "operand too large for the bench");
        v
    }
    /// A new operand with packed content.
    pub fn put(&mut self, dtype: Dtype, shape: &[usize], bytes: &[u8]) -> View {
        let v = self.place(Place::Sbuf, dtype, shape);
        self.mem.scatter(&v, bytes);
        v
    }
    pub fn put_f32(&mut self, shape: &[usize], x: &[f32]) -> View {
        self.put(Dtype::Float32, shape, &f32_bytes(x))
    }
    pub fn put_i32(&mut self, shape: &[usize], x: &[i32]) -> View {
        let b: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.put(Dtype::Int32, shape, &b)
    }
    pub fn get(&self, v: &View) -> Vec<u8> {
        let mut out = Vec::new();
        self.mem.gather(v, &mut out);
        out
    }
    pub fn get_f32(&self, v: &View) -> Vec<f32> {
        self.get(v).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    pub fn get_i32(&self, v: &View) -> Vec<i32> {
        self.get(v).chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    pub fn run(&mut self, inst: &Inst, ins: &[Arg], outs: &[Arg]) -> Result<(), Fault> {
        self.run_indirect(inst, ins, outs, &[])
    }
    pub fn run_indirect(
        &mut self,
        inst: &Inst,
        ins: &[Arg],
        outs: &[Arg],
        indirect: &[Arg],
    ) -> Result<(), Fault> {
        let engine = if inst.engine == EngineKind::Unassigned { inst.spec().engine } else { inst.engine };
        let d = Decoded {
            inst: InstId::new(0),
            opcode: inst.opcode,
            engine,
            ins: ins.into(),
            outs: outs.into(),
            indirect: indirect.into(),
        };
        let mut cx = ExecCx {
            mem: &mut self.mem,
            core: &mut self.core,
            profile: &self.profile,
            arch: self.arch.spec().unwrap(),
            notes: &mut self.notes,
        };
        exec(&mut cx, &d, inst)
    }
}

pub fn f32_bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn view(v: &View) -> Arg {
    Arg::View(v.clone())
}

pub fn inst(op: Opcode, engine: EngineKind) -> Inst {
    let mut i = Inst::new("t", op);
    i.engine = engine;
    i
}

fn dtype(name: &str) -> Dtype {
    Dtype::from_name(name).unwrap_or_else(|| panic!("dtype {name}"))
}

fn attr_value(inst: &Inst, attr: Attr, v: &Value) -> AttrValue {
    let ty = inst.spec().attr(attr).unwrap_or_else(|| panic!("{} has no {}", inst.opcode, attr.key())).ty;
    match ty {
        AttrType::Bool => AttrValue::Bool(v.as_bool().unwrap()),
        AttrType::Int => AttrValue::Int(v.as_i64().unwrap()),
        AttrType::F32 => AttrValue::F32(F32(v.as_f64().unwrap() as f32)),
        AttrType::Enum(t) => {
            AttrValue::Enum(t.ordinal(v.as_str().unwrap()).unwrap_or_else(|| panic!("{v} in {}", t.name)))
        }
        AttrType::Ints => {
            AttrValue::Ints(v.as_array().unwrap().iter().map(|x| x.as_i64().unwrap()).collect())
        }
        AttrType::Floats => {
            AttrValue::Floats(v.as_array().unwrap().iter().map(|x| F32(x.as_f64().unwrap() as f32)).collect())
        }
        AttrType::Pairs => AttrValue::Pairs(
            v.as_array()
                .unwrap()
                .iter()
                .map(|p| ApPair::new(p[0].as_i64().unwrap(), p[1].as_u64().unwrap()))
                .collect(),
        ),
        other => panic!("attribute type {other:?}"),
    }
}

/// Runs every case of a family; panics with the list of cases that fail.
pub fn run_family(name: &str) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/goldens");
    let cases: Vec<Value> =
        serde_json::from_slice(&std::fs::read(dir.join(format!("{name}.json"))).unwrap()).unwrap();
    let blob = std::fs::read(dir.join(format!("{name}.bin"))).unwrap();
    let mut benches: Vec<Bench> = Vec::new();
    let mut failures = Vec::new();
    assert!(!cases.is_empty());
    for c in &cases {
        let arch = c["arch"].as_str().map_or(ArchLevel::Gen3, |a| ArchLevel::from_target(a).unwrap());
        let profile = NumericProfile::preset(c["profile"].as_str().unwrap_or("hw")).unwrap();
        let k = match benches.iter().position(|b| b.arch == arch) {
            Some(k) => k,
            None => {
                benches.push(Bench::new(profile.clone(), arch));
                benches.len() - 1
            }
        };
        benches[k].reset(profile, arch);
        if let Err(e) = run_case(&mut benches[k], c, &blob) {
            failures.push(format!("{}: {e}", c["name"].as_str().unwrap()));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

fn slice<'a>(blob: &'a [u8], at: &Value) -> &'a [u8] {
    let (a, n) = (at["at"].as_u64().unwrap() as usize, at["len"].as_u64().unwrap() as usize);
    &blob[a..a + n]
}

fn run_case(b: &mut Bench, c: &Value, blob: &[u8]) -> Result<(), String> {
    let op = Opcode::from_name(c["op"].as_str().unwrap()).unwrap();
    let mut i =
        inst(op, c["engine"].as_str().map_or(EngineKind::Unassigned, |e| EngineKind::from_name(e).unwrap()));
    for (k, v) in c["attrs"].as_object().unwrap() {
        let attr = Attr::from_key(k).unwrap();
        let v = attr_value(&i, attr, v);
        i.set(attr, v);
    }
    let shape = |o: &Value| -> Vec<usize> {
        o["shape"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
    };
    let place = |o: &Value| {
        if o["psum"] == true {
            Place::Psum
        } else if o["dram"] == true {
            Place::Dram
        } else {
            Place::Sbuf
        }
    };
    let mut ins = Vec::new();
    for o in c["ins"].as_array().unwrap() {
        if let Some(v) = o.get("imm") {
            ins.push(Arg::Imm(match v.as_i64() {
                Some(i) if !v.is_f64() => Immediate::i32(i as i32),
                _ => Immediate::f32(v.as_f64().unwrap() as f32),
            }));
            continue;
        }
        let v = b.place(place(o), dtype(o["dtype"].as_str().unwrap()), &shape(o));
        b.mem.scatter(&v, slice(blob, &o["data"]));
        ins.push(Arg::View(v));
    }
    let mut outs = Vec::new();
    for o in c["outs"].as_array().unwrap() {
        let v = b.place(place(o), dtype(o["dtype"].as_str().unwrap()), &shape(o));
        let init = match o.get("init") {
            Some(init) => slice(blob, init).to_vec(),
            None => vec![0xA5; v.num_bytes()],
        };
        b.mem.scatter(&v, &init);
        outs.push(Arg::View(v));
    }
    b.run(&i, &ins, &outs).map_err(|f| format!("{} {}", f.code, f.message))?;
    for (k, (o, a)) in c["outs"].as_array().unwrap().iter().zip(&outs).enumerate() {
        let Arg::View(v) = a else { unreachable!() };
        compare(o, v.dtype, &b.get(v), slice(blob, &o["want"])).map_err(|e| format!("output {k}: {e}"))?;
    }
    Ok(())
}

fn compare(o: &Value, dtype: Dtype, got: &[u8], want: &[u8]) -> Result<(), String> {
    let f = |b: &[u8], i: usize| f32::from_le_bytes(b[4 * i..4 * i + 4].try_into().unwrap());
    match o["mode"].as_str().unwrap() {
        "bits" => {
            assert_eq!(got.len(), want.len(), "golden of the wrong size");
            let n = dtype.bytes() as usize;
            match got.chunks(n).zip(want.chunks(n)).position(|(a, b)| a != b) {
                None => Ok(()),
                Some(i) => Err(format!(
                    "element {i}: {:02x?}, want {:02x?}",
                    &got[i * n..][..n],
                    &want[i * n..][..n]
                )),
            }
        }
        "value" => {
            assert_eq!(got.len(), want.len(), "golden of the wrong size");
            for i in 0..got.len() / 4 {
                let (a, b) = (f(got, i), f(want, i));
                if a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) {
                    return Err(format!(
                        "element {i}: {a:e} ({:#x}), want {b:e} ({:#x})",
                        a.to_bits(),
                        b.to_bits()
                    ));
                }
            }
            Ok(())
        }
        "tol" => {
            assert_eq!(got.len() * 2, want.len(), "golden of the wrong size");
            let (rtol, atol) = (o["rtol"].as_f64().unwrap(), o["atol"].as_f64().unwrap());
            for i in 0..got.len() / 4 {
                let a = f64::from(f(got, i));
                let b = f64::from_le_bytes(want[8 * i..8 * i + 8].try_into().unwrap());
                let ok = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= atol + rtol * b.abs();
                if !ok {
                    return Err(format!("element {i}: {a:e}, want {b:e}"));
                }
            }
            Ok(())
        }
        other => panic!("mode {other}"),
    }
}

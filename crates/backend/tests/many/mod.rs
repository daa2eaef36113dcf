//! Programs and containers of many records.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part")]

use tandem_backend::container::format::{Kind, assemble};
use tandem_backend::container::{WriteOptions, encode, read_sections};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::*;

/// One core with many additions on the Vector engine.
pub fn lowered(n: usize) -> Program {
    let mut m = Module::new("nc00", Some(CoreId(0)), ArchLevel::Gen3);
    let f = m.add_function("main");
    let b = m.add_block(f, "b0");
    let locs: Vec<MemLocId> = (0..3)
        .map(|k| {
            let set = MemoryLocationSet::new(
                &format!("t{k}"),
                Dtype::Bfloat16,
                TensorKind::Internal,
                AddressSpace::Local,
                &[128, 512],
            );
            let mut l =
                MemoryLocation::new(&format!("t{k}"), SetId::from_u32(0), MemoryType::Sb, &[128, 1024]);
            l.addr = 0x1000 * (k + 1);
            l.allocated = true;
            m.add_location(f, set, l)
        })
        .collect();
    for k in 0..n {
        let mut i = Inst::new(&format!("a{k}"), Opcode::TensorTensor).with(Attr::Op, AluOp::Add);
        i.engine = EngineKind::Dve;
        let ap =
            |l: MemLocId| Operand::Ap(AccessPattern::new(l, Dtype::Bfloat16, 0, &[(512, 128), (1, 512)]));
        i.ins = vec![ap(locs[0]), ap(locs[1])];
        i.outs = vec![ap(locs[2])];
        m.push_inst(b, i);
    }
    Program {
        name: "many".into(),
        lnc_size: 1,
        level: Level::Lowered,
        modules: vec![m],
        locs: Default::default(),
        constants: Default::default(),
        signature: Signature::default(),
    }
}

/// The same, linked.
pub fn linked(n: usize) -> LinkedProgram {
    link(&lowered(n), LinkOptions::default()).expect("links").0
}

/// A container of exactly `n` records: those of a small program, repeated, then Exit.
pub fn container(n: usize) -> Vec<u8> {
    let opts = WriteOptions { debug: false, ..WriteOptions::default() };
    let (bytes, _) = encode(&linked(1_000.min(n.max(2) - 1)), opts).expect("encodes");
    let c = read_sections(&bytes).expect("reads");
    let mut sections = c.sections.clone();
    let s = sections.iter_mut().find(|s| s.kind == Kind::Stream).expect("a stream");
    let exit = s.bytes.split_off(s.bytes.len() - 64);
    let unit = std::mem::take(&mut s.bytes);
    s.bytes = unit.iter().copied().cycle().take(64 * (n - 1)).collect();
    s.bytes.extend(exit);
    assemble(c.arch as u16, c.cores, c.flags, &mut sections)
}

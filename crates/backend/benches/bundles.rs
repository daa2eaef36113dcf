//! Encoding and decoding, in bundles per second on one thread.

use divan::{Bencher, counter::ItemsCount};
use tandem_backend::container::{WriteOptions, encode, read_sections};
use tandem_backend::decode::{Index, draft};
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::*;

fn main() {
    divan::main();
}

/// One core with many additions on the Vector engine.
fn program(n: usize) -> LinkedProgram {
    let mut m = Module::new("nc00", Some(CoreId(0)), ArchLevel::Gen3);
    let f = m.add_function("main");
    let b = m.add_block(f, "b0");
    let locs: Vec<MemLocId> = (0..3)
        .map(|k| {
            let set = MemoryLocationSet {
                name: format!("t{k}_set").as_str().into(),
                dtype: Dtype::Bfloat16,
                kind: TensorKind::Internal,
                class: TensorClass::Tensor,
                addr_space: AddressSpace::Local,
                shape: [128, 512].into_iter().collect(),
                partition_dim: 0,
                locs: Vec::new(),
                file: None,
                no_spill: false,
                volatile: false,
                is_virtual: false,
                do_not_rotate: false,
                extra: None,
            };
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
    let p = Program {
        name: "bench".into(),
        lnc_size: 1,
        level: Level::Lowered,
        modules: vec![m],
        locs: Default::default(),
        constants: Default::default(),
        signature: Signature::default(),
    };
    link(&p, LinkOptions::default()).expect("links").0
}

const N: usize = 100_000;

#[divan::bench]
fn encode_and_verify(b: Bencher<'_, '_>) {
    let p = program(N);
    b.counter(ItemsCount::new(N))
        .bench_local(|| encode_streams(&p, EncodeOptions::default()).expect("encodes"));
}

#[divan::bench]
fn decode(b: Bencher<'_, '_>) {
    let (bytes, _) =
        encode(&program(N), WriteOptions { debug: false, ..WriteOptions::default() }).expect("encodes");
    let c = read_sections(&bytes).expect("reads");
    let s = c.sections.iter().find(|s| s.bytes.len() > 64 * N).expect("stream");
    let records = c.records(s);
    let spec = ArchLevel::Gen3.spec().expect("spec");
    let geo = tandem_backend::encode::phys::geometry(spec);
    let ctx = draft::DecodeCtx { geo, var_loc: &|_| None, whole_var: &|_| None };
    b.counter(ItemsCount::new(records.len())).bench_local(|| {
        tandem_backend::decode::program::decode_stream(
            &records,
            EngineKind::Dve,
            &[],
            &Index::default(),
            &geo,
            &ctx,
            &|_| None,
        )
        .expect("decodes")
        .insts
        .len()
    });
}

//! Damage for property tests (feature `testing`): small random changes that may make a program meaningless or wrong, but
//! never one that the types forbid. What the verifier accepts afterwards must not make any stage panic.

use crate::ap::{ApPair, DynamicAp};
use crate::arch::ArchLevel;
use crate::dtype::Dtype;
use crate::entity::EntityRef as _;
use crate::enums::*;
use crate::expr::Expr;
use crate::ids::{BlockId, CoreId, InstId, MemLocId, SetId};
use crate::inst::{Attr, AttrValue, Dep, Inst, Opcode, SemUpdate, SyncInfo};
use crate::memloc::RemoteTarget;
use crate::module::{Level, Program};

/// Small pseudo-random generator (xorshift), so that a failing case is named by its number.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a numbered case.
    pub fn of_case(case: u64) -> Rng {
        Rng(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(case.wrapping_add(1)) | 1)
    }
    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "numbers have no end")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// A number below `n`, 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// A member of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, v: &[T]) -> T {
        v[self.below(v.len())]
    }
    fn number(&mut self) -> i64 {
        let small = self.next() as i64 % 300;
        self.pick(&[0, 1, -1, 2, 32, 64, 128, 256, 4096, small, i64::MAX, i64::MIN, 1 << 31, 1 << 40])
    }
}

/// One change anywhere in the program: containers, storages, blocks, instructions, operands, attributes.
pub fn damage(p: &mut Program, r: &mut Rng) {
    if r.below(40) == 0 {
        p.lnc_size = r.below(4) as u32;
        return;
    }
    if r.below(40) == 0 {
        p.level = r.pick(&[Level::Bir, Level::Lowered, Level::Linked]);
        return;
    }
    if p.modules.is_empty() {
        return;
    }
    let mi = r.below(p.modules.len());
    let m = &mut p.modules[mi];
    let near = |r: &mut Rng, n: usize| if r.below(20) == 0 { r.below(100_000) } else { r.below(n + 1) };
    match r.below(14) {
        0 => m.core = r.pick(&[None, Some(CoreId(0)), Some(CoreId(1)), Some(CoreId(9))]),
        1 => m.arch = r.pick(ArchLevel::ALL),
        2 if !m.memlocs.is_empty() => {
            let n = m.memlocs.len();
            let l = &mut m.memlocs[MemLocId::new(r.below(n))];
            match r.below(8) {
                0 => l.addr = r.number() as u64,
                1 => l.dims = (0..r.below(4)).map(|_| r.number() as u64).collect(),
                2 => l.base = r.number() as u32,
                3 => l.bank = r.number(),
                4 => l.mem = r.pick(MemoryType::ALL),
                5 => l.allocated = !l.allocated,
                6 => l.set = SetId::new(r.below(20)),
                _ => {
                    let core = CoreId(r.below(3) as u32);
                    l.remote_local_target = Some(RemoteTarget { name: l.name.clone(), core });
                }
            }
        }
        3 if !m.sets.is_empty() => {
            let n = m.sets.len();
            let s = &mut m.sets[SetId::new(r.below(n))];
            match r.below(4) {
                0 => s.locs.push(MemLocId::new(r.below(20))),
                1 => s.kind = r.pick(TensorKind::ALL),
                2 => s.addr_space = r.pick(AddressSpace::ALL),
                _ => s.dtype = r.pick(Dtype::ALL),
            }
        }
        4 if !m.blocks.is_empty() => {
            let (nb, ni) = (m.blocks.len(), m.insts.len());
            let b = &mut m.blocks[BlockId::new(r.below(nb))];
            match r.below(4) {
                0 => b.insts.push(InstId::new(near(r, ni))),
                1 => b.insts.reverse(),
                2 => {
                    b.insts.pop();
                }
                _ if b.insts.len() > 1 => {
                    let n = b.insts.len();
                    b.insts.swap(r.below(n), n - 1);
                }
                _ => {}
            }
        }
        _ if !m.insts.is_empty() => {
            let (ni, nl, nb) = (m.insts.len(), m.memlocs.len(), m.blocks.len());
            let i = &mut m.insts[InstId::new(r.below(ni))];
            inst(i, r, ni, nl, nb);
        }
        _ => {}
    }
}

fn inst(i: &mut Inst, r: &mut Rng, ni: usize, nl: usize, nb: usize) {
    match r.below(12) {
        0 => i.opcode = r.pick(Opcode::ALL),
        1 => i.engine = r.pick(EngineKind::ALL),
        2 => i.deps.push(Dep { inst: InstId::new(r.below(ni + 1)), kind: r.pick(EdgeKind::ALL) }),
        3 => drop(i.ins.pop()),
        4 => i.outs.extend(i.ins.first().cloned()),
        5 => {
            let keys: Vec<Attr> = i.attrs.iter().map(|(a, _)| a).collect();
            if !keys.is_empty() {
                i.attrs.remove(r.pick(&keys));
            }
        }
        6 => {
            let n = i.spec().attrs.len();
            if n > 0 {
                let a = i.spec().attrs[r.below(n)].attr;
                let v: AttrValue = match r.below(6) {
                    0 => r.number().into(),
                    1 => AttrValue::Enum(r.below(40) as u16),
                    2 => vec![r.number(), r.number()].into(),
                    3 => vec![vec![r.number()], vec![]].into(),
                    4 => "b0".into(),
                    _ => AttrValue::Exprs(Box::new([Expr::Const(r.number())])),
                };
                i.set(a, v);
            }
        }
        7 => {
            let sem = r.number() as u32;
            let update =
                SemUpdate { sem, value: r.number(), target_core: Some(r.below(3) as u32), extra: None };
            i.more_mut().sync = Some(SyncInfo { on_update: vec![update], ..SyncInfo::default() });
        }
        8 => i.more_mut().regions.push(BlockId::new(r.below(nb + 1))),
        _ => {
            let list = if r.below(2) == 0 { &mut i.ins } else { &mut i.outs };
            let n = list.len();
            if n == 0 {
                return;
            }
            let Some(a) = list[r.below(n)].as_ap_mut() else { return };
            match r.below(7) {
                0 => a.loc = MemLocId::new(r.below(nl + 1)),
                1 => a.dtype = r.pick(Dtype::ALL),
                2 => a.offset = r.number(),
                3 => drop(a.pairs.pop()),
                4 => a.pairs.push(ApPair::new(r.number(), r.number() as u64)),
                5 => {
                    let term = vec![(r.number(), Expr::Const(1))];
                    a.dynamic =
                        Some(Box::new(DynamicAp { terms: term, indirect_dim: r.number(), max_index: None }));
                }
                _ => {
                    let n = a.pairs.len();
                    if n > 0 {
                        let p = &mut a.pairs[r.below(n)];
                        if r.below(2) == 0 { p.step = r.number() } else { p.num = r.number() as u64 }
                    }
                }
            }
        }
    }
}

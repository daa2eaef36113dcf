//! Small two-core programs and their listings, for the tests of this crate.
#![allow(dead_code, unreachable_pub, clippy::needless_range_loop, reason = "each test file uses its part")]

pub mod generate;

use tandem_backend::PassOptions;
pub use tandem_bir::testing::by_hand::*;
use tandem_bir::*;

/// Running passes over a program built by hand.
pub trait Passes {
    fn opts(&self) -> PassOptions;
    /// Runs the passes of level `bir` and then only the pass given.
    fn run(&mut self, pass: &dyn tandem_backend::Pass, o: &PassOptions) -> tandem_backend::PassCtx;
    /// Both pipelines; must succeed.
    fn lower(&mut self, o: &PassOptions) -> tandem_backend::PassOutcome;
    /// Both pipelines; gives the findings of the one that failed.
    fn lower_err(&mut self, o: &PassOptions) -> Vec<diag::Diagnostic>;
}

impl Passes for Build {
    fn opts(&self) -> PassOptions {
        PassOptions::for_program(&self.p)
    }
    fn run(&mut self, pass: &dyn tandem_backend::Pass, o: &PassOptions) -> tandem_backend::PassCtx {
        let mut cx = tandem_backend::PassCtx::new(o.clone());
        cx.enter(pass.info());
        let r = pass.run(&mut self.p, &mut cx);
        assert_eq!(r.is_err(), cx.has_errors(), "{:?}", cx.diags);
        cx
    }
    fn lower(&mut self, o: &PassOptions) -> tandem_backend::PassOutcome {
        let out = tandem_backend::prepare(&mut self.p, o);
        assert!(out.ok(), "{:?}", out.diags);
        verify(&self.p);
        let out = tandem_backend::lower(&mut self.p, o);
        assert!(out.ok(), "{:?}", out.diags);
        verify(&self.p);
        out
    }
    fn lower_err(&mut self, o: &PassOptions) -> Vec<diag::Diagnostic> {
        let out = tandem_backend::prepare(&mut self.p, o);
        if !out.ok() {
            return out.diags;
        }
        let out = tandem_backend::lower(&mut self.p, o);
        assert!(!out.ok());
        out.diags
    }
}

fn ap(m: &Module, o: &Operand) -> String {
    match o {
        Operand::Ap(a) => {
            let pairs: Vec<String> = a.pairs.iter().map(|p| format!("[{},{}]", p.step, p.num)).collect();
            format!("{}+{} {}", m.memlocs[a.loc].name, a.offset, pairs.join(""))
        }
        Operand::Imm(i) => format!("{:?}", i.value),
        Operand::Reg(r) => m.regs[r.reg].name.to_string(),
        Operand::Other(_) => "?".into(),
    }
}

/// One line per instruction of a block: `name type engine outs <- ins`, the id of barriers, mode and operator of folds.
pub fn listing_of(m: &Module, b: BlockId) -> Vec<String> {
    m.blocks[b]
        .insts
        .iter()
        .map(|&i| {
            let x = &m.insts[i];
            let mut s = format!("{} {} {}", x.name, x.opcode, x.engine);
            if x.opcode == Opcode::CoreBarrier {
                s += &format!(" id={} cores={:?}", x.get_int(Attr::Id).unwrap(), x.get_ints(Attr::Cores));
                if x.ins.is_empty() && x.outs.is_empty() {
                    return s;
                }
            }
            if x.opcode == Opcode::DmaCopy {
                let mode: CopyMode = x.get_enum(Attr::Mode).unwrap();
                s += &format!(" {mode}");
                if mode == CopyMode::Cce {
                    s += &format!(" {}", x.get_enum::<AluOp>(Attr::CceOp).unwrap());
                }
            }
            let list = |v: &[Operand]| v.iter().map(|o| ap(m, o)).collect::<Vec<_>>().join(", ");
            s + &format!(" {} <- {}", list(&x.outs), list(&x.ins))
        })
        .collect()
}

pub fn listing(b: &Build, core: usize) -> Vec<String> {
    listing_of(&b.p.modules[core], b.b[core])
}

/// Transitive closure of the edges of a block, as positions.
pub fn reaches(m: &Module, b: BlockId) -> Vec<Vec<bool>> {
    let insts = &m.blocks[b].insts;
    let n = insts.len();
    let pos = |i: InstId| insts.iter().position(|x| *x == i);
    let mut r = vec![vec![false; n]; n];
    for j in 0..n {
        for d in &m.insts[insts[j]].deps {
            if let Some(i) = pos(d.inst) {
                r[i][j] = true;
                for k in 0..n {
                    r[k][j] |= r[k][i];
                }
            }
        }
    }
    r
}

pub fn codes(d: &[diag::Diagnostic]) -> Vec<String> {
    d.iter().map(|d| d.code.to_string()).collect()
}

/// Names of a block's instructions.
pub fn names(m: &Module, b: BlockId) -> Vec<String> {
    m.blocks[b].insts.iter().map(|i| m.insts[*i].name.to_string()).collect()
}

/// The verifier must be silent.
pub fn verify(p: &Program) {
    if let Err(e) = tandem_bir::verify::verify(p) {
        panic!("{:?}", e.iter().map(|d| d.message.clone()).collect::<Vec<_>>());
    }
}

/// The static checks must be silent.
pub fn clean(p: &Program, tokens_order: bool, what: &str) {
    let o = tandem_check::CheckOptions { tokens_order, ..tandem_check::CheckOptions::default() };
    let found = tandem_check::check(p, &o);
    assert!(
        found.is_empty(),
        "{what}: {:?}",
        found.iter().map(|d| (d.code, &d.message, &d.notes)).collect::<Vec<_>>()
    );
}

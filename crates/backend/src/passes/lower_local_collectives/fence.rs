//! Kinds that have no on-chip lowering: a barrier before the collective, which stays.

use super::barriers::Remote;
use super::{Cursor, Group, Lowering, Made};

impl Lowering<'_> {
    pub(super) fn fence_only(&mut self, g: &Group<'_>, cursors: &[Cursor], made: &mut Made) {
        let mut remote = Remote::default();
        for m in g.members {
            let cc = self.cc(m);
            remote.read.extend(cc.ins.iter().filter_map(|o| o.as_ap()).map(|a| (m.module, a.loc)));
            remote.written.extend(cc.outs.iter().filter_map(|o| o.as_ap()).map(|a| (m.module, a.loc)));
        }
        match self.fenced(g, cursors, &remote) {
            Ok(fence) => {
                let why =
                    format!("every core is fenced by {fence} and nothing in between touches its tensors");
                self.no_barrier(g, made, "_cb_begin", &why);
            }
            Err(why) => {
                self.cx.count("groups", 1);
                self.cx.count("kept", 1);
                self.barrier(g, made, "_cb_begin", &why);
            }
        }
        if !self.cx.decisions.iter().rev().take(64).any(|r| r.transport == "kept" && r.name == g.name) {
            let mut row = self.row(g, "kept");
            row.barriers = std::mem::take(&mut made.barriers);
            row.note = "has no on-chip lowering: it stays, and a barrier comes before it".into();
            self.cx.decisions.push(row);
        }
    }
}

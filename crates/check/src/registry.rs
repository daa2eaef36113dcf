//! The checks, in the order in which they run.

use crate::Cx;
use crate::checks;
use tandem_bir::diag::{Code, Diagnostic, codes};

/// One check.
pub struct CheckInfo {
    /// Name, for options and documentation.
    pub name: &'static str,
    /// Codes it may report.
    pub codes: &'static [Code],
    /// What it finds, in one line.
    pub doc: &'static str,
    pub(crate) run: fn(&Cx<'_>, &mut Vec<Diagnostic>),
}

/// Every check.
pub static CHECKS: &[CheckInfo] = &[
    CheckInfo {
        name: "swaps",
        codes: &[codes::C0101, codes::C0102, codes::C0103, codes::C0104, codes::C0105],
        doc: "the swaps of the two cores pair up: partner, ranks, shape, element type",
        run: checks::swaps::run,
    },
    CheckInfo {
        name: "collectives",
        codes: &[codes::C0201, codes::C0202, codes::C0203, codes::C0204],
        doc: "collectives agree between the cores, name legal ranks, and have fitting sizes",
        run: checks::collectives::run,
    },
    CheckInfo {
        name: "barriers",
        codes: &[codes::C0301, codes::C0302, codes::C0303],
        doc: "the barriers of the two cores pair up: number, core lists, names",
        run: checks::barriers::run,
    },
    CheckInfo {
        name: "order",
        codes: &[codes::C0401, codes::C0402, codes::C0403],
        doc: "both cores meet in the same order",
        run: checks::order::run,
    },
    CheckInfo {
        name: "trips",
        codes: &[codes::C0404],
        doc: "loops with constant bounds around a meeting run equally often on both cores",
        run: checks::trips::run,
    },
    CheckInfo {
        name: "queues",
        codes: &[codes::C0405],
        doc: "edges and the order of the queues of one core form no cycle",
        run: checks::queues::run,
    },
    CheckInfo {
        name: "pending",
        codes: &[codes::C0406],
        doc: "no completion token and no notification is left without its answer",
        run: checks::pending::run,
    },
    CheckInfo {
        name: "outputs",
        codes: &[codes::C0501],
        doc: "every output is written by some instruction",
        run: checks::outputs::run,
    },
    CheckInfo {
        name: "lnc_verifier",
        codes: checks::lnc_verifier::CODES,
        doc: "modules of one LNC agree in functions, blocks, barriers, swaps and shared addresses",
        run: checks::lnc_verifier::run,
    },
    CheckInfo {
        name: "paths",
        codes: &[codes::C0407],
        doc: "both cores meet equally often along the paths that known registers choose",
        run: checks::paths::run,
    },
    CheckInfo {
        name: "stuck",
        codes: &[codes::C0401],
        doc: "the queues of the two cores of a program without choices come to the end",
        run: checks::order::stuck,
    },
    CheckInfo {
        name: "places",
        codes: &[codes::C0603],
        doc: "on-chip locations of a lowered program have an address or an owner",
        run: checks::places::run,
    },
    CheckInfo {
        name: "barriercheck",
        codes: &[codes::C0601, codes::C0602],
        doc: "conflicting accesses of two cores are separated by a core barrier",
        run: checks::barriercheck::run,
    },
];

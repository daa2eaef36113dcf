//! One self-contained HTML page about a kernel.
//!
//! Everything that is text stands in the page itself and can be read without scripts; charts are drawn by `report.js` from a
//! block of JSON. Style and script are files of this crate, put into the page as they are.

mod code;
mod data;
mod findings;
mod memory;
mod summary;
mod swaps;
mod timing;
mod units;

use crate::picture::Picture;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};
use tandem_backend::explain::ExplainRow;
use tandem_bir::Program;
use tandem_bir::diag::Diagnostic;
use tandem_sim::timing::TimingReport;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// A verdict in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictText {
    /// `proved`, `refuted` or `not covered`.
    pub word: String,
    /// The whole sentence.
    pub line: String,
}

/// A run with times.
#[derive(Debug)]
pub struct Timed<'a> {
    /// Sums.
    pub report: &'a TimingReport,
    /// What to draw.
    pub picture: &'a Picture,
}

/// What a page is made of.
pub struct ReportInput<'a> {
    /// Name of the kernel, or of the file when there is no program.
    pub kernel: &'a str,
    /// File as the user gave it.
    pub file: &'a str,
    /// Program at level lowered, when that level was reached.
    pub program: Option<&'a Program>,
    /// Verdict.
    pub verdict: &'a VerdictText,
    /// Findings of all stages.
    pub diagnostics: &'a [Diagnostic],
    /// Decisions on swaps and collectives.
    pub swaps: &'a [ExplainRow],
    /// Predicted time of each of them alone, in picoseconds: over GPSIMD, by DMA. May be shorter than `swaps`.
    pub swap_times: &'a [[Option<u64>; 2]],
    /// The timed run.
    pub timed: Option<Timed<'a>>,
    /// Why there is no timed run.
    pub not_timed: &'a str,
    /// Where the inputs came from, in words.
    pub inputs: &'a str,
    /// Instructions executed.
    pub executed: Option<u64>,
    /// Text of a source file by the name that the kernel gives it.
    pub source: &'a dyn Fn(&str) -> Option<String>,
    /// Version of the tool.
    pub version: &'a str,
}

/// The page as HTML.
pub fn render(r: &ReportInput<'_>) -> String {
    let code = code::Code::new(r);
    let title = format!("{} – Tandem report", r.kernel);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                (head(r))
                main #main {
                    (summary::section(r))
                    (findings::section(r))
                    (timing::section(r))
                    (memory::section(r))
                    (swaps::section(r))
                    (code.section(r))
                }
                footer { p { "Made by tandem " (r.version) ". Times are predictions of a model, not measurements." } }
                div #tip hidden aria-hidden="true" {}
                script #data type="application/json" { (PreEscaped(data::json(r, &code))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Nothing is loaded; the only script that runs is the one whose digest is named.
fn policy() -> String {
    let digest = tandem_bir::base64::encode(&Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
}

fn head(r: &ReportInput<'_>) -> Markup {
    let target =
        r.program.map(|p| p.arch().spec().map_or_else(|| p.arch().to_string(), |s| s.target.to_owned()));
    let sections = [
        ("#summary", "Summary"),
        ("#findings", "Findings"),
        ("#timeline", "Timeline"),
        ("#memory", "Memory"),
        ("#swaps", "Swaps"),
        ("#code", "Code"),
    ];
    html! {
        header.top {
            p.brand { "Tandem report" }
            h1 { @for part in r.kernel.split_inclusive(['_', '.', '/']) { (part) wbr; } }
            ul.facts {
                li { code { (r.file) } }
                @if let Some(t) = &target { li { (t) } }
                @if let Some(p) = r.program { li { (units::count(u64::from(p.lnc_size), "core")) } }
                @if !r.inputs.is_empty() { li { (r.inputs) } }
            }
            nav aria-label="Sections" {
                ul { @for (to, name) in sections { li { a href=(to) { (name) } } } }
            }
        }
    }
}

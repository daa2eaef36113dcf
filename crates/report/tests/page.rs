//! The page as text: what the browser test cannot see quickly.

#[path = "support/events.rs"]
mod events;

use serde_json::Value;
use tandem_bir::Program;
use tandem_bir::diag::{Diagnostic, Severity, Site, SourcePos, codes};
use tandem_report::{Limits, Picture, ReportInput, Timed, VerdictText, page};
use tandem_sim::timing::{BackEnd, Params, TimingReport};
use tandem_sim::{RunOptions, Simulator};

const HOSTILE: &str = "</script><script>alert(1)</script><!--<b>&\"'\u{2028}";

/// A picture of made-up events, and the sums of a small real run.
fn report(p: &Program, slices: u64) -> (Picture, TimingReport) {
    let mut picture = Picture::new(Limits::default());
    events::feed(p, slices, &mut picture);
    let real = tandem_bir::text::parse(SMALL).expect("a program");
    let ready = Simulator::new(&real, RunOptions::default()).expect("it can run");
    let (_, timing) = ready.run_timed(&Params::new(BackEnd::Doc)).expect("it can be timed");
    (picture, timing.expect("it ends"))
}

const SMALL: &str = "bir 1
program \"small\" lnc 1 level lowered
output \"y\" = @y float32 [128 x 4]
module @nc00 core 0 arch gen3 {
  func @main {
    set @y_set = ExternalOutput Tensor Shared float32 [128 x 4] { loc @y = DRAM [128, 16] addr 0 allocated id 0 }
    set @t_set = Internal NeuronSBTensor Local float32 [128 x 4] { loc @t = SB [128, 16] addr 0 allocated id 1 }
    block b0 {
      m = Memset DVE @t[[4,128] [1,4]] float32 {mode = Const, constant = 0} !loc kernel.py:2:1
      o = DMACopy DMA @y[[4,128] [1,4]] float32 <- @t[[4,128] [1,4]] float32 after(m:Flow) !loc kernel.py:3:1
    }
  }
}
";

fn page_of(p: &Program, diagnostics: &[Diagnostic], timed: Option<Timed<'_>>) -> String {
    page::render(&ReportInput {
        kernel: &p.name,
        file: HOSTILE,
        program: Some(p),
        verdict: &VerdictText { word: "refuted".into(), line: format!("verdict: refuted: {HOSTILE}") },
        diagnostics,
        swaps: &[],
        swap_times: &[],
        timed,
        not_timed: HOSTILE,
        inputs: HOSTILE,
        executed: Some(1),
        source: &|f| (f == "kernel.py").then(|| format!("import x\n{HOSTILE}\n").repeat(60)),
        version: "0",
    })
}

fn data(page: &str) -> Value {
    let at = page.find("<script id=\"data\"").expect("a data block");
    let text = &page[at..];
    let text = &text[text.find('>').expect("an end of the tag") + 1..];
    serde_json::from_str(&text[..text.find("</script>").expect("an end")]).expect("JSON")
}

#[test]
fn names_and_source_text_stay_text() {
    let mut p = events::program(40);
    p.name = HOSTILE.into();
    for m in &mut p.modules {
        for i in m.insts.values_mut() {
            i.name = HOSTILE.into();
        }
    }
    let (picture, timing) = report(&p, 200);
    let pos = SourcePos { file: "kernel.py".into(), line: 2, column: 1, end_line: None, end_column: None };
    let finding = Diagnostic::new(codes::U0001, HOSTILE)
        .site(Site::at(Some(pos)).label(HOSTILE))
        .note(HOSTILE)
        .help(HOSTILE);
    let timed = Timed { report: &timing, picture: &picture };
    let html = page_of(&p, std::slice::from_ref(&finding), Some(timed));
    // The data block and the script of the page; nothing else opens or closes one.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    assert!(!html.contains("<b>&") && !html.contains("<!--<"));
    assert!(!html.contains("alert(1)</script>"));
    // And it is all there, as text.
    assert_eq!(data(&html)["labels"][0][0], HOSTILE);
    assert!(html.matches("&lt;/script&gt;&lt;script&gt;alert(1)").count() > 40);
    // Without a run: the reason is shown, and the page has no chart.
    let html = page_of(&p, &[finding], None);
    assert_eq!(data(&html), Value::Null);
    assert_eq!(html.matches("<script").count(), 2);
    assert!(!html.contains("id=\"chart-timeline\""));
}

#[test]
fn a_large_program_gives_a_page_of_less_than_two_megabytes_that_says_what_is_left_out() {
    let p = events::program(60_000);
    let (picture, timing) = report(&p, 400_000);
    let many: Vec<Diagnostic> = (0..5_000)
        .map(|i| Diagnostic::new(codes::S0015, format!("finding {i} {}", "long ".repeat(20))))
        .collect();
    let timed = || Some(Timed { report: &timing, picture: &picture });
    let html = page_of(&p, &many, timed());
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    for said in ["worst of", "drawn as one", "left out of the picture", "Shown are the first"] {
        assert!(html.contains(said), "the page does not say `{said}`");
    }
    assert_eq!(html, page_of(&p, &many, timed()));
}

#[test]
fn items_of_the_data_block_are_in_order_and_add_up() {
    let p = events::program(50);
    let (picture, timing) = report(&p, 2_000);
    let d = data(&page_of(&p, &[], Some(Timed { report: &timing, picture: &picture })));
    let mut count = 0;
    for lane in d["lanes"].as_array().expect("lanes") {
        let s: Vec<u64> =
            lane["s"].as_array().expect("items").iter().map(|x| x.as_u64().expect("a number")).collect();
        assert_eq!(s.len() % 6, 0);
        let mut at = 0;
        for i in s.chunks(6) {
            at += i[0] + i[1];
            assert!(i[2] < d["labels"].as_array().expect("labels").len() as u64);
            count += i[4];
        }
        assert!(at <= d["total"].as_u64().expect("a time"));
    }
    // 2,000 executions and a run of packets for each fourth.
    assert_eq!(count, 2_500);
    let arrows = d["arrows"].as_array().expect("arrows");
    assert_eq!(arrows.len(), 1_998);
    // Anchors of the labels are on the page.
    let html = page_of(&p, &[], Some(Timed { report: &timing, picture: &picture }));
    for l in d["labels"].as_array().expect("labels") {
        assert!(html.contains(&format!("id=\"{}\"", l[4].as_str().expect("an anchor"))));
    }
}

#[test]
fn findings_are_shown_worst_first_with_both_lines() {
    let p = events::program(3);
    let pos =
        |line| SourcePos { file: "kernel.py".into(), line, column: 1, end_line: None, end_column: None };
    let mut note = Diagnostic::new(codes::U0001, "only a note");
    note.severity = Severity::Note;
    let race = Diagnostic::new(codes::S0015, "two places")
        .site(Site::at(Some(pos(1))).label("first"))
        .site(Site::at(Some(pos(3))).label("second"));
    let html = page_of(&p, &[note, race], None);
    let at = |s: &str| html.find(s).unwrap_or_else(|| panic!("no `{s}`"));
    assert!(at("two places") < at("only a note"));
    assert!(at("kernel.py:1:1") < at("kernel.py:3:1"));
    assert_eq!(html.matches("import x</pre>").count(), 2, "the text of both lines");
}

//! `tandem info`.

use crate::cli::{Format, InfoArgs};
use crate::load::{BirForm, Input, ToShow, load_to_show};
use crate::out::Console;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::fmt::Write as _;
use tandem_backend::container;
use tandem_bir::diag::{Diagnostic, exit_code};
use tandem_bir::{Port, Program};

pub(super) fn run(a: &InfoArgs, console: &Console) -> u8 {
    let input = match load_to_show(&a.file) {
        Ok(i) => i,
        Err(d) => {
            console.findings(&d, a.format);
            return exit_code(&d);
        }
    };
    match input {
        ToShow::Container(bytes) => of_container(&bytes, a, console),
        ToShow::Other(input) => {
            let code = of_program(&input, a, console);
            super::leave(input);
            code
        }
    }
}

fn of_container(bytes: &[u8], a: &InfoArgs, console: &Console) -> u8 {
    match container::read_sections(bytes) {
        Ok(c) => match a.format {
            Format::Text => console.print(&container_text(&container::info(&c))),
            Format::Json => console.json(&container::info(&c)),
        },
        Err(d) => {
            console.findings(std::slice::from_ref(&d), a.format);
            return exit_code(&[d]);
        }
    }
    0
}

fn of_program(input: &Input, a: &InfoArgs, console: &Console) -> u8 {
    match input {
        Input::Klr(outcome, _) => {
            let info = tandem_klr::info::Info::of(outcome);
            match a.format {
                Format::Text => console.print(&info.to_text()),
                Format::Json => console.json(&info.to_json()),
            }
            let notes: Vec<Diagnostic> = outcome.notes.iter().cloned().map(Diagnostic::from).collect();
            console.diagnostics(&notes);
        }
        Input::Container(bytes, _) => return of_container(bytes, a, console),
        Input::Bir(p, form) => match a.format {
            Format::Text => console.print(&bir_text(p, *form)),
            Format::Json => console.json(&bir_json(p, *form)),
        },
    }
    0
}

fn counts(p: &Program) -> Vec<(String, IndexMap<String, u64>)> {
    p.modules
        .iter()
        .map(|m| {
            let mut c: Vec<(String, u64)> = Vec::new();
            for (_, _, i) in m.walk() {
                let name = m.insts[i].opcode.to_string();
                match c.binary_search_by(|(n, _)| n.as_str().cmp(&name)) {
                    Ok(k) => c[k].1 += 1,
                    Err(k) => c.insert(k, (name, 1)),
                }
            }
            (format!("{}/sg{:02}", m.name, m.subgraph), c.into_iter().collect())
        })
        .collect()
}

/// What a container holds, for people.
fn container_text(v: &Value) -> String {
    let text = |k: &str| match &v[k] {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    };
    let mut s = String::new();
    for (title, key) in [
        ("kind", "kind"),
        ("version", "version"),
        ("arch", "arch"),
        ("cores", "cores"),
        ("bundles", "bundles"),
    ] {
        let _ = writeln!(s, "{title:<9} {}", text(key));
    }
    for x in v["streams"].as_array().into_iter().flatten() {
        let engine = x["engine"].as_str().unwrap_or("?");
        let _ = writeln!(s, "bundles of core {} {engine}", x["core"]);
        for (name, n) in x["opcodes"].as_object().into_iter().flatten() {
            let _ = writeln!(s, "  {:>8} {name}", n.to_string());
        }
    }
    s
}

fn port_json(p: &Port) -> Value {
    json!({"name": p.name, "dtype": p.dtype.to_string(), "shape": p.shape})
}

fn bir_json(p: &Program, form: BirForm) -> Value {
    json!({
        "kind": form.describe(),
        "kernel": p.name,
        "arch": p.arch().to_string(),
        "level": format!("{:?}", p.level).to_lowercase(),
        "cores": p.lnc_size,
        "subgraphs": p.num_subgraphs(),
        "inputs": p.signature.inputs.iter().map(port_json).collect::<Vec<_>>(),
        "outputs": p.signature.outputs.iter().map(port_json).collect::<Vec<_>>(),
        "instructions": counts(p).into_iter().map(|(m, c)| json!({"module": m, "counts": c.into_iter().map(|(n, v)| (n, json!(v))).collect::<serde_json::Map<_, _>>()})).collect::<Vec<_>>(),
    })
}

fn bir_text(p: &Program, form: BirForm) -> String {
    let mut s = String::new();
    let _ = writeln!(s, "kind      {}", form.describe());
    let _ = writeln!(s, "kernel    {}", p.name);
    let _ = writeln!(s, "arch      {}", p.arch());
    let _ = writeln!(s, "level     {}", format!("{:?}", p.level).to_lowercase());
    let _ = writeln!(s, "cores     {}", p.lnc_size);
    let _ = writeln!(s, "subgraphs {}", p.num_subgraphs());
    for (title, ports) in [("inputs", &p.signature.inputs), ("outputs", &p.signature.outputs)] {
        let _ = writeln!(s, "{title}");
        for port in ports {
            let shape: Vec<String> = port.shape.iter().map(u64::to_string).collect();
            let _ = writeln!(s, "  {} {} [{}]", port.name, port.dtype, shape.join(", "));
        }
    }
    for (m, c) in counts(p) {
        let _ = writeln!(s, "instructions of {m}");
        for (name, n) in c {
            let _ = writeln!(s, "  {n:>8} {name}");
        }
    }
    s
}

//! What holds for the whole kernel: number of cores, border, shared constants, tensor ids.

use super::fail::Fail;
use super::tensors::Role;
use super::{Core, LowerOptions, enums};
use crate::KlrFile;
use crate::ast as k;
use crate::container::Contents;
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use tandem_bir::diag::{Diagnostic, LocTable, codes};
use tandem_bir::{AddressSpace, ArchSpec, CompactString, CoreId, Port, Signature, TensorKind};

/// A kernel of either form, borrowed.
#[derive(Debug)]
pub(crate) struct View<'k> {
    pub name: &'k str,
    pub inputs: &'k [Arc<k::TensorName>],
    pub outputs: &'k [Arc<k::TensorName>],
    pub bodies: Vec<&'k [k::Block]>,
    pub constants: &'k [k::SharedConstantFile],
    pub buffers: &'k [Arc<k::TensorName>],
    pub edges: &'k [k::Edges],
}

impl<'k> View<'k> {
    pub(crate) fn of(file: &'k KlrFile) -> View<'k> {
        match &file.contents {
            Contents::Kernel(kernel) => View {
                name: &kernel.name,
                inputs: &kernel.inputs,
                outputs: &kernel.outputs,
                bodies: vec![&kernel.body],
                constants: &[],
                buffers: &[],
                edges: &[],
            },
            Contents::Lnc(kernel) => View {
                name: &kernel.name,
                inputs: &kernel.inputs,
                outputs: &kernel.outputs,
                bodies: kernel.bodies.iter().map(Vec::as_slice).collect(),
                constants: &kernel.shared_constants,
                buffers: &kernel.shared_buffers,
                edges: &kernel.edges,
            },
        }
    }
}

/// What grows while cores are lowered one after the other.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    pub locs: LocTable,
    pub diags: Vec<Diagnostic>,
    pub payloads: IndexMap<String, Arc<[u8]>>,
    ids: FxHashMap<CompactString, i32>,
}

impl Kernel {
    /// Id of a tensor: equal names have equal ids on all cores, in the order of first use.
    pub(crate) fn tensor_id(&mut self, name: &str) -> i32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = i32::try_from(self.ids.len()).unwrap_or(i32::MAX);
        self.ids.insert(name.into(), id);
        id
    }
}

/// What is fixed before the first statement.
#[derive(Debug)]
pub(crate) struct Plan<'k> {
    pub view: &'k View<'k>,
    pub opts: &'k LowerOptions<'k>,
    pub lnc_size: u32,
    pub arch: &'static ArchSpec,
    pub strict: bool,
    /// Files of shared constants by tensor name.
    pub constants: FxHashMap<CompactString, CompactString>,
}

impl<'k> Plan<'k> {
    pub(crate) fn new(
        view: &'k View<'k>,
        opts: &'k LowerOptions<'k>,
        kernel: &mut Kernel,
    ) -> Option<Plan<'k>> {
        let refuse = |kernel: &mut Kernel, d: Diagnostic| {
            kernel.diags.push(d);
            None
        };
        let bodies = u32::try_from(view.bodies.len()).unwrap_or(u32::MAX);
        let rule = "an LNC has 1 or 2 cores; more than two cores cannot be expressed on the machine";
        let Some(arch) = opts.arch.spec() else {
            return refuse(
                kernel,
                Diagnostic::new(codes::U0005, format!("no machine model for {}", opts.arch)),
            );
        };
        if opts.lnc_size.is_some_and(|n| n == 0 || n > 2) {
            let text = format!("LNC size {}: {rule}", opts.lnc_size.unwrap_or_default());
            return refuse(kernel, Diagnostic::new(codes::U0005, text));
        }
        if bodies > 2 {
            return refuse(
                kernel,
                Diagnostic::new(codes::K0002, format!("kernel has {bodies} bodies: {rule}")),
            );
        }
        if bodies == 0 {
            return refuse(kernel, Diagnostic::new(codes::K0008, "kernel has no body"));
        }
        let lnc_size = opts.lnc_size.unwrap_or(bodies);
        if lnc_size < bodies {
            let text = format!("kernel has {bodies} bodies but lnc_size is {lnc_size}");
            return refuse(kernel, Diagnostic::new(codes::K0001, text));
        }
        if lnc_size > arch.max_lnc {
            let text =
                format!("{} has LNCs of {} core; the kernel needs {lnc_size}", arch.target, arch.max_lnc);
            return refuse(kernel, Diagnostic::new(codes::K0002, text));
        }
        if !opts.assign_cores && bodies > 1 {
            let text = "NeuronCoreId must be set when the LNC count is greater than 1";
            return refuse(kernel, Diagnostic::new(codes::K0004, text));
        }
        let mut plan =
            Plan { view, opts, lnc_size, arch, strict: opts.strict_2_24, constants: FxHashMap::default() };
        plan.load_constants(kernel);
        for t in view.inputs.iter().chain(view.outputs).chain(view.buffers) {
            kernel.tensor_id(&t.address.name);
        }
        Some(plan)
    }

    fn load_constants(&mut self, kernel: &mut Kernel) {
        for c in self.view.constants {
            self.constants.insert(c.name.clone(), c.file_name.clone());
            if kernel.payloads.contains_key(c.file_name.as_str()) {
                continue;
            }
            if !stays_inside(&c.file_name) {
                kernel.diags.push(Diagnostic::new(
                    codes::K0005,
                    format!(
                        "shared constant `{}`: {} is not a file below the kernel's folder",
                        c.name, c.file_name
                    ),
                ));
                continue;
            }
            match (self.opts.constants)(&c.file_name) {
                Ok(bytes) => {
                    kernel.payloads.insert(c.file_name.to_string(), bytes.into());
                }
                Err(e) => kernel.diags.push(Diagnostic::new(
                    codes::K0005,
                    format!("shared constant `{}`: cannot load {}: {e}", c.name, c.file_name),
                )),
            }
        }
    }

    /// File of a tensor that is a shared constant.
    pub(crate) fn constant_file(&self, t: &k::TensorName) -> Option<&CompactString> {
        if self.constants.is_empty() {
            return None;
        }
        self.constants.get(&t.address.name).or_else(|| self.constants.get(&t.name))
    }

    /// A tensor of the border every core has for itself.
    fn is_private(&self, t: &k::TensorName) -> bool {
        self.lnc_size > 1 && t.address.memory == k::Memory::PrivateHbm
    }
}

/// A relative path without a way up: loading and writing constants stays in their folder.
fn stays_inside(file: &str) -> bool {
    let path = std::path::Path::new(file);
    !file.is_empty() && path.components().all(|c| matches!(c, std::path::Component::Normal(_)))
}

fn is_dram(t: &k::TensorName) -> bool {
    matches!(t.address.memory, k::Memory::Hbm | k::Memory::SharedHbm | k::Memory::PrivateHbm)
}

impl Core<'_> {
    /// Inputs, then outputs, on every core in the same order.
    pub(crate) fn bind_border(&mut self, signature: &mut Signature) {
        let (inputs, outputs) = (self.plan.view.inputs, self.plan.view.outputs);
        for t in inputs {
            if let Some(port) = self.bind_port(t, TensorKind::ExternalInput) {
                signature.inputs.push(port);
            }
        }
        for t in outputs {
            if let Some(port) = self.bind_port(t, TensorKind::ExternalOutput) {
                signature.outputs.push(port);
            }
        }
    }

    /// Binds one tensor of the border; gives its port unless another core gave it.
    fn bind_port(&mut self, t: &Arc<k::TensorName>, kind: TensorKind) -> Option<Port> {
        if !is_dram(t) {
            if self.core == 0 {
                let word = if kind == TensorKind::ExternalInput { "input" } else { "output" };
                let fail = Fail::new(codes::K0006, format!("{} {word} cannot be found ", t.name))
                    .note(format!("it lies in {}; inputs and outputs lie in HBM", t.address.memory));
                self.report(*fail);
            }
            return None;
        }
        let private = self.plan.is_private(t);
        if private && self.core as usize >= self.plan.view.bodies.len() {
            return None;
        }
        if !self.regions.contains_key(&t.address.name) {
            let space =
                if self.plan.lnc_size > 1 && !private { AddressSpace::Shared } else { AddressSpace::Local };
            if let Err(fail) = self.mint(t, Role { kind, space, file: None }) {
                self.report(*fail);
                return None;
            }
        }
        if !private && self.core > 0 {
            return None;
        }
        let name = if private { format!("nc{:02}:{}", self.core, t.name) } else { t.name.to_string() };
        Some(Port {
            name,
            location: t.address.name.clone(),
            core: private.then_some(CoreId(self.core)),
            subgraph: 0,
            dtype: enums::dtype(t.dtype),
            shape: t.shape.dims(),
        })
    }

    /// Buffers that all bodies share; an entry that is an input or output already keeps its kind.
    pub(crate) fn bind_shared_buffers(&mut self) {
        for t in self.plan.view.buffers {
            if self.regions.contains_key(&t.address.name) || self.plan.constant_file(t).is_some() {
                continue;
            }
            let space = if self.plan.lnc_size > 1 { AddressSpace::Shared } else { AddressSpace::Local };
            if let Err(fail) = self.mint(t, Role { kind: TensorKind::Internal, space, file: None }) {
                self.report(*fail);
            }
        }
    }
}

/// Ports in the order of the kernel's parameters and results, cores inside.
pub(crate) fn order_ports(signature: &mut Signature, plan: &Plan<'_>) {
    fn sort(ports: &mut Vec<Port>, tensors: &[Arc<k::TensorName>], lnc: u32) {
        let several = ports.iter().any(|p| p.core.is_some_and(|c| c.0 > 0));
        if lnc < 2 || !several {
            return;
        }
        // Ports came core by core: those of core 0 in order, then the private ones of the other cores.
        let mut rest: FxHashMap<String, Vec<Port>> = FxHashMap::default();
        let mut first = Vec::with_capacity(tensors.len());
        for p in ports.drain(..) {
            match p.core {
                Some(c) if c.0 > 0 => {
                    let bare = p.name.split_once(':').map_or("", |(_, n)| n).to_string();
                    rest.entry(bare).or_default().push(p);
                }
                _ => first.push(p),
            }
        }
        let mut seen = FxHashSet::default();
        for p in first {
            let bare = p.name.split_once(':').map_or("", |(_, n)| n).to_string();
            let others =
                if p.core.is_some() && seen.insert(bare.clone()) { rest.remove(&bare) } else { None };
            ports.push(p);
            ports.extend(others.into_iter().flatten());
        }
    }
    sort(&mut signature.inputs, plan.view.inputs, plan.lnc_size);
    sort(&mut signature.outputs, plan.view.outputs, plan.lnc_size);
}

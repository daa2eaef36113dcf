//! Python values to the fields of operators.
//!
//! A field's type decides the conversion, so a row of the operator table only names its fields. Enumerations arrive
//! by their KLR names, tensors as views, registers by name.

use crate::view::View;
use indexmap::IndexSet;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};
use tandem_klr::ast::*;

/// Why a value does not fit a field.
pub(crate) type Misfit = String;

/// A value that becomes a field.
pub(crate) trait Field: Sized {
    /// Converts.
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit>;
}

/// The values of one operator by field name, and the memory tensors it writes.
pub(crate) struct Args<'a, 'py> {
    values: &'a Bound<'py, PyTuple>,
    next: usize,
    written: &'a mut IndexSet<Str>,
}

/// A field that cannot be made: its name and why.
pub(crate) struct BadField(pub(crate) &'static str, pub(crate) Misfit);

impl<'a, 'py> Args<'a, 'py> {
    pub(crate) fn new(values: &'a Bound<'py, PyTuple>, written: &'a mut IndexSet<Str>) -> Self {
        Args { values, next: 0, written }
    }

    /// The value of the next field.
    pub(crate) fn take<T: Field>(&mut self, name: &'static str) -> Result<T, BadField> {
        let x = self.values.get_item(self.next).map_err(|_| BadField(name, "no value".into()))?;
        self.next += 1;
        if is_written(name) {
            self.note_written(&x);
        }
        T::field(&x).map_err(|why| BadField(name, why))
    }

    /// Whether every value was used.
    pub(crate) fn done(&self) -> bool {
        self.next == self.values.len()
    }

    fn note_written(&mut self, x: &Bound<'_, PyAny>) {
        if let Ok(v) = x.cast::<View>() {
            let base = &v.get().base;
            if !base.on_chip {
                self.written.insert(base.tensor.address.name.clone());
            }
        } else if let Ok(list) = x.try_iter() {
            for item in list.flatten() {
                if item.cast::<View>().is_ok() {
                    self.note_written(&item);
                }
            }
        }
    }
}

/// Fields through which an operator writes.
fn is_written(name: &str) -> bool {
    matches!(name, "dst" | "dsts" | "reduce_res" | "dst_idx" | "dst_scale")
}

fn wrong<T>(x: &Bound<'_, PyAny>, want: &str) -> Result<T, Misfit> {
    let got = x.repr().map_or_else(|_| "?".to_owned(), |r| r.to_string());
    let got: String = got.chars().take(120).collect();
    Err(format!("expected {want}, not {got}"))
}

macro_rules! by_name {
    ($($T:ident),* $(,)?) => {$(
        impl Field for $T {
            fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
                let Ok(name) = x.extract::<String>() else { return wrong(x, stringify!($T)) };
                match $T::from_name(&name) {
                    Some(v) => Ok(v),
                    None => Err(format!(concat!("`{}` is no ", stringify!($T), " of KLR"), name)),
                }
            }
        }
    )*};
}

by_name!(
    MatmulPerfMode,
    Engine,
    AluOp,
    DropoutThresholdType,
    AccumCmd,
    ActivationFunc,
    DgeComputeOp,
    TensorScalarReverseOps,
    TensorSubDim,
    TransposeOps,
    BrCmpOp,
    PrintOutputBuffer,
);

macro_rules! by_extract {
    ($($T:ty => $want:literal),* $(,)?) => {$(
        impl Field for $T {
            fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
                match x.extract::<$T>() {
                    Ok(v) => Ok(v),
                    Err(_) => wrong(x, $want),
                }
            }
        }
    )*};
}

by_extract!(bool => "True or False", u64 => "a number from 0", i32 => "a 32-bit number", i64 => "a 64-bit number");

/// By a tensor that has the type, or by KLR's name.
impl Field for Dtype {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        if let Ok(v) = x.cast::<View>() {
            return Ok(v.get().elem.klr);
        }
        let Ok(name) = x.extract::<String>() else { return wrong(x, "an element type") };
        Dtype::from_name(&name).ok_or_else(|| format!("`{name}` is no element type of KLR"))
    }
}

impl Field for Str {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        match x.extract::<String>() {
            Ok(s) => Ok(Str::from(s)),
            Err(_) => wrong(x, "a name"),
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        if x.is_none() { Ok(None) } else { T::field(x).map(Some) }
    }
}

impl<T: Field> Field for Vec<T> {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        if x.cast::<View>().is_ok() {
            return wrong(x, "a list");
        }
        let Ok(items) = x.try_iter() else { return wrong(x, "a list") };
        let mut out = Vec::new();
        for (i, item) in items.enumerate() {
            let item = item.map_err(|e| e.to_string())?;
            out.push(T::field(&item).map_err(|why| format!("item {i}: {why}"))?);
        }
        Ok(out)
    }
}

impl Field for TensorRef {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        match x.cast::<View>() {
            Ok(v) => v.get().operand(),
            Err(_) => wrong(x, "a tensor"),
        }
    }
}

impl Field for Immediate {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        if let Ok(b) = x.cast::<PyBool>() {
            return Ok(Immediate::Int(i32::from(b.is_true())));
        }
        if x.is_instance_of::<PyFloat>() {
            return match x.extract::<f64>() {
                #[expect(clippy::cast_possible_truncation, reason = "KLR floats are 32 bits wide")]
                Ok(v) => Ok(Immediate::Float((v as f32).into())),
                Err(e) => Err(e.to_string()),
            };
        }
        if x.is_instance_of::<PyInt>() {
            let Ok(v) = x.extract::<i64>() else { return wrong(x, "a 32-bit number") };
            if let Ok(v) = i32::try_from(v) {
                return Ok(Immediate::Int(v));
            }
            // The upper half of the unsigned range travels as the same 32 bits.
            return match u32::try_from(v) {
                Ok(v) => Ok(Immediate::Int(v.cast_signed())),
                Err(_) => wrong(x, "a 32-bit number"),
            };
        }
        wrong(x, "a number")
    }
}

impl Field for Operand {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        match x.cast::<View>() {
            Ok(v) => v.get().operand().map(Operand::Tile),
            Err(_) => match Immediate::field(x) {
                Ok(i) => Ok(Operand::Imm(i)),
                Err(_) => wrong(x, "a number or a tensor"),
            },
        }
    }
}

impl Field for DmaBounds {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        match x.extract::<String>().as_deref() {
            Ok("skip") => Ok(DmaBounds::Skip),
            Ok("error") => Ok(DmaBounds::Error),
            _ => wrong(x, "skip or error"),
        }
    }
}

impl Field for ReplicaGroup {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        if x.is_none() {
            return Ok(ReplicaGroup::Unspecified);
        }
        if let Ok(name) = x.extract::<String>() {
            return Ok(ReplicaGroup::Named(Str::from(name)));
        }
        Vec::<Vec<i64>>::field(x).map(ReplicaGroup::Literal)
    }
}

/// `(offset, [(step, num), ...], channel multiplier)`.
impl Field for DataPattern {
    fn field(x: &Bound<'_, PyAny>) -> Result<Self, Misfit> {
        match x.extract::<(i64, Vec<(i64, u64)>, i64)>() {
            Ok((offset, pairs, channel_multiplier)) => {
                let pattern = pairs.into_iter().map(|(step, num)| ApPair { step, num, offset: 0 }).collect();
                Ok(DataPattern { offset, pattern, channel_multiplier })
            }
            Err(_) => wrong(x, "offset, [[step, num], ...], channel multiplier"),
        }
    }
}

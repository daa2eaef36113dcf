//! How values stand on disk: the reader and writer of every scalar, list and option.
//!
//! Encodings: the specification, file 02 §2 and §3.

use crate::ast::{F32, Str, TensorName};
use crate::error::Fail;
use crate::read::Reader;
use crate::write::Writer;
use smallvec::SmallVec;
use std::sync::Arc;

/// A type of the type table.
pub trait KlrType {
    /// Type tag, the high byte of the CBOR tag.
    const TAG: u8;
    /// Name in KLR.
    const NAME: &'static str;
}

/// A value that can stand in a file.
pub(crate) trait Wire: Sized {
    /// Reads the value at the reader's place.
    fn read(r: &mut Reader<'_>) -> Result<Self, Fail>;
    /// Appends the value.
    fn write(&self, w: &mut Writer);
}

impl Wire for u64 {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<u64, Fail> {
        r.nat()
    }
    fn write(&self, w: &mut Writer) {
        w.nat(*self);
    }
}

impl Wire for i64 {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<i64, Fail> {
        r.int()
    }
    fn write(&self, w: &mut Writer) {
        w.int(*self);
    }
}

impl Wire for i32 {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<i32, Fail> {
        r.int32()
    }
    fn write(&self, w: &mut Writer) {
        w.int(i64::from(*self));
    }
}

impl Wire for bool {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<bool, Fail> {
        r.boolean()
    }
    fn write(&self, w: &mut Writer) {
        w.boolean(*self);
    }
}

impl Wire for F32 {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<F32, Fail> {
        r.float32()
    }
    fn write(&self, w: &mut Writer) {
        w.float32(*self);
    }
}

impl Wire for Str {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<Str, Fail> {
        r.text().map(Str::new)
    }
    fn write(&self, w: &mut Writer) {
        w.text(self);
    }
}

impl Wire for Arc<str> {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<Arc<str>, Fail> {
        r.shared_text()
    }
    fn write(&self, w: &mut Writer) {
        w.text(self);
    }
}

impl Wire for Arc<TensorName> {
    fn read(r: &mut Reader<'_>) -> Result<Arc<TensorName>, Fail> {
        r.shared_tensor()
    }
    fn write(&self, w: &mut Writer) {
        TensorName::write(self, w);
    }
}

/// Boxes stand where a type can contain itself: each one counts as a level of nesting.
impl<T: Wire> Wire for Box<T> {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<Box<T>, Fail> {
        r.enter()?;
        let value = T::read(r)?;
        r.leave();
        Ok(Box::new(value))
    }
    fn write(&self, w: &mut Writer) {
        T::write(self, w);
    }
}

impl<T: Wire> Wire for Option<T> {
    #[inline]
    fn read(r: &mut Reader<'_>) -> Result<Option<T>, Fail> {
        if r.option()? { T::read(r).map(Some) } else { Ok(None) }
    }
    fn write(&self, w: &mut Writer) {
        match self {
            None => w.tagged(255, 0, 0),
            Some(value) => {
                w.tagged(255, 1, 1);
                value.write(w);
            }
        }
    }
}

/// Elements a list makes room for before it has read them; more come by doubling.
const FIRST_ROOM: usize = 64;

impl<T: Wire> Wire for Vec<T> {
    fn read(r: &mut Reader<'_>) -> Result<Vec<T>, Fail> {
        let count = r.list()?;
        let mut list = Vec::with_capacity(count.min(FIRST_ROOM));
        for i in 0..count {
            list.push(T::read(r).map_err(|e| e.index(i))?);
        }
        Ok(list)
    }
    fn write(&self, w: &mut Writer) {
        w.list(self.len());
        self.iter().for_each(|value| value.write(w));
    }
}

impl<T: Wire, const N: usize> Wire for SmallVec<[T; N]>
where
    [T; N]: smallvec::Array<Item = T>,
{
    fn read(r: &mut Reader<'_>) -> Result<SmallVec<[T; N]>, Fail> {
        let count = r.list()?;
        let mut list = SmallVec::new();
        for i in 0..count {
            list.push(T::read(r).map_err(|e| e.index(i))?);
        }
        Ok(list)
    }
    fn write(&self, w: &mut Writer) {
        w.list(self.len());
        self.iter().for_each(|value| value.write(w));
    }
}

//! The sync region of a record: one wait, one update, one shared value.
//!
//! Source: the specification, file 07 §2 (documented). Where a wait and an update both need the value and differ, we
//! refuse; the linker splits such an instruction before (our choice).

use super::bundle::{Bundle, WireError, WireResult};
use tandem_bir::diag::codes;
use tandem_bir::inst::{SemUpdate, SemWait, SyncInfo};

/// Wait: nothing.
pub const WAIT_NONE: u8 = 0;
/// Wait: counter ≥ value.
pub const WAIT_GE_IMM: u8 = 0x05;
/// Wait: counter ≥ register.
pub const WAIT_GE_REG: u8 = 0x85;
/// Update: nothing.
pub const UPDATE_NONE: u8 = 0;
/// Update: add the value on completion.
pub const UPDATE_ADD: u8 = 0x15;
/// Update: subtract the value on completion.
pub const UPDATE_SUB: u8 = 0x17;
/// Update: +1 on completion.
pub const UPDATE_INC: u8 = 0x13;
/// Update: −1 on completion.
pub const UPDATE_DEC: u8 = 0x14;
/// Wait modes of the machine.
pub const WAIT_MODES: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 0x0E, 0x0F, 0x81, 0x82, 0x83, 0x84, 0x85];
/// Update modes of the machine.
pub const UPDATE_MODES: &[u8] = &[0, 1, 2, 3, 4, 5, 7, 9, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x19];

fn sem8(sem: u32) -> WireResult<u8> {
    u8::try_from(sem)
        .map_err(|_| WireError::new(codes::E0008, format!("semaphore {sem} has no number of 8 bits")))
}

fn wait_value(w: &SemWait) -> WireResult<u32> {
    i32::try_from(w.value)
        .map(|v| v as u32)
        .map_err(|_| WireError::new(codes::E0008, format!("wait value {} does not fit 32 bits", w.value)))
}

/// Mode byte and value of an update; the value is `None` for the implicit ±1.
fn update_mode(u: &SemUpdate) -> WireResult<(u8, Option<u32>)> {
    Ok(match u.value {
        1 => (UPDATE_INC, None),
        -1 => (UPDATE_DEC, None),
        v if v >= 0 => (UPDATE_ADD, Some(narrow(v)?)),
        v => (UPDATE_SUB, Some(narrow(v.saturating_neg())?)),
    })
}

fn narrow(v: i64) -> WireResult<u32> {
    i32::try_from(v)
        .map(|v| v as u32)
        .map_err(|_| WireError::new(codes::E0008, format!("update value {v} does not fit 32 bits")))
}

/// The wait and the update can share one record.
pub fn fits_one_record(s: &SyncInfo) -> bool {
    if s.on_wait.len() > 1 || s.on_update.len() > 1 {
        return false;
    }
    match (s.on_wait.first(), s.on_update.first()) {
        (Some(w), Some(u)) => match update_mode(u) {
            Ok((_, Some(v))) => i64::from(v as i32) == w.value,
            Ok((_, None)) => true,
            Err(_) => false,
        },
        _ => true,
    }
}

/// Writes the wait into a record's sync region.
///
/// # Errors
/// E0008 for more than one wait or numbers that do not fit.
pub fn put_wait(b: &mut Bundle, waits: &[SemWait]) -> WireResult<()> {
    match waits {
        [] => Ok(()),
        [w] => {
            b.put(4, 1, u64::from(WAIT_GE_IMM));
            b.put(5, 1, u64::from(sem8(w.sem)?));
            b.put(8, 4, u64::from(wait_value(w)?));
            Ok(())
        }
        _ => Err(WireError::new(codes::E0008, "Too many sync wait commands")),
    }
}

/// Writes the update into a record's sync region, after the wait.
///
/// # Errors
/// E0007 when the value is taken by the wait, E0008 for more than one update or numbers that do not fit.
pub fn put_update(b: &mut Bundle, updates: &[SemUpdate]) -> WireResult<()> {
    match updates {
        [] => Ok(()),
        [u] => {
            let (mode, value) = update_mode(u)?;
            b.put(6, 1, u64::from(mode));
            b.put(7, 1, u64::from(sem8(u.sem)?));
            if let Some(v) = value {
                if b.byte(4) != WAIT_NONE && b.get(8, 4) as u32 != v {
                    return Err(WireError::new(
                        codes::E0007,
                        format!("the wait needs the value {}, the update {v}", b.get_i(8, 4)),
                    ));
                }
                b.put(8, 4, u64::from(v));
            }
            Ok(())
        }
        _ => Err(WireError::new(codes::E0008, "Too many sync update commands")),
    }
}

/// A wait and an update as `(semaphore, value)`.
pub type Says = (Option<(u32, i64)>, Option<(u32, i64)>);

/// What a record's sync region says.
///
/// # Errors
/// E0104 for modes that no compiled program has, and for a value nobody uses.
pub fn says(b: &Bundle) -> WireResult<Says> {
    let value = b.get(8, 4) as u32;
    let (mut waits, mut updates) = (None, None);
    let mut used = false;
    match b.byte(4) {
        WAIT_NONE => zero(b.byte(5), "the index of no wait")?,
        WAIT_GE_IMM => {
            waits = Some((u32::from(b.byte(5)), i64::from(value as i32)));
            used = true;
        }
        m => {
            return Err(WireError::new(
                codes::E0104,
                format!("wait mode {m:#04x} is not one a compiler emits"),
            ));
        }
    }
    match b.byte(6) {
        UPDATE_NONE => zero(b.byte(7), "the index of no update")?,
        m @ (UPDATE_ADD | UPDATE_SUB) => {
            updates = Some((u32::from(b.byte(7)), added(m, value)?));
            used = true;
        }
        m => updates = Some((u32::from(b.byte(7)), added(m, 0)?)),
    }
    if !used && value != 0 {
        return Err(WireError::new(codes::E0104, "the semaphore value is set but nothing uses it"));
    }
    Ok((waits, updates))
}

/// Reads a record's sync region.
///
/// # Errors
/// Those of [`says`].
pub fn get(b: &Bundle) -> WireResult<SyncInfo> {
    let mut s = SyncInfo::default();
    read(b, &mut s)?;
    Ok(s)
}

/// The same into lists that are there and empty.
///
/// # Errors
/// Those of [`says`].
pub(crate) fn read(b: &Bundle, s: &mut SyncInfo) -> WireResult<()> {
    let (wait, update) = says(b)?;
    if let Some((sem, value)) = wait {
        s.on_wait.reserve_exact(1);
        s.on_wait.push(SemWait { sem, value, ..SemWait::default() });
    }
    if let Some((sem, value)) = update {
        s.on_update.reserve_exact(1);
        s.on_update.push(SemUpdate { sem, value, ..SemUpdate::default() });
    }
    Ok(())
}

fn zero(v: u8, what: &str) -> WireResult<()> {
    if v == 0 { Ok(()) } else { Err(WireError::new(codes::E0104, format!("{what} is {v}, not 0"))) }
}

fn wait(sem: u8, value: u32) -> SemWait {
    SemWait { sem: u32::from(sem), value: i64::from(value as i32), ..SemWait::default() }
}

fn update(mode: u8, sem: u8, value: u32) -> WireResult<SemUpdate> {
    Ok(SemUpdate { sem: u32::from(sem), value: added(mode, value)?, ..SemUpdate::default() })
}

/// What an update of a mode adds.
fn added(mode: u8, value: u32) -> WireResult<i64> {
    Ok(match mode {
        UPDATE_INC => 1,
        UPDATE_DEC => -1,
        UPDATE_ADD => i64::from(value as i32),
        UPDATE_SUB => -i64::from(value as i32),
        m => {
            return Err(WireError::new(
                codes::E0104,
                format!("update mode {m:#04x} is not one a compiler emits"),
            ));
        }
    })
}

/// Writes an event-semaphore record: up to two waits (one in the sync region, one in the extended block at +0x20) and
/// one update (in the extended block).
///
/// # Errors
/// E0008 when there are more.
pub fn put_extended(b: &mut Bundle, s: &SyncInfo) -> WireResult<()> {
    let (first, second) = match s.on_wait.as_slice() {
        [] => (None, None),
        [a] => (Some(a), None),
        [a, c] => (Some(a), Some(c)),
        _ => return Err(WireError::new(codes::E0008, "Too many sync wait commands")),
    };
    if let Some(w) = first {
        put_wait(b, std::slice::from_ref(w))?;
    }
    if let Some(w) = second {
        b.put(0x20, 1, u64::from(WAIT_GE_IMM));
        b.put(0x21, 1, u64::from(sem8(w.sem)?));
        b.put(0x24, 4, u64::from(wait_value(w)?));
    }
    match s.on_update.as_slice() {
        [] => {}
        [u] => {
            let (mode, value) = update_mode(u)?;
            b.put(0x22, 1, u64::from(mode));
            b.put(0x23, 1, u64::from(sem8(u.sem)?));
            b.put(0x28, 4, u64::from(value.unwrap_or(0)));
        }
        _ => return Err(WireError::new(codes::E0008, "Too many sync update commands")),
    }
    Ok(())
}

/// Reads an event-semaphore record.
///
/// # Errors
/// E0104 for modes that no compiled program has and for stray bytes.
pub fn get_extended(b: &Bundle) -> WireResult<SyncInfo> {
    let mut s = get(b)?;
    if !s.on_update.is_empty() {
        return Err(WireError::new(
            codes::E0104,
            "an event-semaphore record updates through its extended block",
        ));
    }
    match b.byte(0x20) {
        WAIT_NONE => {
            zero(b.byte(0x21), "the index of no second wait")?;
            if b.get(0x24, 4) != 0 {
                return Err(WireError::new(
                    codes::E0104,
                    "the second wait's value is set but nothing uses it",
                ));
            }
        }
        WAIT_GE_IMM if !s.on_wait.is_empty() => s.on_wait.push(wait(b.byte(0x21), b.get(0x24, 4) as u32)),
        m => return Err(WireError::new(codes::E0104, format!("second wait mode {m:#04x} is not expected"))),
    }
    let value = b.get(0x28, 4) as u32;
    match b.byte(0x22) {
        UPDATE_NONE => zero(b.byte(0x23), "the index of no update")?,
        m => s.on_update.push(update(m, b.byte(0x23), value)?),
    }
    if value != 0 && !matches!(b.byte(0x22), UPDATE_ADD | UPDATE_SUB) {
        return Err(WireError::new(codes::E0104, "the update's value is set but nothing uses it"));
    }
    Ok(s)
}

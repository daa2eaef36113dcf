//! The one table of diagnostic codes. A code is never reused or renumbered.
//!
//! Each row: constant, class, default severity, title, and the page `tandem explain CODE` prints.
//! Add rows at the end of the section of your stage's letter.

use super::Severity;

/// What a code means for the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Bad usage, or input that cannot be read: exit 2.
    Input,
    /// The program is wrong: exit 1.
    Finding,
    /// Readable, but not supported: exit 3.
    Unsupported,
    /// A fault of Tandem itself: exit 70.
    Internal,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeInfo {
    /// Letter and four digits.
    pub id: &'static str,
    /// Meaning for the exit status.
    pub class: Class,
    /// Severity unless a finding says otherwise.
    pub severity: Severity,
    /// A few words.
    pub title: &'static str,
    /// The page: what it means, why it matters, what to do.
    pub page: &'static str,
}

/// A diagnostic code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(&'static CodeInfo);

impl Code {
    /// The code's row.
    pub fn info(self) -> &'static CodeInfo {
        self.0
    }
    /// The code with this text.
    pub fn from_id(id: &str) -> Option<Code> {
        ALL.iter().copied().find(|c| c.0.id == id)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.id)
    }
}
impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.id)
    }
}

macro_rules! codes {
    ($( $name:ident $class:ident $sev:ident $title:literal $page:literal ; )*) => {
        $( #[doc = $title] pub const $name: Code = Code(&CodeInfo {
            id: stringify!($name), class: Class::$class, severity: Severity::$sev, title: $title, page: $page }); )*
        /// Every code in table order.
        pub const ALL: &[Code] = &[ $( $name ),* ];
    };
}

codes! {
    // ---- U: usage of the command line (exit 2) ----
    U0001 Input Error "bad command line" "An option or argument is not understood. The message says which.";
    U0002 Input Error "file cannot be read" "The file does not exist or cannot be opened.";
    U0003 Input Error "input tensor does not fit" "An input's name, shape or dtype is not what the kernel wants. The message lists the wanted inputs.";
    U0004 Input Error "output cannot be written" "The output folder or file cannot be made. Nothing already on disk was changed.";
    U0005 Input Error "option value out of range" "The option does not take this value. For an LNC size the rule is 1 or 2; more than two cores cannot be expressed on the machine.";

    // ---- P: reading files (exit 2) ----

    // ---- K: KLR to BIR ----

    // ---- V: verifier ----

    // ---- L: lowering and passes ----

    // ---- N: link ----

    // ---- E: encode ----

    // ---- C: static checks ----

    // ---- S: simulated faults ----

    // ---- I: faults of Tandem itself (exit 70) ----
    I0001 Internal Error "internal error" "A fault of Tandem itself. Please report it with the file that shows it.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_well_formed() {
        let mut seen = std::collections::BTreeSet::new();
        for c in ALL {
            let id = c.info().id;
            assert!(seen.insert(id), "{id} twice");
            assert_eq!(id.len(), 5, "{id}");
            assert!("UPKVLNECSI".contains(&id[..1]) && id[1..].bytes().all(|b| b.is_ascii_digit()), "{id}");
            assert!(!c.info().title.is_empty() && !c.info().page.is_empty(), "{id}");
            assert_eq!(Code::from_id(id), Some(*c));
        }
    }
}

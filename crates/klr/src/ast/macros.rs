//! The declaration macros: one declaration of a KLR type makes the Rust type, its name tables, reader and writer.

/// Declares an enumeration: `Name("klrName") = tag { index Variant("klrName"), ... }`.
macro_rules! klr_enum {
    ($(#[$m:meta])* $T:ident($klr:literal) = $tag:literal { $($ix:literal $V:ident($kv:literal)),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $T {
            $(#[doc = concat!("`", $kv, "`, constructor ", $ix, " on disk.")] $V = $ix),*
        }

        impl $T {
            /// Every constructor in the order of the declaration.
            pub const ALL: &'static [$T] = &[$($T::$V),*];

            /// The name KLR gives the constructor.
            pub const fn name(self) -> &'static str {
                match self { $($T::$V => $kv),* }
            }

            /// The 0-based constructor index on disk.
            pub const fn cbor_index(self) -> u8 {
                self as u8
            }

            /// The 1-based number upstream uses in memory (`cbor_index + 1`).
            pub const fn kind(self) -> u8 {
                self as u8 + 1
            }

            /// The constructor of that KLR name.
            pub fn from_name(name: &str) -> Option<$T> {
                match name { $($kv => Some($T::$V),)* _ => None }
            }
        }

        impl std::fmt::Display for $T {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::wire::KlrType for $T {
            const TAG: u8 = $tag;
            const NAME: &'static str = $klr;
        }

        impl $crate::wire::Wire for $T {
            fn read(r: &mut $crate::read::Reader<'_>) -> Result<Self, $crate::error::Fail> {
                let head = r.tagged($tag, $klr)?;
                match head.constructor {
                    $($ix => { r.fields(&head, $kv, 0)?; Ok($T::$V) })*
                    _ => Err(r.unknown_constructor(&head, $klr, &[$($kv),*])),
                }
            }
            fn write(&self, w: &mut $crate::write::Writer) {
                w.tagged($tag, *self as u8, 0);
            }
        }

        impl $crate::print::Show for $T {
            fn show(&self, p: &mut $crate::print::Printer) {
                p.text(self.name());
            }
        }
    };
}

/// Declares a structure: `Name("klrName") = tag { field("klrName"): Type, ... }`.
///
/// `["prop", ...]` before a field (or after `;` at the end) names proposition fields: counted, without bytes.
/// `= value` after a type marks a field the 2.24 layout lacks, with the value it then has. `check path` names a
/// method that re-checks the propositions after reading.
macro_rules! klr_struct {
    ($(#[$m:meta])* $T:ident($klr:literal) = $tag:literal $(check $chk:path)? {
        $($([$($prop:literal),*])? $(#[$fm:meta])* $f:ident($kf:literal): $ty:ty $(= $old:expr)?),* $(,)?
        $(; [$($tail:literal),*])?
    }) => {
        $(#[$m])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $T {
            $($(#[$fm])* #[doc = concat!("The KLR field `", $kf, "`.")] pub $f: $ty),*
        }

        impl $T {
            /// KLR names of the fields in order, propositions included.
            pub const FIELDS: &'static [&'static str] = &[$($($($prop,)*)? $kf,)* $($($tail),*)?];
        }

        impl $crate::wire::KlrType for $T {
            const TAG: u8 = $tag;
            const NAME: &'static str = $klr;
        }

        impl $crate::wire::Wire for $T {
            fn read(r: &mut $crate::read::Reader<'_>) -> Result<Self, $crate::error::Fail> {
                const COUNT: u8 = $T::FIELDS.len() as u8;
                const ABSENT: u8 = 0 $($(+ klr_one!($old))?)*;
                let start = r.offset();
                let old = r.open_struct($tag, $klr, COUNT, ABSENT)?;
                let this = $T {
                    $($f: { $($(r.prop($prop).map_err(|e| e.field($prop))?;)*)? klr_field!(r, old, $kf, $ty $(, $old)?) }),*
                };
                $($(r.prop($tail).map_err(|e| e.field($tail))?;)*)?
                $(if let Err(broken) = $chk(&this) { return Err(r.violation(start, broken)); })?
                let _ = (start, old);
                Ok(this)
            }
            fn write(&self, w: &mut $crate::write::Writer) {
                const COUNT: u8 = $T::FIELDS.len() as u8;
                const ABSENT: u8 = 0 $($(+ klr_one!($old))?)*;
                w.open_struct($tag, COUNT, ABSENT);
                $(klr_put!(w, self.$f, $klr, $kf $(, $old)?);)*
            }
        }
    };
}

/// Declares a structure of operator fields: a [`klr_struct!`] that is printed field by field.
macro_rules! klr_op_struct {
    ($(#[$m:meta])* $T:ident($klr:literal) = $tag:literal {
        $($f:ident($kf:literal): $ty:ty $(= $old:expr)?),* $(,)?
    }) => {
        klr_struct! { $(#[$m])* $T($klr) = $tag { $($f($kf): $ty $(= $old)?),* } }

        impl $crate::print::Show for $T {
            fn show(&self, p: &mut $crate::print::Printer) {
                $(p.field($kf); $crate::print::Show::show(&self.$f, p);)*
            }
        }
    };
}

/// Declares a sum: `Name("klrName") = tag { index Variant("klrName"): Type, ... }`, at most one argument each.
macro_rules! klr_sum {
    ($(#[$m:meta])* $T:ident($klr:literal) = $tag:literal { $($ix:literal $V:ident($kv:literal) $(: $ty:ty)?),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $T {
            $(#[doc = concat!("`", $kv, "`, constructor ", $ix, " on disk.")] $V $(($ty))?),*
        }

        impl $T {
            /// KLR names of the constructors in the order of the declaration.
            pub const NAMES: &'static [&'static str] = &[$($kv),*];

            /// The name KLR gives the constructor.
            pub const fn name(&self) -> &'static str {
                match self { $($T::$V { .. } => $kv),* }
            }

            /// The 0-based constructor index on disk.
            pub const fn cbor_index(&self) -> u8 {
                match self { $($T::$V { .. } => $ix),* }
            }

            /// The 1-based number upstream uses in memory and in messages (`cbor_index + 1`).
            pub const fn kind(&self) -> u8 {
                self.cbor_index() + 1
            }
        }

        impl $crate::wire::KlrType for $T {
            const TAG: u8 = $tag;
            const NAME: &'static str = $klr;
        }

        impl $crate::wire::Wire for $T {
            fn read(r: &mut $crate::read::Reader<'_>) -> Result<Self, $crate::error::Fail> {
                let head = r.tagged($tag, $klr)?;
                match head.constructor {
                    $($ix => {
                        r.fields(&head, $kv, 0 $(+ klr_one!($ty))?)?;
                        Ok($T::$V $((<$ty as $crate::wire::Wire>::read(r).map_err(|e| e.field($kv))?))?)
                    })*
                    _ => Err(r.unknown_constructor(&head, $klr, $T::NAMES)),
                }
            }
            fn write(&self, w: &mut $crate::write::Writer) {
                match self {
                    $(it @ $T::$V { .. } => {
                        w.tagged($tag, $ix, 0 $(+ klr_one!($ty))?);
                        let _ = it;
                        $(if let $T::$V(value) = it { <$ty as $crate::wire::Wire>::write(value, w); })?
                    })*
                }
            }
        }
    };
}

/// Declares the operator sum: a [`klr_sum!`] whose rows end in `=> Engine` (`Own`: the operator's engine field).
macro_rules! klr_operators {
    ($(#[$m:meta])* $T:ident($klr:literal) = $tag:literal { $($ix:literal $V:ident($kv:literal): $ty:ty => $E:ident),* $(,)? }) => {
        klr_sum! { $(#[$m])* $T($klr) = $tag { $($ix $V($kv): $ty),* } }

        impl $T {
            /// The engine upstream assigns for ordering inside a no-reorder block; [`Engine::Unassigned`] orders
            /// against everything.
            pub const fn engine(&self) -> Engine {
                match self { $($T::$V(op) => klr_engine!(op, $E)),* }
            }

            /// KLR names of the operator's fields in the declared order.
            pub const fn field_names(&self) -> &'static [&'static str] {
                match self { $($T::$V(_) => <$ty>::FIELDS),* }
            }

            /// Prints the fields as ` name=value`, in the declared order.
            pub(crate) fn show_fields(&self, p: &mut $crate::print::Printer) {
                match self { $($T::$V(op) => $crate::print::Show::show(op, p)),* }
            }
        }
    };
}

macro_rules! klr_engine {
    ($op:ident, Own) => {
        $op.engine
    };
    ($op:ident, $E:ident) => {{
        let _ = $op;
        Engine::$E
    }};
}

macro_rules! klr_one {
    ($($t:tt)*) => {
        1u8
    };
}

macro_rules! klr_field {
    ($r:ident, $old:ident, $kf:literal, $ty:ty) => {
        <$ty as $crate::wire::Wire>::read($r).map_err(|e| e.field($kf))?
    };
    ($r:ident, $old:ident, $kf:literal, $ty:ty, $absent:expr) => {
        if $old { $absent } else { <$ty as $crate::wire::Wire>::read($r).map_err(|e| e.field($kf))? }
    };
}

macro_rules! klr_put {
    ($w:ident, $value:expr, $klr:literal, $kf:literal) => {
        $crate::wire::Wire::write(&$value, $w)
    };
    ($w:ident, $value:expr, $klr:literal, $kf:literal, $absent:expr) => {
        if !$w.is_2_24() {
            $crate::wire::Wire::write(&$value, $w)
        } else if $value != $absent {
            $w.not_expressible(concat!($klr, ".", $kf))
        }
    };
}

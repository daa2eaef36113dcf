//! klr

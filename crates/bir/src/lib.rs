//! bir

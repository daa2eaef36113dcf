//! Conversions between element types.

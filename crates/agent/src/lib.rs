//! Placeholder.

pub mod provider;
pub mod tools;

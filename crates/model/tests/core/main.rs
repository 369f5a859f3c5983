//! The core against its rules: single rules, tables, random lives with an oracle, and the stored form.

mod answers;
mod common;
mod ledger_format;
mod policies;
mod properties;
mod questions;
mod rules;

//! What may come from outside as any bytes at all, and what must hold then. The fuzz targets in `fuzz/` call these
//! functions with what a fuzzer makes up; the ordinary tests call them with the small inputs in `fuzz/seeds`.
//!
//! Each function panics where a rule is broken: a panic in the code itself, an answer that contradicts another, an
//! output that is out of proportion to its input.

mod cursors;
mod framing;
mod transcripts;
mod votes;

pub use cursors::cursors;
pub use framing::{agent_output, client_input};
pub use transcripts::transcripts;
pub use votes::votes;

/// One target: it takes any bytes, and panics where a rule is broken.
pub type Target = fn(&[u8]);

/// Every target, by the name of its file in `fuzz/fuzz_targets`.
pub const TARGETS: &[(&str, Target)] = &[
    ("transcripts", transcripts),
    ("agent_output", agent_output),
    ("client_input", client_input),
    ("votes", votes),
    ("cursors", cursors),
];

/// Splits an input at its first newline: a header's value, and a body.
fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

/// How large an output may be for an input of so many bytes.
fn in_proportion(input: usize) -> usize {
    64 * 1024 + 64 * input
}

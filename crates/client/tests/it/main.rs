//! The client against servers on loopback.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

mod calls;
mod stream;
mod support;

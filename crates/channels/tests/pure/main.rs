//! The part of the channels that decides.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

mod bindings;
mod cards;
mod claims;
mod messages;
mod pieces;
mod sample;
mod texts;

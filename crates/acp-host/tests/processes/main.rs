//! The host with real child processes.

mod ending;
mod support;
mod talking;

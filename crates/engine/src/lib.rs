//! Sessions, their actors, and everything that happens between an agent and people.

pub mod port;

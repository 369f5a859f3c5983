//! The pure core of Holdpoint: what a question is, who may answer it, and what follows from what happened.
//!
//! Nothing here reads a clock, draws a random number or touches a socket or a file. Time and new identities
//! come in as arguments.

pub mod answers;
pub mod asked;
pub mod history;
pub mod ids;
pub mod policy;
pub mod question;
pub mod restore;
pub mod session;

//! The routes, a file for each part of the wire.

pub(crate) mod daemon;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod question;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod turn;
pub(crate) mod vote;

//! Questions in chat: how one is put to people in Slack and Discord, and how their answer finds its way back.
//!
//! This is the part that decides, without a socket, a clock or a store: what a control on a card means ([`binding`]),
//! whether what a platform sends is what was posted ([`claim`]), which question a message was meant for when it came
//! ([`receipt`]), what a text answers ([`reading`]), what people are told ([`words`]), and how all of it looks
//! ([`render`]).

pub mod binding;
pub mod channel;
pub mod claim;
pub mod place;
pub mod reading;
pub mod receipt;
pub mod render;
pub mod split;
pub mod words;

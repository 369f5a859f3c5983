//! The agent over its real framing, with a scripted model, driven as a client drives it.

#[cfg(test)]
mod harness;

#[cfg(test)]
mod calls;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod stopped;

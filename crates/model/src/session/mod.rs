//! One session: its state is a fold of events, [`decide()`] says which events follow from a command, and
//! [`evolve`](Session::evolve) is the only thing that changes it, live and after a crash alike.

mod command;
mod decide;
mod event;
mod evolve;
mod prompts;
mod rejection;
mod state;

pub use command::{Choice, Command, Context, Tail};
pub use decide::{decide, late_answer};
pub use event::{Event, UnaskedCause};
pub use evolve::Illegal;
pub use prompts::{Given, PROMPTS_KEPT};
pub use rejection::Rejection;
pub use state::*;

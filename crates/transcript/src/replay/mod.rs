//! What a client shows of a stored session: records turned into the updates that a live turn sends (`WIRE`
//! b.3, f.4), a window of them from the end, and pages of them.

mod convert;
mod window;

pub use convert::{Converter, Description, Finalise, describe, question_answers, usage_of};
pub use window::{Cut, Direction, Page, PageRequest, Replay, Window, page, window, window_as};

//! Lines that a person types at a question.

use std::io::BufRead as _;

use tokio::sync::mpsc;

/// A person answers one question at a time; the few lines more are slack for the moment in between.
const LINES: usize = 8;

/// Lines from the terminal, read only once somebody asks for one.
pub(crate) struct Input {
    lines: Option<mpsc::Receiver<String>>,
}

impl Input {
    pub(crate) fn terminal() -> Self {
        Self { lines: None }
    }

    /// The next line; `None` at the end of input. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.lines.get_or_insert_with(start).recv().await
    }

    /// Forgets what was typed before now: it was not meant for what is asked now.
    pub(crate) fn forget(&mut self) {
        // Without a terminal there is nothing to flush.
        let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
    }

    #[cfg(test)]
    pub(crate) fn from_lines(lines: mpsc::Receiver<String>) -> Self {
        Self { lines: Some(lines) }
    }
}

/// A thread of its own: a blocked read of stdin can't be cancelled, and must not hold up the end of a runtime.
fn start() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

//! Lines that a person types at a question.

use std::io::BufRead as _;

use tokio::sync::mpsc;
use tokio::time::Instant;

/// A person answers one question at a time; the few lines more are slack for the moment in between.
const LINES: usize = 8;

/// A line, and when it was read.
pub(crate) type Line = (Instant, String);

/// Lines from the terminal, read only once somebody asks for one.
pub(crate) struct Input {
    lines: Option<mpsc::Receiver<Line>>,
    /// What was read before this is forgotten.
    since: Option<Instant>,
}

impl Input {
    pub(crate) fn terminal() -> Self {
        Self { lines: None, since: None }
    }

    /// The next line; `None` at the end of input. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let (read, line) = self.lines.get_or_insert_with(start).recv().await?;
            if self.since.is_none_or(|since| read >= since) {
                return Some(line);
            }
        }
    }

    /// Forgets what was typed before now: it was not meant for what is asked now. That counts also for a line
    /// that is on its way here.
    pub(crate) fn forget(&mut self) {
        // Without a terminal there is nothing to flush.
        let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        self.since = Some(Instant::now());
    }

    #[cfg(test)]
    pub(crate) fn from_lines(lines: mpsc::Receiver<Line>) -> Self {
        Self { lines: Some(lines), since: None }
    }
}

/// A thread of its own: a blocked read of stdin can't be cancelled, and must not hold up the end of a runtime.
fn start() -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut bytes = Vec::new();
            match stdin.read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            // What is not UTF-8 keeps a mark of it, and is asked for again: it must not end the input.
            let line = String::from_utf8_lossy(text).into_owned();
            if sender.blocking_send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_was_read_for_the_question_before_is_not_taken_for_this_one() {
        let (sender, lines) = mpsc::channel(8);
        let mut input = Input::from_lines(lines);
        let early = Instant::now();
        sender.send((early, "1".to_owned())).await.unwrap();
        input.forget();
        // This one had been read before as well, and comes only now.
        sender.send((early, "2".to_owned())).await.unwrap();
        sender.send((Instant::now(), "3".to_owned())).await.unwrap();
        drop(sender);
        assert_eq!(input.next().await.as_deref(), Some("3"));
        assert_eq!(input.next().await, None);
    }
}

//! Where output goes: the agent's words, questions and documents to stdout, remarks to stderr.

use std::io::{self, IsTerminal as _, Write};

use serde_json::Value;

use crate::connect::Settings;
use crate::exit::{Exit, Failure};
use crate::render::{Paint, one_line, plain};

/// Output of one command.
pub(crate) struct Ui {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    /// One JSON document a line on stdout, and nothing else there.
    pub(crate) json: bool,
    /// Colours of stdout.
    pub(crate) paint: Paint,
    err_paint: Paint,
    /// Characters of a line.
    pub(crate) width: usize,
    /// A person can be asked: stdin and stdout are a terminal.
    pub(crate) interactive: bool,
    /// The agent's last words did not end their line.
    mid_line: bool,
    /// Why nothing can be written to stdout any more.
    broken: Option<io::Error>,
}

/// What a lost receipt does not mean.
const DONE_ALL_THE_SAME: &str =
    "what the command did is done all the same: `holdpoint inbox` and `holdpoint sessions` show it";

/// What an error of stdout comes to. A reader that has seen enough closes a pipe, and is no failure.
///
/// # Errors
/// It is another error.
pub(crate) fn unwritten(error: &io::Error, hint: Option<&str>) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    let failure = Failure::new(Exit::Error, "stdout", format!("stdout can't be written: {error}"));
    Err(match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

impl Ui {
    /// Output to the process's own streams.
    pub(crate) fn new(settings: &Settings) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let (out_tty, err_tty) = (stdout.is_terminal(), stderr.is_terminal());
        let width = match rustix::termios::tcgetwinsize(&stdout) {
            Ok(size) if out_tty && size.ws_col > 0 => usize::from(size.ws_col),
            // Not cut to a width where no terminal is.
            _ => 200,
        };
        Self {
            out: Box::new(stdout),
            err: Box::new(stderr),
            json: settings.json,
            paint: Paint::new(settings.colored(out_tty)),
            err_paint: Paint::new(settings.colored(err_tty)),
            width,
            interactive: !settings.json && out_tty && io::stdin().is_terminal(),
            mid_line: false,
            broken: None,
        }
    }

    /// Whether nothing can be written to stdout any more.
    pub(crate) fn broken(&self) -> bool {
        self.broken.is_some()
    }

    /// How the command ends if what it had to say could not be written.
    ///
    /// # Errors
    /// It could not.
    pub(crate) fn written(&self) -> Result<(), Failure> {
        self.broken.as_ref().map_or(Ok(()), |error| unwritten(error, Some(DONE_ALL_THE_SAME)))
    }

    fn write_out(&mut self, text: &str) {
        if self.broken() || text.is_empty() {
            return;
        }
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        self.broken = written.err();
    }

    /// The agent's words, as they come.
    pub(crate) fn words(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.json {
            self.line(&serde_json::json!({"type": "text", "text": text}));
            return;
        }
        let text = plain(text);
        self.write_out(&text);
        self.mid_line = !text.ends_with('\n');
    }

    /// A finished piece of text, on lines of its own.
    pub(crate) fn block(&mut self, text: &str) {
        if self.json {
            return;
        }
        self.end_line();
        self.write_out(text);
    }

    /// The mark before what the person types.
    pub(crate) fn input_mark(&mut self, text: &str) {
        self.end_line();
        self.write_out(text);
        self.mid_line = true;
    }

    /// The person ended the line of the mark, and the terminal has shown it.
    pub(crate) fn typed(&mut self) {
        self.mid_line = false;
    }

    /// Ends the line of the agent's words, if it is open.
    pub(crate) fn end_line(&mut self) {
        if self.mid_line {
            self.mid_line = false;
            self.write_out("\n");
        }
    }

    /// A line of JSON, in a stream or alone.
    pub(crate) fn line(&mut self, value: &Value) {
        if self.json {
            self.write_out(&format!("{value}\n"));
        }
    }

    /// A dim line about the turn. Scripts get theirs as JSON.
    pub(crate) fn dim(&mut self, text: &str) {
        if !self.json {
            self.remark(&self.err_paint.dim(&one_line(text, 400)));
        }
    }

    /// A remark that matters: on stderr, with --json as JSON.
    pub(crate) fn note(&mut self, text: &str) {
        if self.json {
            self.remark(&serde_json::json!({ "note": text }).to_string());
        } else {
            self.remark(&self.err_paint.yellow(&one_line(text, 1000)));
        }
    }

    fn remark(&mut self, text: &str) {
        if !self.json {
            self.end_line();
        }
        // Without a stderr there is nobody to tell.
        let _ = self.err.write_all(format!("{text}\n").as_bytes());
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// What was written to stdout and stderr, in order.
    #[derive(Clone, Default)]
    pub(crate) struct Screen(Rc<RefCell<String>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        pub(crate) fn text(&self) -> String {
            self.0.borrow().clone()
        }
    }

    pub(crate) fn ui(json: bool, interactive: bool) -> (Ui, Screen) {
        let screen = Screen::default();
        let ui = Ui {
            out: Box::new(screen.clone()),
            err: Box::new(screen.clone()),
            json,
            paint: Paint::new(false),
            err_paint: Paint::new(false),
            width: 100,
            interactive,
            mid_line: false,
            broken: None,
        };
        (ui, screen)
    }
}

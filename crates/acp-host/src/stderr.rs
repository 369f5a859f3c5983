//! What an agent prints to stderr: to our log, and its last lines kept for whoever asks why it ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncRead;

use crate::conn::Conn;
use crate::transport::{BoundedLines, Line, idle_after_exit};

/// Lines kept: a stack trace and what led to it.
const LINES: usize = 40;

/// Bytes of a line that are kept.
const LINE: usize = 1024;

/// A shorter value is too likely to be an ordinary word.
const SHORTEST_SECRET: usize = 8;

/// Names of environment variables whose values are secrets hold one of these.
const SECRET_NAMES: [&str; 8] =
    ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE"];

/// Takes secrets out of what an agent prints: the values of variables of its environment that are named like
/// secrets.
pub(crate) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// For an agent that inherits our environment and gets `extra` on top.
    pub(crate) fn new(extra: &BTreeMap<String, String>) -> Self {
        let ours = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let extra = extra.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self::of(ours.chain(extra))
    }

    fn of(vars: impl Iterator<Item = (String, String)>) -> Self {
        let mut secrets: Vec<String> = vars
            .filter(|(name, value)| {
                let name = name.to_ascii_uppercase();
                // A path says where a secret is, not what it is.
                let secret = SECRET_NAMES.iter().any(|part| name.contains(part)) && !value.starts_with('/');
                secret && value.len() >= SHORTEST_SECRET
            })
            .map(|(_, value)| value)
            .collect();
        // The longest first, so that one that holds another goes as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// The text without secrets and control characters.
    pub(crate) fn clean(&self, bytes: &[u8]) -> String {
        let mut text: String =
            String::from_utf8_lossy(bytes).chars().filter(|c| *c == '\t' || !c.is_control()).collect();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "[redacted]");
            }
        }
        text
    }

    /// The beginning of a line, in quotes: enough to recognise it, too little to flood a log.
    pub(crate) fn excerpt(&self, line: &[u8]) -> String {
        // Cut after cleaning, so that a secret is never cut in two; but clean no more than it takes.
        let text = self.clean(&line[..line.len().min(2048)]);
        let mut chars = text.chars();
        let start: String = chars.by_ref().take(120).collect();
        let more = if chars.next().is_some() || line.len() > 2048 { "…" } else { "" };
        format!("{start:?}{more}")
    }
}

/// The last lines.
#[derive(Default)]
pub(crate) struct Tail(Mutex<VecDeque<String>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines as one text.
    pub(crate) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Reads stderr until it ends.
pub(crate) async fn read(
    conn: Arc<Conn>,
    stderr: impl AsyncRead + Unpin,
    tail: Arc<Tail>,
    redactor: Arc<Redactor>,
) {
    let mut lines = BoundedLines::new(stderr, LINE);
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = idle_after_exit(&conn) => return,
        };
        let line = match line {
            Ok(Line::Whole(line)) => redactor.clean(line),
            Ok(Line::Cut(start)) => redactor.clean(start) + " …",
            Ok(Line::End) | Err(_) => return,
        };
        if line.trim().is_empty() {
            continue;
        }
        // Our own agent says there only what went wrong; a foreign one is quoted as it is.
        tracing::info!(agent = conn.name, pid = conn.pid, line, "the agent says");
        tail.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_environment_and_control_characters_are_taken_out() {
        let vars = [
            ("OPENAI_API_KEY", "sk-1234567890"),
            ("MY_TOKEN", "sk-1234567890-longer"),
            ("SHORT_KEY", "abc"),
            ("KEY_FILE", "/etc/keys/one.pem"),
            ("HOME_TOWN", "Springfield"),
        ];
        let redactor = Redactor::of(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let clean = redactor
            .clean(b"\x1b[31mkey sk-1234567890-longer and sk-1234567890 abc /etc/keys/one.pem Springfield\r");
        assert_eq!(clean, "[31mkey [redacted] and [redacted] abc /etc/keys/one.pem Springfield");
    }

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        let redactor = Redactor::of(std::iter::empty());
        assert_eq!(redactor.excerpt(b"he said \"no\"\n"), r#""he said \"no\"""#);
        let long = redactor.excerpt(&[b'x'; 100_000]);
        assert_eq!(long, format!("{:?}…", "x".repeat(120)));
    }

    #[test]
    fn the_tail_keeps_the_last_lines() {
        let tail = Tail::default();
        for n in 0..100 {
            tail.push(n.to_string());
        }
        let text = tail.text();
        assert!(text.starts_with("60\n") && text.ends_with("\n99"), "{text}");
    }
}

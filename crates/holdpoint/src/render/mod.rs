//! What people see, as pure functions from data to text.

mod advice;
mod diff;
mod lists;
mod outcome;
mod question;
mod tool;

use holdpoint_client::AnsweredBy;

pub(crate) use advice::{
    START_WITH_FLAG, answer_command, asked, next_step, parked, still_open, takes_none, unasked,
};
pub(crate) use lists::{age, inbox, sessions};
pub(crate) use outcome::{closed_because, in_history, unrecorded, whole};
#[cfg(test)]
pub(crate) use question::samples;
pub(crate) use question::{question, receipt, settled};
pub(crate) use tool::{Seen, tool_line};

/// Text from an agent, a person or a daemon, made harmless for a terminal: control characters are shown, not
/// obeyed, and so are the marks that turn the direction of writing. Line feeds and tabs stay; carriage
/// returns, which could overwrite a line, go.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '\r')
        .map(|c| match c {
            '\n' | '\t' => c,
            // The pictures of the control characters stand in the order of the characters.
            '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
            '\u{7f}' => '\u{2421}',
            '\u{80}'..='\u{9f}' => '\u{fffd}',
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                '\u{fffd}'
            }
            _ => c,
        })
        .collect()
}

/// Harmless, on one line, and at most `max` characters long.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let plain = plain(text);
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let mut short: String = line.chars().take(max.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Puts each line of a text behind the same indent.
pub(crate) fn indented(text: &str, indent: &str) -> String {
    text.lines().map(|line| format!("{indent}{line}\n")).collect()
}

/// Who answered, in a few words.
pub(crate) fn answered_by(by: &AnsweredBy) -> String {
    let who = by.name.as_deref().or(by.client_id.as_deref());
    match (who, by.surface.as_deref()) {
        (Some(who), Some(surface)) => format!("{} ({})", one_line(who, 60), one_line(surface, 20)),
        (Some(who), None) => one_line(who, 60),
        (None, Some(surface)) => format!("somebody ({})", one_line(surface, 20)),
        (None, None) => "somebody".to_owned(),
    }
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn new(on: bool) -> Self {
        Self { on }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_text_can_not_command_the_terminal() {
        for (text, want) in [
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "␛[2J␛]0;title␇"),
            ("safe\rEVIL", "safeEVIL"),
            ("a\r\nb\tc", "a\nb\tc"),
            ("\u{9b}31m\u{85}", "\u{fffd}31m\u{fffd}"),
            ("\u{202e}gpj.exe", "\u{fffd}gpj.exe"),
            ("\u{8}\u{7f}\0", "␈␡␀"),
            ("Grüße 漢字 🙂", "Grüße 漢字 🙂"),
        ] {
            assert_eq!(plain(text), want);
            assert!(!plain(text).chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\n  b\tc", 80), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("ab cdef", 4), "ab…");
    }

    #[test]
    fn colours_only_when_on() {
        assert_eq!(Paint::new(false).red("x"), "x");
        assert_eq!(Paint::new(true).red("x"), "\u{1b}[31mx\u{1b}[0m");
    }
}

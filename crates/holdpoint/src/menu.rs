//! The options that a person chooses from, and the words for them.
//!
//! What could mean two things is refused, and never resolved in silence: the person saw a number *and* a label.
//! `:2` is always the second option, and `=2` always the one that is called 2.

use holdpoint_client::OptionView;
use holdpoint_model::question::Question;

use crate::near;

/// Refuses what no answer is made of: an arrow key sends a control character and a few letters, and would
/// otherwise be somebody's own words. Tabs and line feeds are text.
pub(crate) fn readable(text: &str) -> Result<(), String> {
    let odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c == char::REPLACEMENT_CHARACTER;
    if text.contains(odd) {
        return Err(
            "control characters (an arrow key sends some), or what is not UTF-8, are no answer".to_owned()
        );
    }
    Ok(())
}

/// What can be chosen: for each option what it is called, and what choosing it comes to.
pub(crate) struct Menu<'a>(Vec<Entry<'a>>);

struct Entry<'a> {
    /// What people read.
    label: &'a str,
    /// What the answer says.
    value: &'a str,
}

impl<'a> Menu<'a> {
    pub(crate) fn of_part(question: &'a Question) -> Self {
        let entry = |label: &'a str| Entry { label, value: label };
        Self(question.options.iter().map(|option| entry(&option.label)).collect())
    }

    pub(crate) fn of_permission(options: &'a [OptionView]) -> Self {
        Self(options.iter().map(|option| Entry { label: &option.label, value: &option.option_id }).collect())
    }

    /// The one option that a word means, by `:number`, `=name`, number or name. `None`: it means none.
    pub(crate) fn pick(&self, word: &str) -> Result<Option<&'a str>, String> {
        let word = word.trim();
        if let Some(number) = word.strip_prefix(':').and_then(digits) {
            return self.by_number(number).map(Some);
        }
        if let Some(name) = word.strip_prefix('=') {
            return self.only(word, self.by_name(name.trim()));
        }
        let named = self.by_name(word);
        match digits(word) {
            None => self.only(word, named),
            Some(number) if named.is_empty() => self.by_number(number).map(Some),
            Some(number) => {
                // A name that is a number too high for the list means only one thing.
                let numbered = self.by_number(number).ok();
                match named.iter().find(|index| numbered.is_some_and(|value| self.0[**index].value != value))
                {
                    Some(other) => Err(format!(
                        "{word:?} is the number of one option and the name of another: :{number} is option {number} \
                         ({:?}), ={word} is option {} ({:?})",
                        self.0[number - 1].label,
                        other + 1,
                        self.0[*other].label,
                    )),
                    None => self.only(word, named),
                }
            }
        }
    }

    /// Why a word that means no option is most likely a slip of the keys, with what may be meant. `None`: it looks like
    /// somebody's own words.
    pub(crate) fn slip(&self, word: &str) -> Option<String> {
        let word = word.trim();
        let labels = || self.0.iter().map(|entry| entry.label);
        let begun = || {
            let word = word.to_lowercase();
            let mut begun = labels().filter(|label| label.to_lowercase().starts_with(&word));
            begun.next().filter(|_| begun.next().is_none())
        };
        if let Some(label) = near::nearest(word, labels()).or_else(begun) {
            let at = labels().position(|own| own == label).unwrap_or(0) + 1;
            return Some(format!("did you mean :{at} ({label:?})?"));
        }
        let bare = word.trim_matches(['.', ')', ':', ',', ';', '#', '(', '[', ']', '+']);
        if bare != word && digits(bare).is_some() {
            return Some(match bare.parse().ok().and_then(|number| self.by_number(number).ok()) {
                Some(label) => format!("did you mean :{bare} ({label:?})?"),
                None => format!("the options are 1 to {}.", self.0.len()),
            });
        }
        if word.chars().count() == 1 {
            return Some("that is a single letter.".to_owned());
        }
        matches!(word.to_lowercase().as_str(), "decline" | "cancel" | "quit" | "exit" | "skip" | "help")
            .then(|| "d declines, Ctrl-C leaves.".to_owned())
    }

    fn by_number(&self, number: usize) -> Result<&'a str, String> {
        let count = self.0.len();
        number.checked_sub(1).and_then(|index| self.0.get(index)).map(|entry| entry.value).ok_or_else(|| {
            match count {
                0 => "there are no options".to_owned(),
                1 => format!("there is no option {number}, only 1"),
                _ => format!("there is no option {number}, only 1 to {count}"),
            }
        })
    }

    /// The options that are called so; in other letters' case only where none is exactly.
    fn by_name(&self, name: &str) -> Vec<usize> {
        let with = |same: &dyn Fn(&str) -> bool| -> Vec<usize> {
            (0..self.0.len()).filter(|&i| same(self.0[i].label) || same(self.0[i].value)).collect()
        };
        let exactly = with(&|own| own == name);
        if exactly.is_empty() { with(&|own| own.to_lowercase() == name.to_lowercase()) } else { exactly }
    }

    fn only(&self, word: &str, found: Vec<usize>) -> Result<Option<&'a str>, String> {
        let Some(first) = found.first() else { return Ok(None) };
        match found.iter().find(|index| self.0[**index].value != self.0[*first].value) {
            None => Ok(Some(self.0[*first].value)),
            Some(other) => Err(format!(
                "{word:?} could be option {} or option {}: write :{} or :{}",
                first + 1,
                other + 1,
                first + 1,
                other + 1
            )),
        }
    }
}

/// A number in decimal digits, and nothing else.
pub(crate) fn digits(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(labels: &'static [&'static str]) -> Menu<'static> {
        Menu(labels.iter().map(|label| Entry { label, value: label }).collect())
    }

    #[test]
    fn a_word_that_means_two_options_is_refused_and_has_ways_out() {
        let swapped = menu(&["2", "1", "10"]);
        for word in ["1", "2", " 2 ", "02"] {
            let means = swapped.pick(word);
            // "02" is no label, so it is the number.
            assert_eq!(means.is_err(), word != "02", "{word}: {means:?}");
        }
        assert_eq!(
            swapped.pick("2").unwrap_err(),
            "\"2\" is the number of one option and the name of another: :2 is option 2 (\"1\"), =2 is option 1 (\"2\")"
        );
        assert_eq!(swapped.pick(":2"), Ok(Some("1")));
        assert_eq!(swapped.pick("=2"), Ok(Some("2")));
        // Neither of these can be meant otherwise.
        assert_eq!(swapped.pick("3"), Ok(Some("10")));
        assert_eq!(swapped.pick("10"), Ok(Some("10")));
        assert_eq!(menu(&["1", "2"]).pick("2"), Ok(Some("2")));
        let cases = menu(&["Red", "RED", "blue"]);
        assert_eq!(cases.pick("RED"), Ok(Some("RED")));
        assert_eq!(cases.pick("red").unwrap_err(), "\"red\" could be option 1 or option 2: write :1 or :2");
        assert_eq!(cases.pick("BLUE"), Ok(Some("blue")));
        let colons = menu(&[":2", "b"]);
        assert_eq!(colons.pick(":2"), Ok(Some("b")));
        assert_eq!(colons.pick("=:2"), Ok(Some(":2")));
    }

    #[test]
    fn numbers_are_in_the_list_or_an_error() {
        let two = menu(&["a", "b"]);
        for word in ["0", "3", ":0", ":3", "99999999999999999999"] {
            // A number beyond all counting is nobody's option.
            assert!(!matches!(two.pick(word), Ok(Some(_))), "{word}");
        }
        for word in ["", "+1", "1.", "-1", ":", "=", ":x", "c"] {
            assert_eq!(two.pick(word), Ok(None), "{word}");
        }
    }

    #[test]
    fn v6_ids_of_a_permissions_options_are_names_too() {
        let option = |id: &str, label: &str| OptionView {
            option_id: id.to_owned(),
            label: label.to_owned(),
            kind: String::new(),
        };
        let options = [option("2", "Allow"), option("1", "Refuse")];
        let menu = Menu::of_permission(&options);
        assert!(menu.pick("1").is_err());
        assert_eq!(menu.pick(":1"), Ok(Some("2")));
        assert_eq!(menu.pick("=1"), Ok(Some("1")));
        assert_eq!(menu.pick("refuse"), Ok(Some("1")));
    }

    #[test]
    fn keys_that_are_no_text_are_no_answer() {
        for text in ["\u{1b}[B", "\u{1b}[A2", "Red\u{7f}", "\u{8}", "a\0", "\u{9b}B", "\u{fffd}"] {
            assert!(readable(text).is_err(), "{text:?}");
        }
        for text in ["", "two\nlines\tand a tab", "Grüße 漢字 🙂"] {
            assert_eq!(readable(text), Ok(()), "{text:?}");
        }
    }
}

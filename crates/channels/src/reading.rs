//! What a text answers (C3): a number or a label is that option; anything else is free text.

use holdpoint_model::question::Question;
use serde_json::{Value, json};

/// What a text means as the answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// These options, by place, in the order in which they were named; one, unless several may be picked.
    Options(Vec<usize>),
    /// Another answer, as it was written.
    Free(String),
}

impl Reading {
    /// The value for the answer route: the labels of what was picked, or the text.
    pub fn value(&self, question: &Question) -> Value {
        match self {
            Self::Options(places) => match places.as_slice() {
                [only] => json!(question.options[*only].label),
                several => several.iter().map(|place| json!(question.options[*place].label)).collect(),
            },
            Self::Free(text) => json!(text),
        }
    }

    /// The same for people: what a receipt names (CR9).
    pub fn words(&self, question: &Question) -> String {
        match self {
            Self::Options(places) => {
                let labels: Vec<_> =
                    places.iter().map(|place| question.options[*place].label.as_str()).collect();
                labels.join(", ")
            }
            Self::Free(text) => text.clone(),
        }
    }
}

/// Reads a text; `None` where there is none, only blanks.
///
/// A label wins over a number: an option that is called `3` is what `3` means. A number that is no option's is free text,
/// and so is a list in which anything is not an option, or where only one may be picked.
pub fn read(text: &str, question: &Question) -> Option<Reading> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if let Some(place) = option(text, question) {
        return Some(Reading::Options(vec![place]));
    }
    if question.multi_select
        && let Some(places) = options(text, question)
    {
        return Some(Reading::Options(places));
    }
    Some(Reading::Free(text.to_owned()))
}

fn option(text: &str, question: &Question) -> Option<usize> {
    let text = text.trim();
    let wanted = folded(text);
    let labelled = question.options.iter().position(|option| folded(option.label.trim()) == wanted);
    labelled.or_else(|| {
        let number: usize = text.trim_start_matches('#').trim_end_matches(['.', ')']).parse().ok()?;
        (1..=question.options.len()).contains(&number).then(|| number - 1)
    })
}

/// Several, between commas, semicolons or lines, or between blanks where all are numbers; each counts once.
fn options(text: &str, question: &Question) -> Option<Vec<usize>> {
    let listed = |separated: Vec<&str>| {
        let mut places = Vec::new();
        for part in separated {
            let place = option(part, question)?;
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Some(places)
    };
    let by_comma: Vec<_> =
        text.split([',', ';', '\n']).map(str::trim).filter(|part| !part.is_empty()).collect();
    if by_comma.len() > 1 {
        return listed(by_comma);
    }
    let numbers: Vec<_> = text.split_whitespace().collect();
    let all_numbers = numbers.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    if all_numbers { listed(numbers) } else { None }
}

fn folded(text: &str) -> String {
    text.to_lowercase()
}

#[cfg(test)]
mod tests {
    use holdpoint_model::question::Choice;

    use super::*;

    fn question(labels: &[&str], multi_select: bool) -> Question {
        let options = labels
            .iter()
            .map(|label| Choice { label: (*label).to_owned(), description: "why".to_owned() })
            .collect();
        Question { question: "Which?".to_owned(), header: "Pick".to_owned(), options, multi_select }
    }

    #[test]
    fn c3_a_number_or_a_label_is_that_option_and_the_rest_is_free_text() {
        let one = question(&["Postgres", "SQLite", "3"], false);
        let options = |places: &[usize]| Some(Reading::Options(places.to_vec()));
        let free = |text: &str| Some(Reading::Free(text.to_owned()));
        for (text, expected) in [
            ("1", options(&[0])),
            (" 2. ", options(&[1])),
            ("#2", options(&[1])),
            ("2)", options(&[1])),
            ("sqlite", options(&[1])),
            ("SQLITE ", options(&[1])),
            ("3", options(&[2])),
            ("4", free("4")),
            ("0", free("0")),
            ("-1", free("-1")),
            ("1, 2", free("1, 2")),
            ("Postgres, SQLite", free("Postgres, SQLite")),
            ("neither, use files", free("neither, use files")),
            ("", None),
            (" \n\t", None),
        ] {
            assert_eq!(read(text, &one), expected, "{text:?}");
        }
    }

    #[test]
    fn c3_several_picks_are_a_list_of_numbers_or_labels() {
        let many = question(&["Unit tests", "Docs", "Bench"], true);
        let options = |places: &[usize]| Some(Reading::Options(places.to_vec()));
        for (text, expected) in [
            ("1,3", options(&[0, 2])),
            ("3 1", options(&[2, 0])),
            ("docs; unit tests", options(&[1, 0])),
            ("Docs\n3", options(&[1, 2])),
            ("1, 1, 1", options(&[0])),
            ("2", options(&[1])),
            ("1, 9", Some(Reading::Free("1, 9".to_owned()))),
            ("docs please", Some(Reading::Free("docs please".to_owned()))),
            (", ,", Some(Reading::Free(", ,".to_owned()))),
        ] {
            assert_eq!(read(text, &many), expected, "{text:?}");
        }
    }

    #[test]
    fn cr18_what_is_read_is_valid_for_the_stored_question() {
        use holdpoint_model::answers::Answers;
        let many = question(&["Unit tests", "Docs", "Bench"], true);
        for text in ["1,3", "docs", "anything else"] {
            let value = read(text, &many).unwrap().value(&many);
            Answers::strict(&json!({ "0": value }), std::slice::from_ref(&many)).unwrap();
        }
        assert_eq!(read("3, docs", &many).unwrap().words(&many), "Bench, Docs");
    }
}

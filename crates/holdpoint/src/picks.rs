//! From what a person types, or gives as flags, to an answer.

use std::collections::BTreeMap;

use holdpoint_client::{Answer, AnswerValue, Kind, OptionView, QuestionView};
use holdpoint_model::question::Question;

use crate::menu::{Menu, digits, readable};
use crate::near;

/// What a typed line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The answer to one part.
    Answer(AnswerValue),
    /// The person won't answer the question at all.
    Decline,
}

fn is_decline(word: &str) -> bool {
    word.eq_ignore_ascii_case("d")
}

/// The menu's own word for a decline, where `d` is something else.
fn is_sure_decline(word: &str) -> bool {
    word.strip_prefix(':').is_some_and(is_decline)
}

/// Reads a line typed at one part: `2`, `1 3`, `Red, Green`, own words, `=own words` as they are, `:2` for the
/// second option whatever the labels are, or `d`.
pub(crate) fn typed(line: &str, question: &Question) -> Result<Pick, String> {
    readable(line)?;
    let line = line.trim();
    let menu = Menu::of_part(question);
    if is_sure_decline(line) {
        return Ok(Pick::Decline);
    }
    // A number beyond the list may be meant as one.
    let number = |problem: String| match digits(line) {
        Some(_) if problem.starts_with("there ") => format!("{problem}; as your own words it is ={line}"),
        _ => problem,
    };
    match answer(line, question, &menu).map_err(number)? {
        Some(_) if is_decline(line) => {
            Err(format!("{line:?} is an option, and declines, too: ={line} is the option, :d declines"))
        }
        Some(value) => Ok(Pick::Answer(value)),
        None if is_decline(line) => Ok(Pick::Decline),
        None => match menu.slip(line) {
            Some(why) => Err(not_surely(line, &why)),
            None => Ok(Pick::Answer(AnswerValue::Text(line.to_owned()))),
        },
    }
}

/// Own words that look like a slip are sent only once they are marked as what is meant.
fn not_surely(words: &str, why: &str) -> String {
    format!("{words:?} is no option: {why} As your own words it is ={words}")
}

/// The options, or the marked own words, that a line means. `None`: it is the person's own words, or a decline.
fn answer(line: &str, question: &Question, menu: &Menu<'_>) -> Result<Option<AnswerValue>, String> {
    if line.is_empty() {
        return Err("type a number, a label or your own answer; d declines".to_owned());
    }
    if let Some(literal) = line.strip_prefix('=') {
        let literal = literal.trim();
        if literal.is_empty() {
            return Err("after = your own words are missing".to_owned());
        }
        return Ok(Some(AnswerValue::Text(literal.to_owned())));
    }
    match (menu.pick(line)?, listed(line, question, menu)) {
        (Some(_), Some(Ok(_))) => Err(format!(
            "{line:?} is one option, and a list of others: put = before it for the one, or write the list as :1, :2"
        )),
        (Some(label), _) => Ok(Some(AnswerValue::Text(label.to_owned()))),
        (None, Some(list)) => list.map(Some),
        (None, None) => Ok(None),
    }
}

/// `1 3`, `1,3`, `Red, Green`: several picks. Where several may be picked, own words may stand among labels.
fn listed(line: &str, question: &Question, menu: &Menu<'_>) -> Option<Result<AnswerValue, String>> {
    let tokens = |separator: &[char]| -> Vec<String> {
        let words = line.split(separator).map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let is_number = |word: &String| digits(word.strip_prefix(':').unwrap_or(word)).is_some();
    let words = tokens(&[',', ' ']);
    let (words, numbers) = if words.iter().all(is_number) { (words, true) } else { (tokens(&[',']), false) };
    if words.len() < 2 {
        return None;
    }
    let known: Vec<Result<Option<&str>, String>> = words.iter().map(|word| menu.pick(word)).collect();
    let is_known = |pick: &Result<Option<&str>, String>| !matches!(pick, Ok(None));
    let all_known = known.iter().all(|pick| matches!(pick, Ok(Some(_))));
    if !(numbers || all_known || (question.multi_select && known.iter().any(is_known))) {
        return None;
    }
    let mut picks: Vec<String> = Vec::new();
    for (word, pick) in words.iter().zip(known) {
        let pick = match pick {
            Err(problem) => return Some(Err(problem)),
            Ok(Some(label)) => label.to_owned(),
            Ok(None) => match word.strip_prefix('=') {
                Some(literal) => literal.trim().to_owned(),
                None => match menu.slip(word) {
                    Some(why) => return Some(Err(not_surely(word, &why))),
                    None => word.trim().to_owned(),
                },
            },
        };
        if !picks.contains(&pick) {
            picks.push(pick);
        }
    }
    Some(several(picks, question))
}

fn several(mut picks: Vec<String>, question: &Question) -> Result<AnswerValue, String> {
    match picks.len() {
        1 => Ok(AnswerValue::Text(picks.remove(0))),
        _ if question.multi_select => Ok(AnswerValue::Picks(picks)),
        _ => {
            Err("this one takes a single choice; for a longer answer of your own, put = before it".to_owned())
        }
    }
}

/// One option, by number or label; own words are an error here, so that a slip does not become an answer.
fn option(text: &str, question: &Question) -> Result<String, String> {
    readable(text)?;
    if let Some(label) = Menu::of_part(question).pick(text)? {
        return Ok(label.to_owned());
    }
    let labels: Vec<String> = question.options.iter().map(|option| format!("{:?}", option.label)).collect();
    Err(format!(
        "{:?} is no option of {:?} ({}); --text gives your own words",
        text.trim(),
        question.header,
        labels.join(", ")
    ))
}

/// One option of a permission, by number, label or id; `d` refuses.
pub(crate) fn permission(text: &str, options: &[OptionView]) -> Result<String, String> {
    readable(text)?;
    let text = text.trim();
    if is_sure_decline(text) {
        return Ok(refusal(options));
    }
    let menu = Menu::of_permission(options);
    match menu.pick(text)? {
        Some(option) if is_decline(text) && option != refusal(options) => {
            Err(format!("{text:?} is an option, and refuses, too: ={text} is the option, :d refuses"))
        }
        Some(option) => Ok(option.to_owned()),
        None if is_decline(text) => Ok(refusal(options)),
        None if options.is_empty() && !text.is_empty() => Ok(text.to_owned()),
        None => {
            let names: Vec<String> =
                options.iter().enumerate().map(|(i, option)| format!("{} {}", i + 1, option.label)).collect();
            Err(format!("{text:?} is no option; there are {}", names.join(", ")))
        }
    }
}

/// The option that refuses a permission.
pub(crate) fn refusal(options: &[OptionView]) -> String {
    options.iter().find(|option| option.kind.starts_with("reject")).map_or_else(
        || holdpoint_model::question::OPTION_CANCEL.to_owned(),
        |option| option.option_id.clone(),
    )
}

/// The answer that declines a question, or refuses a permission.
pub(crate) fn decline(view: &QuestionView) -> Answer {
    match view.kind {
        Kind::Permission => Answer::Option(refusal(&view.options)),
        Kind::UserQuestion | Kind::Other(_) => Answer::Decline,
    }
}

/// How an answer is given on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given<'a> {
    pub(crate) picks: &'a [String],
    pub(crate) text: Option<&'a str>,
    pub(crate) answers: &'a [String],
    pub(crate) decline: bool,
}

/// The answer that was given; `None` if none was. Errors are for the person who typed.
pub(crate) fn given(view: &QuestionView, given: Given<'_>) -> Result<Option<Answer>, String> {
    if given.decline {
        return Ok(Some(decline(view)));
    }
    if given.picks.is_empty() && given.text.is_none() && given.answers.is_empty() {
        return Ok(None);
    }
    if view.kind == Kind::Permission {
        return match given.picks {
            [one] if given.text.is_none() && given.answers.is_empty() => {
                permission(one, &view.options).map(|option| Some(Answer::Option(option)))
            }
            _ => Err("a permission takes one of its options, by number or label".to_owned()),
        };
    }
    let parts = &view.questions;
    let answers = if let Some(text) = given.text {
        match parts.as_slice() {
            [_] if text.trim().is_empty() => return Err("--text is empty".to_owned()),
            [_] => {
                readable(text)?;
                BTreeMap::from([(0, AnswerValue::Text(text.to_owned()))])
            }
            _ => {
                return Err(format!(
                    "this question has {} parts: give --answer PART=TEXT for each",
                    parts.len()
                ));
            }
        }
    } else if given.answers.is_empty() {
        by_picks(parts, given.picks)?
    } else {
        by_part(parts, given.answers)?
    };
    Ok(Some(Answer::Answers(answers)))
}

fn by_picks(parts: &[Question], picks: &[String]) -> Result<BTreeMap<usize, AnswerValue>, String> {
    if let [only] = parts {
        let mut labels = Vec::new();
        for pick in picks {
            let label = option(pick, only)?;
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        if labels.len() > 1 && !only.multi_select {
            return Err(format!("{:?} takes one choice, and {} were given", only.header, labels.len()));
        }
        return Ok(BTreeMap::from([(0, several(labels, only)?)]));
    }
    if picks.len() != parts.len() {
        return Err(format!(
            "this question has {} parts, and {} picks were given; --answer PART=TEXT names the part",
            parts.len(),
            picks.len()
        ));
    }
    parts
        .iter()
        .zip(picks)
        .enumerate()
        .map(|(index, (part, pick))| Ok((index, AnswerValue::Text(option(pick, part)?))))
        .collect()
}

/// A number, a label, several of them, or own words.
fn own(text: &str, part: &Question) -> Result<AnswerValue, String> {
    readable(text)?;
    let text = text.trim();
    let menu = Menu::of_part(part);
    match answer(text, part, &menu)? {
        Some(value) => Ok(value),
        // Who writes a command reads it before, so a word alone is no slip here; one that is almost a label is.
        None => match near::nearest(text, part.options.iter().map(|option| option.label.as_str())) {
            Some(label) => Err(not_surely(text, &format!("did you mean {label:?}?"))),
            None => Ok(AnswerValue::Text(text.to_owned())),
        },
    }
}

fn by_part(parts: &[Question], answers: &[String]) -> Result<BTreeMap<usize, AnswerValue>, String> {
    let mut all: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for answer in answers {
        let (index, text) = answer
            .split_once('=')
            .and_then(|(index, text)| Some((index.trim().parse::<usize>().ok()?, text)))
            .ok_or_else(|| format!("--answer {answer:?}: write it as PART=TEXT, the first part is 0"))?;
        let part = parts.get(index).ok_or_else(|| match parts {
            [only] => format!(
                "--answer {answer:?}: the question has one part only ({}), and it is called 0: --answer 0=TEXT",
                only.header
            ),
            _ => {
                let names: Vec<_> =
                    parts.iter().enumerate().map(|(index, part)| format!("{index} {}", part.header)).collect();
                format!("--answer {answer:?}: there is no part {index}; the first is 0: {}", names.join(", "))
            }
        })?;
        let texts = all.entry(index).or_default();
        // `d` is a text like any other here; the flag is what declines.
        match own(text, part).map_err(|problem| format!("--answer {answer:?}: {problem}"))? {
            AnswerValue::Text(text) => texts.push(text),
            AnswerValue::Picks(picks) => texts.extend(picks),
        }
        if texts.len() > 1 && !part.multi_select {
            return Err(format!("part {index} ({}) takes one answer, and several were given", part.header));
        }
    }
    if let Some((index, part)) = parts.iter().enumerate().find(|(index, _)| !all.contains_key(index)) {
        return Err(format!("part {index} ({}) has no answer: --answer {index}=TEXT", part.header));
    }
    all.into_iter().map(|(index, texts)| Ok((index, several(texts, &parts[index])?))).collect()
}

#[cfg(test)]
mod tests;

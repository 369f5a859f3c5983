//! From what a person types, or gives as flags, to an answer.

use std::collections::BTreeMap;

use holdpoint_client::{Answer, AnswerValue, Kind, OptionView, QuestionView};
use holdpoint_model::question::Question;

/// What a typed line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The answer to one part.
    Answer(AnswerValue),
    /// The person won't answer the question at all.
    Decline,
}

/// Reads a line typed at one part: `2`, `1 3`, `Red, Green`, own words, `=own words` as they are, or `d`.
pub(crate) fn typed(line: &str, question: &Question) -> Result<Pick, String> {
    let line = line.trim();
    if let Some(literal) = line.strip_prefix('=') {
        let literal = literal.trim();
        if literal.is_empty() {
            return Err("after = your own words are missing".to_owned());
        }
        return Ok(Pick::Answer(AnswerValue::Text(literal.to_owned())));
    }
    if line.is_empty() {
        return Err("type a number, a label or your own answer; d declines".to_owned());
    }
    if let Some(label) = label(line, question) {
        return Ok(Pick::Answer(AnswerValue::Text(label)));
    }
    if line.eq_ignore_ascii_case("d") {
        return Ok(Pick::Decline);
    }
    if let Some(numbers) = numbers(line) {
        let mut labels = Vec::new();
        for number in numbers {
            let label = by_number(number, question)?;
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        return several(labels, question).map(Pick::Answer);
    }
    // Labels between commas; where several may be picked, own words may stand among them.
    let tokens: Vec<&str> = line.split(',').map(str::trim).filter(|token| !token.is_empty()).collect();
    let known: Vec<Option<String>> = tokens.iter().map(|token| option(token, question).ok()).collect();
    let all_known = known.iter().all(Option::is_some);
    if tokens.len() > 1 && (all_known || (question.multi_select && known.iter().any(Option::is_some))) {
        let mut picks = Vec::new();
        for (token, known) in tokens.iter().zip(known) {
            let pick = known.unwrap_or_else(|| (*token).to_owned());
            if !picks.contains(&pick) {
                picks.push(pick);
            }
        }
        return several(picks, question).map(Pick::Answer);
    }
    Ok(Pick::Answer(AnswerValue::Text(line.to_owned())))
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

/// `1`, `1 3`, `1,3`: nothing but numbers.
fn numbers(line: &str) -> Option<Vec<usize>> {
    line.split([',', ' ']).filter(|token| !token.is_empty()).map(|token| token.parse().ok()).collect()
}

fn by_number(number: usize, question: &Question) -> Result<String, String> {
    let count = question.options.len();
    number
        .checked_sub(1)
        .and_then(|index| question.options.get(index))
        .map(|option| option.label.clone())
        .ok_or_else(|| format!("there is no option {number}, only 1 to {count}"))
}

fn label(text: &str, question: &Question) -> Option<String> {
    let options = &question.options;
    options
        .iter()
        .find(|option| option.label == text)
        .or_else(|| options.iter().find(|option| option.label.to_lowercase() == text.to_lowercase()))
        .map(|option| option.label.clone())
}

/// One option, by number or label; own words are an error here, so that a slip does not become an answer.
fn option(text: &str, question: &Question) -> Result<String, String> {
    let text = text.trim();
    if let Some(label) = label(text, question) {
        return Ok(label);
    }
    if let Ok(number) = text.parse::<usize>() {
        return by_number(number, question);
    }
    let labels: Vec<String> = question.options.iter().map(|option| format!("{:?}", option.label)).collect();
    Err(format!(
        "{text:?} is no option of {:?} ({}); --text gives your own words",
        question.header,
        labels.join(", ")
    ))
}

/// One option of a permission, by number, label or id; `d` refuses.
pub(crate) fn permission(text: &str, options: &[OptionView]) -> Result<String, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("d") {
        return Ok(refusal(options));
    }
    if let Some(option) = options
        .iter()
        .find(|option| option.option_id == text || option.label.to_lowercase() == text.to_lowercase())
    {
        return Ok(option.option_id.clone());
    }
    let by_number = text.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    match by_number {
        Some(option) => Ok(option.option_id.clone()),
        None if options.is_empty() => Ok(text.to_owned()),
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
            [_] => BTreeMap::from([(0, AnswerValue::Text(text.to_owned()))]),
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

fn by_part(parts: &[Question], answers: &[String]) -> Result<BTreeMap<usize, AnswerValue>, String> {
    let mut all: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for answer in answers {
        let (index, text) = answer
            .split_once('=')
            .and_then(|(index, text)| Some((index.trim().parse::<usize>().ok()?, text)))
            .ok_or_else(|| format!("--answer {answer:?}: write it as PART=TEXT, the first part is 0"))?;
        let part = parts.get(index).ok_or_else(|| {
            format!("--answer {answer:?}: the parts are 0 to {}", parts.len().saturating_sub(1))
        })?;
        let texts = all.entry(index).or_default();
        match typed(text, part).map_err(|problem| format!("--answer {answer:?}: {problem}"))? {
            Pick::Answer(AnswerValue::Text(text)) => texts.push(text),
            Pick::Answer(AnswerValue::Picks(picks)) => texts.extend(picks),
            // As an answer it is a text like any other; the flag is what declines.
            Pick::Decline => texts.push(text.trim().to_owned()),
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
mod tests {
    use super::*;
    use crate::render::samples::{colour, two_parts, write_file};

    fn text(text: &str) -> Pick {
        Pick::Answer(AnswerValue::Text(text.to_owned()))
    }

    fn picks(picks: &[&str]) -> Pick {
        Pick::Answer(AnswerValue::Picks(picks.iter().map(|pick| (*pick).to_owned()).collect()))
    }

    #[test]
    fn q6_a_single_choice_as_people_type_it() {
        let view = colour(false);
        let part = &view.questions[0];
        for (line, want) in [
            ("1", text("Red")),
            (" 2 ", text("Pale blue")),
            ("pale BLUE", text("Pale blue")),
            ("d", Pick::Decline),
            ("D", Pick::Decline),
            ("=d", text("d")),
            ("= 2", text("2")),
            ("neither, use grey", text("neither, use grey")),
            ("Red, but darker", text("Red, but darker")),
            ("1,1", text("Red")),
        ] {
            assert_eq!(typed(line, part).as_ref(), Ok(&want), "{line}");
        }
        for line in ["", "  ", "3", "0", "1 2", "1,2", "Red, Pale blue", "="] {
            assert!(typed(line, part).is_err(), "{line}");
        }
    }

    #[test]
    fn q6_a_multiple_choice_as_people_type_it() {
        let view = colour(true);
        let part = &view.questions[0];
        for (line, want) in [
            ("1 2", picks(&["Red", "Pale blue"])),
            ("2,1", picks(&["Pale blue", "Red"])),
            ("red, pale blue", picks(&["Red", "Pale blue"])),
            ("1, and something green", picks(&["Red", "and something green"])),
            ("only green, please", text("only green, please")),
            ("1", text("Red")),
            ("1 1", text("Red")),
        ] {
            assert_eq!(typed(line, part).as_ref(), Ok(&want), "{line}");
        }
        assert!(typed("1 7", part).is_err());
    }

    fn answer(
        view: &QuestionView,
        picks: &[&str],
        answers: &[&str],
        words: Option<&str>,
    ) -> Result<Option<Answer>, String> {
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (picks, answers) = (own(picks), own(answers));
        given(view, Given { picks: &picks, text: words, answers: &answers, decline: false })
    }

    #[test]
    fn flags_of_a_question_with_one_part() {
        let (single, multi) = (colour(false), colour(true));
        let one =
            |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
        assert_eq!(answer(&single, &[], &[], None), Ok(None));
        assert_eq!(answer(&single, &["2"], &[], None), one("Pale blue"));
        assert_eq!(answer(&single, &["red"], &[], None), one("Red"));
        assert_eq!(answer(&single, &[], &[], Some("2")), one("2"));
        assert_eq!(answer(&single, &[], &["0=2"], None), one("Pale blue"));
        assert_eq!(answer(&single, &[], &["0==2"], None), one("2"));
        assert_eq!(answer(&single, &[], &["0=a=b"], None), one("a=b"));
        assert_eq!(
            answer(&multi, &["1", "Pale blue"], &[], None),
            Ok(Some(Answer::Answers(BTreeMap::from([(
                0,
                AnswerValue::Picks(vec!["Red".into(), "Pale blue".into()])
            )]))))
        );
        for (picks, answers, words) in [
            (vec!["1", "2"], vec![], None),
            (vec!["redd"], vec![], None),
            (vec!["5"], vec![], None),
            (vec![], vec![], Some("  ")),
            (vec![], vec!["1=x"], None),
            (vec![], vec!["x"], None),
            (vec![], vec!["0="], None),
            (vec![], vec!["0=1", "0=2"], None),
        ] {
            assert!(answer(&single, &picks, &answers, words).is_err(), "{picks:?} {answers:?} {words:?}");
        }
    }

    #[test]
    fn flags_of_a_question_with_several_parts() {
        let view = two_parts();
        let want = Ok(Some(Answer::Answers(BTreeMap::from([
            (0, AnswerValue::Text("Red".into())),
            (1, AnswerValue::Text("Large".into())),
        ]))));
        assert_eq!(answer(&view, &["1", "large"], &[], None), want);
        assert_eq!(answer(&view, &[], &["1=2", "0=1"], None), want);
        let several = answer(&view, &[], &["0=1", "0=green", "1=huge"], None);
        assert_eq!(
            several,
            Ok(Some(Answer::Answers(BTreeMap::from([
                (0, AnswerValue::Picks(vec!["Red".into(), "green".into()])),
                (1, AnswerValue::Text("huge".into())),
            ]))))
        );
        assert!(answer(&view, &["1"], &[], None).is_err());
        assert!(answer(&view, &[], &["0=1"], None).unwrap_err().contains("part 1 (Size)"));
        assert!(answer(&view, &[], &[], Some("x")).is_err());
    }

    #[test]
    fn v6_a_permission_is_answered_by_one_of_its_options() {
        let view = write_file();
        let option = |text: &str| Ok(Some(Answer::Option(text.to_owned())));
        assert_eq!(answer(&view, &["1"], &[], None), option("proceed_once"));
        assert_eq!(answer(&view, &["always allow"], &[], None), option("proceed_always"));
        assert_eq!(answer(&view, &["cancel"], &[], None), option("cancel"));
        assert_eq!(permission("d", &view.options), Ok("cancel".into()));
        assert_eq!(decline(&view), Answer::Option("cancel".into()));
        assert!(answer(&view, &["4"], &[], None).is_err());
        assert!(answer(&view, &["1", "2"], &[], None).is_err());
        assert!(answer(&view, &[], &[], Some("yes")).is_err());
    }
}

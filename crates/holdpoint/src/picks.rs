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
            (":2", text("Pale blue")),
            (":d", Pick::Decline),
            ("=+1", text("+1")),
            ("=yse", text("yse")),
            ("=decline", text("decline")),
            ("50%", text("50%")),
            ("a red one", text("a red one")),
        ] {
            assert_eq!(typed(line, part).as_ref(), Ok(&want), "{line}");
        }
        for line in [
            "",
            "  ",
            "3",
            "0",
            "1 2",
            "1,2",
            "Red, Pale blue",
            "=",
            ":3",
            "\u{1b}[B",
            "1\u{1b}[A",
            "\u{fffd}",
            "+1",
        ] {
            assert!(typed(line, part).is_err(), "{line}");
        }
    }

    #[test]
    fn q6_what_looks_like_a_slip_is_sent_only_once_it_is_marked_as_own_words() {
        let yes_or_no = labelled(&["yes", "no", "ask me later"], false);
        let part = &yes_or_no.questions[0];
        for (line, why) in [
            ("yse", "did you mean :1 (\"yes\")?"),
            ("yess", "did you mean :1"),
            ("on", "did you mean :2"),
            ("ask", "did you mean :3"),
            ("3.", "did you mean :3"),
            ("#2", "did you mean :2"),
            ("7)", "the options are 1 to 3"),
            ("x", "single letter"),
            ("?", "single letter"),
            ("Decline", "d declines"),
            ("help", "Ctrl-C leaves"),
        ] {
            let problem = typed(line, part).unwrap_err();
            assert!(problem.contains(why), "{line}: {problem}");
            assert!(problem.ends_with(&format!(" ={line}")), "the way out is exact: {problem}");
            assert_eq!(typed(&format!("={line}"), part), Ok(text(line)));
        }
        assert!(typed("4", part).unwrap_err().ends_with("only 1 to 3; as your own words it is =4"));
        assert_eq!(typed("=4", part), Ok(text("4")));
        let colours = colour(true);
        assert!(typed("1, pale bleu", &colours.questions[0]).unwrap_err().contains("did you mean :2"));
        assert_eq!(typed("1, =pale bleu", &colours.questions[0]), Ok(picks(&["Red", "pale bleu"])));
        // A command: what is almost a label is refused there too.
        assert!(answer(&yes_or_no, &[], &["0=yse"], None).is_err());
        let one =
            |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
        assert_eq!(answer(&yes_or_no, &[], &["0==yse"], None), one("yse"));
        assert_eq!(answer(&yes_or_no, &[], &["0=x"], None), one("x"));
        assert_eq!(answer(&yes_or_no, &[], &[], Some("yse")), one("yse"));
    }

    #[test]
    fn a_part_that_is_not_there_is_said_in_the_names_of_those_that_are() {
        insta::assert_snapshot!(answer(&colour(false), &[], &["1=foo"], None).unwrap_err(), @r#"--answer "1=foo": the question has one part only (Colour), and it is called 0: --answer 0=TEXT"#);
        insta::assert_snapshot!(answer(&two_parts(), &[], &["2=foo"], None).unwrap_err(), @r#"--answer "2=foo": there is no part 2; the first is 0: 0 Colour, 1 Size"#);
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
        for line in ["1 7", "red, 7", "\u{1b}[B, 1", "1, \u{1b}[B"] {
            assert!(typed(line, part).is_err(), "{line:?}");
        }
    }

    /// A part whose labels are these.
    fn labelled(labels: &[&str], multi: bool) -> QuestionView {
        let mut view = colour(multi);
        let choice = |label: &&str| holdpoint_model::question::Choice {
            label: (*label).to_owned(),
            description: "…".into(),
        };
        view.questions[0].options = labels.iter().map(choice).collect();
        view
    }

    #[test]
    fn q6_what_could_mean_two_options_is_refused_wherever_it_is_given() {
        let swapped = labelled(&["2", "1"], false);
        let part = &swapped.questions[0];
        assert!(typed("2", part).unwrap_err().contains(":2 is option 2"));
        assert_eq!(typed(":2", part), Ok(text("1")));
        assert_eq!(typed("=2", part), Ok(text("2")));
        let one =
            |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
        assert!(answer(&swapped, &["2"], &[], None).is_err());
        assert!(answer(&swapped, &[], &["0=2"], None).is_err());
        assert_eq!(answer(&swapped, &[":2"], &[], None), one("1"));
        assert_eq!(answer(&swapped, &["=2"], &[], None), one("2"));
        assert_eq!(answer(&swapped, &[], &["0=:2"], None), one("1"));
        assert_eq!(answer(&swapped, &[], &["0==2"], None), one("2"));
        assert_eq!(answer(&swapped, &[], &[], Some("2")), one("2"));

        let swapped = labelled(&["2", "1", "3"], true);
        let part = &swapped.questions[0];
        assert!(typed("2 3", part).is_err());
        assert_eq!(typed(":2 3", part), Ok(picks(&["1", "3"])));
        assert_eq!(typed("=2, 3", part), Ok(text("2, 3")), "all of it is own words");
        assert_eq!(typed("3, =2", part), Ok(picks(&["3", "2"])));

        let lists = labelled(&["1, 2", "Red", "Red, blue", "Blue"], true);
        let part = &lists.questions[0];
        assert!(typed("1, 2", part).is_err());
        assert!(typed("Red, blue", part).is_err());
        assert_eq!(typed("=1, 2", part), Ok(text("1, 2")));
        assert_eq!(typed(":1, :2", part), Ok(picks(&["1, 2", "Red"])));
        // Of one that takes a single choice it can only be the label.
        assert_eq!(typed("1, 2", &labelled(&["1, 2", "3"], false).questions[0]), Ok(text("1, 2")));
    }

    #[test]
    fn q7_an_option_called_d_is_not_confused_with_a_decline() {
        let view = labelled(&["D", "E"], false);
        let part = &view.questions[0];
        assert!(typed("d", part).unwrap_err().contains(":d declines"));
        assert_eq!(typed(":d", part), Ok(Pick::Decline));
        assert_eq!(typed("=D", part), Ok(text("D")));
        assert_eq!(typed("1", part), Ok(text("D")));
        let one =
            |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
        // On the command line a flag declines.
        assert_eq!(answer(&view, &["d"], &[], None), one("D"));
        assert_eq!(answer(&colour(false), &[], &["0=d"], None), one("d"));
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
            (vec![], vec![], Some("a\u{1b}[B")),
            (vec![], vec!["0=\u{1b}[B"], None),
            (vec!["\u{1b}[B"], vec![], None),
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
        assert_eq!(permission(":d", &view.options), Ok("cancel".into()));
        assert_eq!(permission(":1", &view.options), Ok("proceed_once".into()));
        for text in ["", "\u{1b}[B", "1\u{1b}[A", "0", "4", ":4", "yes"] {
            assert!(permission(text, &view.options).is_err(), "{text:?}");
        }
        assert_eq!(decline(&view), Answer::Option("cancel".into()));
        assert!(answer(&view, &["4"], &[], None).is_err());
        assert!(answer(&view, &["1", "2"], &[], None).is_err());
        assert!(answer(&view, &[], &[], Some("yes")).is_err());
    }
}

//! What people type and give as flags, and the answers that it comes to.

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
    let one = |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
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
    let one = |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
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
    let one = |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
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
    let one = |text: &str| Ok(Some(Answer::Answers(BTreeMap::from([(0, AnswerValue::Text(text.into()))]))));
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

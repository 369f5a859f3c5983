//! Long replies in pieces.

use holdpoint_channels::split::{fit, length, split};
use proptest::prelude::*;

const FENCE: &str = "```";

fn fences(piece: &str) -> usize {
    piece.lines().filter(|line| line.trim_start().starts_with(FENCE)).count()
}

/// What was written, without blanks and fences: cutting may move those.
fn said(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(FENCE));
    lines.flat_map(|line| line.chars().filter(|c| !c.is_whitespace())).collect()
}

fn texts() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[a-z ]{0,60}",
        1 => "[a-zäöü😀 ]{60,300}",
        1 => Just(String::new()),
    ];
    let code = ("[a-z]{0,6}", prop::collection::vec("[a-z {}();]{0,90}", 0..12));
    let block = prop_oneof![
        3 => line,
        1 => code.prop_map(|(language, lines)| format!("{FENCE}{language}\n{}\n{FENCE}", lines.join("\n"))),
    ];
    prop::collection::vec(block, 0..12).prop_map(|blocks| blocks.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn pieces_fit_are_never_empty_and_lose_nothing(text in texts(), limit in 64..400_usize) {
        let pieces = split(&text, limit);
        for piece in &pieces {
            prop_assert!(length(piece) <= limit, "{} of {limit}:\n{piece}", length(piece));
            prop_assert!(!piece.trim().is_empty());
            prop_assert!(fences(piece).is_multiple_of(2), "a code block is open at the end:\n{piece}");
        }
        prop_assert_eq!(said(&pieces.join("\n")), said(&text));
    }

    #[test]
    fn a_shortened_text_fits_and_begins_as_the_whole(text in ".{0,80}", limit in 1..60_usize) {
        let short = fit(&text, limit);
        prop_assert!(length(&short) <= limit);
        match short.strip_suffix('…') {
            Some(kept) if short != text => prop_assert!(text.starts_with(kept)),
            _ => prop_assert_eq!(short, text),
        }
    }
}

#[test]
fn a_code_block_that_fits_is_not_cut() {
    let code = format!("{FENCE}rust\nfn main() {{}}\nfn other() {{}}\n{FENCE}");
    let text = format!("{}\n{code}\nand then", "word ".repeat(12));
    let pieces = split(&text, 80);
    assert!(pieces.iter().any(|piece| piece.contains(&code)), "{pieces:#?}");
}

#[test]
fn a_code_block_that_must_be_cut_goes_on_in_its_language() {
    let lines: Vec<_> = (0..30).map(|n| format!("let line_{n} = {n};")).collect();
    let text = format!("{FENCE}rust\n{}\n{FENCE}", lines.join("\n"));
    let pieces = split(&text, 120);
    assert!(pieces.len() > 3);
    for piece in &pieces {
        assert!(piece.starts_with("```rust\n") && piece.ends_with(FENCE), "{piece}");
    }
}

#[test]
fn a_short_text_stays_as_it_is() {
    assert_eq!(split("Done.", 2000), ["Done."]);
    assert_eq!(split("one\n\ntwo", 2000), ["one\n\ntwo"]);
    assert!(split(" \n", 2000).is_empty());
}

//! Which rules have tests: a test that pins a rule carries its id at the start of its name, `r18_…`, in Rust and in the
//! tests of the page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The letters of the parts of the rules.
const PARTS: [&str; 9] = ["q", "e", "s", "r", "v", "d", "h", "c", "i"];

/// The tests of each rule that has any, by the rule's id (`R18`).
pub fn tests_by_rule(root: &Path) -> BTreeMap<String, Vec<String>> {
    tests_by_rule_under(root, &[""])
}

/// The same, of the tests under these directories only.
fn tests_by_rule_under(root: &Path, directories: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in crate::files(root, &[".rs", ".mjs"]) {
        if !directories.iter().any(|directory| path.starts_with(root.join(directory))) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        for name in text.lines().filter_map(if is_rust { function } else { named_test }) {
            for rule in ids(name) {
                found.entry(rule).or_default().push(name.to_owned());
            }
        }
    }
    found
}

/// The name of a test of Node.js.
fn named_test(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("test(").or_else(|| line.strip_prefix("check("))?;
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    rest[1..].split(quote).next()
}

fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?;
    rest.split(['(', '<']).next()
}

/// The rule ids at the start of a test's name: `r16_r17_vote…` has two, and so has `r16 r17 a vote…`.
fn ids(name: &str) -> Vec<String> {
    name.split(['_', ' ']).map_while(id).collect()
}

fn id(word: &str) -> Option<String> {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let has_number = letters.len() < word.len();
    (has_number && (PARTS.contains(&letters) || letters == "cr")).then(|| word.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_the_start_of_a_name() {
        assert_eq!(ids("r16_r17_a_vote_of_1"), ["R16", "R17"]);
        assert_eq!(ids("cr3_compare"), ["CR3"]);
        assert_eq!(ids("r1 r7 a restart"), ["R1", "R7"]);
        assert!(ids("retries_5_times").is_empty());
    }

    #[test]
    fn the_name_of_a_test_of_the_page_is_its_first_argument() {
        assert_eq!(named_test("test('h3_h8_a_timer', async () => {"), Some("h3_h8_a_timer"));
        assert_eq!(named_test("contest('h3_x')"), None);
    }

    /// The rules of restore, votes, the ledger and the page, and the invariants that they rest on: none may be without
    /// a test.
    #[test]
    fn the_rules_have_tests() {
        let found = tests_by_rule(&crate::root());
        let parts = [("Q", 8), ("E", 8), ("S", 3), ("R", 23), ("V", 6), ("D", 6), ("H", 14)];
        let rules = parts.iter().flat_map(|(part, last)| (1..=*last).map(move |n| format!("{part}{n}")));
        let invariants = ["I1", "I2", "I3", "I4", "I6", "I7", "I8", "I10", "I11", "I12"].map(str::to_owned);
        let wanted: Vec<String> = rules.chain(invariants).collect();
        let missing: Vec<_> = wanted.iter().filter(|rule| !found.contains_key(*rule)).collect();
        assert!(missing.is_empty(), "no test carries {missing:?}");
    }
    /// What is about processes, their deaths and what they say to each other is shown with processes: a rule of these
    /// that has only tests inside one process has none.
    #[test]
    fn the_rules_of_processes_have_tests_with_processes() {
        let with_processes = ["crates/holdpoint/tests/e2e", "tests/sdk", "tests/conformance"];
        let found = tests_by_rule_under(&crate::root(), &with_processes);
        let listed = "Q3 Q4 Q5 Q8 E8 S1 S2 S3 V1 V2 V3 V5 V6 D1 D3 D4 D5 D6 I1 I4 I11 I12";
        let restoring = (1..=23).map(|n| format!("R{n}"));
        let wanted: Vec<String> = listed.split(' ').map(str::to_owned).chain(restoring).collect();
        let missing: Vec<_> = wanted.iter().filter(|rule| !found.contains_key(*rule)).collect();
        assert!(missing.is_empty(), "no test with processes carries {missing:?}");
    }
}

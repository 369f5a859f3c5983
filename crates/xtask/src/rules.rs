//! Which rules have tests: a test that pins a rule carries its id at the start of its name, `r18_…`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The letters of the parts of the rules.
const PARTS: [&str; 9] = ["q", "e", "s", "r", "v", "d", "h", "c", "i"];

/// The tests of each rule that has any, by the rule's id (`R18`).
pub fn tests_by_rule(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in crate::files(root, &[".rs"]) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for name in text.lines().filter_map(function) {
            for rule in ids(name) {
                found.entry(rule).or_default().push(name.to_owned());
            }
        }
    }
    found
}

fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?;
    rest.split(['(', '<']).next()
}

/// The rule ids at the start of a test's name: `r16_r17_vote…` has two.
fn ids(name: &str) -> Vec<String> {
    name.split('_').map_while(id).collect()
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
        assert!(ids("retries_5_times").is_empty());
    }

    /// The rules of restore, votes and the ledger, and the invariants that they rest on: none may be without a
    /// test.
    #[test]
    fn the_rules_of_the_main_job_have_tests() {
        let found = tests_by_rule(&crate::root());
        let parts = [("Q", 8), ("E", 8), ("S", 3), ("R", 23), ("V", 6), ("D", 6)];
        let rules = parts.iter().flat_map(|(part, last)| (1..=*last).map(move |n| format!("{part}{n}")));
        let invariants = ["I1", "I2", "I3", "I4", "I6", "I7", "I8", "I10", "I11", "I12"].map(str::to_owned);
        let wanted: Vec<String> = rules.chain(invariants).collect();
        let missing: Vec<_> = wanted.iter().filter(|rule| !found.contains_key(*rule)).collect();
        assert!(missing.is_empty(), "no test carries {missing:?}");
    }
}

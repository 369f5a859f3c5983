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

    /// The main job's rules: none may be without a test.
    #[test]
    fn the_rules_of_the_main_job_have_tests() {
        let found = tests_by_rule(&crate::root());
        let wanted = [
            "Q1", "Q2", "Q3", "Q4", "Q6", "Q7", "Q8", "E1", "E2", "E3", "E4", "E5", "E6", "E8", "S1", "S3",
            "R1", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R15", "R16", "R17",
            "R18", "R20", "R21", "D2", "D3", "I1", "I2", "I3", "I4", "I6", "I7", "I10", "I11", "I12",
        ];
        let missing: Vec<_> = wanted.iter().filter(|rule| !found.contains_key(**rule)).collect();
        assert!(missing.is_empty(), "no test carries {missing:?}");
    }
}

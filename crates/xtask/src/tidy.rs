//! What lints cannot say.

use std::fs;
use std::path::Path;

/// Past this a file has a second idea in it.
const MAX_LINES: usize = 750;

/// Checks the tree; one line for each problem, with its place.
pub fn check(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for path in crate::files(root, &[".rs"]) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let lines = text.lines().count();
        if lines > MAX_LINES {
            problems.push(format!("{place}: {lines} lines; past {MAX_LINES} look for the second idea"));
        }
        if !place.contains("/tests/") && !text.trim_start().starts_with("//!") && has_idea(&place) {
            problems.push(format!("{place}: say at the top what the file is about (`//!`)"));
        }
        if text.contains("unbounded_channel(") && !place.contains("xtask") {
            problems.push(format!("{place}: an unbounded queue"));
        }
    }
    problems.extend(machine_paths(root));
    problems.extend(boundaries(root));
    problems
}

fn has_idea(place: &str) -> bool {
    place.starts_with("crates/")
}

/// Paths of somebody's machine say nothing to anybody else.
fn machine_paths(root: &Path) -> Vec<String> {
    // Put together here, so that this file does not name them itself.
    let homes = [["/ro", "ot/"].concat(), ["/wo", "rk/"].concat()];
    let mut problems = Vec::new();
    for path in crate::files(root, &[".rs", ".md", ".toml", ".mjs", ".py", ".sh", ".snap", "run", "test"]) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (i, line) in text.lines().enumerate() {
            if homes.iter().any(|home| line.contains(home.as_str())) {
                let place = path.strip_prefix(root).unwrap_or(&path).display();
                problems.push(format!("{place}:{}: a path of one machine", i + 1));
            }
        }
    }
    problems
}

/// What a crate may not know (`ARCHITECTURE`, "Crates"), by what its manifest names.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("model", &["tokio", "rusqlite", "axum", "reqwest", "rand", "jiff", "agent-client-protocol"]),
    ("transcript", &["tokio", "rusqlite", "axum", "holdpoint-ledger"]),
    ("ledger", &["axum", "reqwest", "holdpoint-engine", "agent-client-protocol"]),
    ("agent", &["rusqlite", "axum", "holdpoint-ledger", "holdpoint-engine", "holdpoint-server"]),
    ("acp-host", &["axum", "rusqlite"]),
    ("engine", &["axum", "rusqlite", "agent-client-protocol", "reqwest"]),
    ("server", &["rusqlite", "agent-client-protocol"]),
    ("client", &["holdpoint-engine", "holdpoint-ledger"]),
];

fn boundaries(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, forbidden) in FORBIDDEN {
        let path = root.join("crates").join(name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else {
            problems.push(format!("crates/{name}: no Cargo.toml"));
            continue;
        };
        let dependencies = section(&text, "[dependencies]");
        for line in dependencies {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if forbidden.contains(&dependency) {
                problems.push(format!("crates/{name}: may not depend on {dependency}"));
            }
        }
    }
    problems
}

fn section<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    text.lines()
        .skip_while(|line| line.trim() != head)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let problems = super::check(&crate::root());
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}

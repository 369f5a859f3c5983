//! Checks of the source that the compiler and its lints cannot say.

pub mod rules;
pub mod tidy;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the project.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Every file below `dir` whose name ends so, but for what tools made.
pub fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(dir, endings, &mut found);
    found.sort();
    found
}

fn collect(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !(name.starts_with("target") || name == "node_modules" || name == ".git") {
                collect(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

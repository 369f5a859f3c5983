//! What a path really means: symbolic links followed as far as anything exists, so that a link cannot lead out
//! of the workspace unseen.

use std::collections::VecDeque;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use super::ToolError;

/// Links followed before a path is taken for a loop.
const LINKS_MAX: usize = 40;
/// Names offered when a path does not exist.
const NEAR_MAX: usize = 3;
/// Directory entries looked at to find them.
const NEAR_SCAN: usize = 2000;

/// A path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// As the model gave it, made absolute: what is asked again when the call runs.
    pub(crate) given: Utf8PathBuf,
    /// Where it leads.
    pub(crate) real: Utf8PathBuf,
    /// Whether that is outside the workspace.
    pub(crate) outside: bool,
}

impl Place {
    /// Resolves `text` against `workspace`, which must be resolved itself.
    pub(crate) fn resolve(workspace: &Utf8Path, text: &str) -> Result<Self, ToolError> {
        let given = workspace.join(text.trim());
        let fail =
            |problem: &str| ToolError::Io { action: "use", path: given.clone(), problem: problem.to_owned() };
        if text.contains('\0') {
            return Err(fail("the path holds a NUL character"));
        }
        if text.trim_start().starts_with("~/") || text.trim() == "~" {
            return Err(fail(
                "\"~\" is not expanded here; give an absolute path or one relative to the workspace",
            ));
        }
        let real = follow(&given).map_err(|problem| fail(&problem))?;
        let outside = !real.starts_with(workspace);
        Ok(Self { given, real, outside })
    }

    /// Whether it still leads where it led.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        match follow(&self.given) {
            Ok(real) if real == self.real => Ok(()),
            _ => Err(ToolError::Moved { path: self.given.clone() }),
        }
    }

    /// The path as people and models read it: relative inside the workspace.
    pub(crate) fn shown(&self, workspace: &Utf8Path) -> String {
        match self.real.strip_prefix(workspace) {
            Ok(inner) if inner.as_str().is_empty() => ".".to_owned(),
            Ok(inner) => inner.to_string(),
            Err(_) => self.real.to_string(),
        }
    }
}

/// Follows every link of an absolute path. What does not exist is taken as written; a link to nothing is
/// followed too, since a write through it would create its target.
fn follow(path: &Utf8Path) -> Result<Utf8PathBuf, String> {
    let mut todo: VecDeque<String> = path.components().map(|part| part.as_str().to_owned()).collect();
    let mut real = Utf8PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        match Utf8Path::new(&part).components().next() {
            None | Some(Utf8Component::CurDir | Utf8Component::Prefix(_)) => {}
            Some(Utf8Component::RootDir) => real = Utf8PathBuf::from("/"),
            Some(Utf8Component::ParentDir) => {
                real.pop();
            }
            Some(Utf8Component::Normal(name)) => {
                let next = real.join(name);
                let is_link = next.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
                if !is_link {
                    real = next;
                    continue;
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err("too many symbolic links follow one another".to_owned());
                }
                let target = next.read_link_utf8().map_err(|error| error.to_string())?;
                for part in target.components().rev() {
                    todo.push_front(part.as_str().to_owned());
                }
            }
        }
    }
    Ok(real)
}

/// The error for a path with nothing there, with names that look alike.
pub(crate) fn not_found(path: &Utf8Path) -> ToolError {
    let wanted = path.file_name().unwrap_or("").to_lowercase();
    let mut near: Vec<(usize, String)> = Vec::new();
    if let Some(entries) = path.parent().and_then(|parent| parent.read_dir_utf8().ok()) {
        for entry in entries.flatten().take(NEAR_SCAN) {
            let name = entry.file_name();
            let distance = distance(&wanted, &name.to_lowercase());
            if distance <= wanted.chars().count().max(3) / 3 {
                near.push((distance, name.to_owned()));
            }
        }
    }
    near.sort();
    near.truncate(NEAR_MAX);
    ToolError::NotFound { path: path.to_owned(), near: near.into_iter().map(|(_, name)| name).collect() }
}

/// How many letters must change to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(256).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(256).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_dots_cannot_hide_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::try_from(dir.path().canonicalize().unwrap()).unwrap();
        let workspace = root.join("ws");
        std::fs::create_dir_all(workspace.join("sub")).unwrap();
        std::fs::create_dir_all(root.join("out/deep")).unwrap();
        symlink(root.join("out/deep"), workspace.join("link")).unwrap();
        symlink("../out/new", workspace.join("dangling")).unwrap();
        symlink("loop", workspace.join("loop")).unwrap();
        symlink("sub", workspace.join("fine")).unwrap();
        let resolve = |text: &str| Place::resolve(&workspace, text);
        for inside in ["a", "./sub/../b", "fine/new.txt", "sub/x/y/z", ".", ""] {
            assert!(!resolve(inside).unwrap().outside, "{inside}");
        }
        for outside in
            ["..", "../wsx", "link", "link/a", "link/../a", "dangling", "/etc/passwd", "sub/../../out"]
        {
            assert!(resolve(outside).unwrap().outside, "{outside}");
        }
        assert_eq!(resolve("link/../a").unwrap().real, root.join("out/a"));
        assert_eq!(resolve("dangling").unwrap().real, root.join("out/new"));
        assert!(resolve("loop").is_err());
        assert!(resolve("a\0b").is_err());
        assert!(resolve("~/x").is_err());

        let place = resolve("sub/file").unwrap();
        place.check().unwrap();
        std::fs::remove_dir(workspace.join("sub")).unwrap();
        symlink(root.join("out"), workspace.join("sub")).unwrap();
        assert_eq!(place.check(), Err(ToolError::Moved { path: place.given.clone() }));
    }

    #[test]
    fn near_names_are_offered() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::try_from(dir.path().to_owned()).unwrap();
        for name in ["README.md", "main.rs", "readme.txt"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let text = not_found(&root.join("READNE.md")).to_string();
        assert!(text.contains("did you mean README.md"), "{text}");
        assert!(not_found(&root.join("zzzzzz")).to_string().contains("list_directory"));
        assert!(not_found(&root.join("no/such/dir")).to_string().contains("list_directory"));
    }
}

//! A change to a file, for somebody who has to consent to it.

use super::{Paint, plain};

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Most lines that are shown of one change.
const MOST: usize = 120;

/// The change from `old` to `new`: what is common at both ends is left out, but for a little context. A change
/// in two places is shown as one that spans both: nothing is hidden by being clever.
pub(crate) fn diff(path: &str, old: Option<&str>, new: &str, paint: Paint) -> String {
    let old_lines: Vec<&str> = old.unwrap_or_default().lines().collect();
    let new_lines: Vec<&str> = new.lines().collect();
    let front = old_lines.iter().zip(&new_lines).take_while(|(a, b)| a == b).count();
    let back = old_lines[front..]
        .iter()
        .rev()
        .zip(new_lines[front..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (old_end, new_end) = (old_lines.len() - back, new_lines.len() - back);
    let from = front.saturating_sub(CONTEXT);

    let mut lines = Vec::new();
    lines.extend(old_lines[from..front].iter().map(|line| format!("  {}", plain(line))));
    lines.extend(old_lines[front..old_end].iter().map(|line| paint.red(&format!("- {}", plain(line)))));
    lines.extend(new_lines[front..new_end].iter().map(|line| paint.green(&format!("+ {}", plain(line)))));
    lines.extend(new_lines[new_end..].iter().take(CONTEXT).map(|line| format!("  {}", plain(line))));

    let what = match old {
        None => "new file".to_owned(),
        Some(_) if front == old_lines.len() && front == new_lines.len() => "no change of lines".to_owned(),
        Some(_) => format!("from line {}", front + 1),
    };
    let mut text = format!("{} ({what})\n", plain(path));
    let left_out = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    if left_out > 0 {
        text.push_str(&format!("… {left_out} more lines\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_with_its_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n5b\n6\n7\n8\n9\n";
        insta::assert_snapshot!(diff("a.txt", Some(old), new, Paint::new(false)), @"
        a.txt (from line 5)
          2
          3
          4
        - 5
        + five
        + 5b
          6
          7
          8
        ");
    }

    #[test]
    fn ends_of_files() {
        insta::assert_snapshot!(diff("n", None, "x\n", Paint::new(false)), @"
        n (new file)
        + x
        ");
        insta::assert_snapshot!(diff("n", Some("a\na\n"), "a\na\na\n", Paint::new(false)), @"
        n (from line 3)
          a
          a
        + a
        ");
        insta::assert_snapshot!(diff("n", Some("a\n"), "", Paint::new(false)), @"
        n (from line 1)
        - a
        ");
        insta::assert_snapshot!(diff("n", Some("a"), "a\n", Paint::new(false)), @"
        n (no change of lines)
          a
        ");
    }

    #[test]
    fn a_long_change_says_how_much_is_left_out() {
        let new = "line\n".repeat(500);
        let text = diff("n", None, &new, Paint::new(false));
        assert!(text.ends_with("… 380 more lines\n"));
    }
}

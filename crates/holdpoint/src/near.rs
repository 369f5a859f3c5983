//! Words that are almost something else: most likely a slip of the keys.

/// How many letters are wrong, missing, too many or swapped with their neighbour, whatever their case.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    // Rows of the usual table, for one letter more of `a` each: two before, one before, and this one.
    let mut rows = [Vec::new(), Vec::new(), (0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        rows.rotate_left(1);
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[1][j] + 1).min(row[j - 1] + 1).min(rows[1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            row.push(least);
        }
        rows[2] = row;
    }
    rows[2][b.len()]
}

/// Of these names the one that a word most likely means: a quarter of its letters may be wrong, and one always.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let close = names.map(|name| (distance(word, name), name));
    let close = close.filter(|(wrong, name)| {
        let letters = name.chars().count();
        letters > 1 && *wrong <= (letters / 4).max(1)
    });
    close.min_by_key(|(wrong, _)| *wrong).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_are_wrong_are_counted() {
        for (a, b, wrong) in [
            ("yes", "yes", 0),
            ("yse", "yes", 1),
            ("YES", "yes", 0),
            ("ye", "yes", 1),
            ("yess", "yes", 1),
            ("yep", "yes", 1),
            ("", "yes", 3),
            ("no", "yes", 3),
            ("kitten", "sitting", 3),
            ("größe", "grösse", 2),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (wrong, wrong), "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["yes", "no", "ask me later", "x"];
        let near = |word: &str| nearest(word, names.into_iter());
        assert_eq!(near("yse"), Some("yes"));
        assert_eq!(near("on"), Some("no"));
        assert_eq!(near("ask em latter"), Some("ask me later"));
        for word in ["y", "never", "ask somebody else", "", "a"] {
            assert_eq!(near(word), None, "{word}");
        }
    }
}

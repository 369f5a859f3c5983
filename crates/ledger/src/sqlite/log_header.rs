//! Whether the log beside a ledger can be what SQLite left there. SQLite takes a log whose header it cannot read for an
//! empty one, and what was acknowledged and stood only in it would be gone without a word (I4).
//!
//! The header is described in the section "The WAL File Format" of SQLite's file format document.

use std::fs::File;
use std::io::{self, Read as _};

use camino::Utf8Path;

const LENGTH: usize = 32;

/// What is wrong with the log of a ledger, if something is. `empty`: the ledger itself holds nothing.
///
/// # Errors
/// It cannot be read.
pub(super) fn damage(log: &Utf8Path, empty: bool) -> io::Result<Option<&'static str>> {
    let mut header = [0; LENGTH];
    let read = match File::open(log) {
        Ok(mut file) => file.read_exact(&mut header),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match read {
        // Shorter than a header, or zeros: a log that holds nothing yet.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
        Ok(()) if header == [0; LENGTH] => Ok(None),
        Ok(()) if !is_valid(&header) => Ok(Some("the header of its -wal file cannot be read")),
        Ok(()) if empty => Ok(Some("it is empty, but its -wal file is not")),
        Ok(()) => Ok(None),
    }
}

fn is_valid(header: &[u8; LENGTH]) -> bool {
    let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let magic = u32::from_be_bytes(word(0));
    if magic & !1 != 0x377f_0682 {
        return false;
    }
    // The lowest bit says in which order the words of the sum are.
    let summed =
        |at: usize| if magic & 1 == 1 { u32::from_be_bytes(word(at)) } else { u32::from_le_bytes(word(at)) };
    let (mut first, mut second) = (0_u32, 0_u32);
    for at in [0, 8, 16] {
        first = first.wrapping_add(summed(at)).wrapping_add(second);
        second = second.wrapping_add(summed(at + 4)).wrapping_add(first);
    }
    (first, second) == (u32::from_be_bytes(word(24)), u32::from_be_bytes(word(28)))
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use rusqlite::Connection;

    use super::*;

    /// A ledger-like database with something in its log, as a kill leaves it.
    fn killed(dir: &Utf8Path) -> Utf8PathBuf {
        let (path, copy) = (dir.join("a.sqlite"), dir.join("b.sqlite"));
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1);")
            .unwrap();
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(format!("{path}-wal"), format!("{copy}-wal")).unwrap();
        Utf8PathBuf::from(format!("{copy}-wal"))
    }

    #[test]
    fn i4_a_log_that_sqlite_wrote_is_whole_and_any_flipped_bit_of_its_header_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let log = killed(Utf8Path::from_path(dir.path()).unwrap());
        assert_eq!(damage(&log, false).unwrap(), None);
        assert!(damage(&log, true).unwrap().is_some(), "an empty ledger has no log");
        let whole = std::fs::read(&log).unwrap();
        for bit in 0..LENGTH * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&log, &bytes).unwrap();
            assert!(damage(&log, false).unwrap().is_some(), "bit {bit}");
        }
    }

    #[test]
    fn a_log_that_holds_nothing_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let log = Utf8Path::from_path(dir.path()).unwrap().join("x-wal");
        assert_eq!(damage(&log, true).unwrap(), None, "there is none");
        for bytes in [vec![], vec![0; 10], vec![0; 100_000]] {
            std::fs::write(&log, bytes).unwrap();
            assert_eq!(damage(&log, true).unwrap(), None);
        }
    }
}

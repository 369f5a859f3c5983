//! The lines of a file from its end, in blocks: what is near the end costs the same in a file of any length
//! (E8).

use std::io::{self, Read, Seek, SeekFrom};

/// The first block: larger than almost every trailing turn, so that one read suffices.
const BLOCK: u64 = 64 * 1024;

/// The longest line that is kept. Longer ones are no records of anybody, and are skipped as damage.
pub(crate) const MAX_LINE: usize = 256 * 1024 * 1024;

/// One line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawLine {
    /// Where it starts in the file.
    pub(crate) offset: u64,
    /// What stands on it.
    pub(crate) bytes: Vec<u8>,
    /// Whether a newline ends it.
    pub(crate) terminated: bool,
}

/// Reads lines from the end to the start.
#[derive(Debug)]
pub(crate) struct Backward<R> {
    source: R,
    /// Where `buffer` starts in the file.
    start: u64,
    /// What was read and not yet given out: the bytes from `start` up to the line that came last.
    buffer: Vec<u8>,
    /// How much of the end of `buffer` is known to hold no newline.
    searched: usize,
    /// The next line that is given out ends with a newline.
    terminated: bool,
    /// The line at the end of `buffer` was too long, and its rest is dropped.
    dropping: bool,
    done: bool,
}

impl<R: Read + Seek> Backward<R> {
    /// Starts at the end as it is now.
    pub(crate) fn new(mut source: R) -> io::Result<Self> {
        let end = source.seek(SeekFrom::End(0))?;
        Ok(Self {
            source,
            start: end,
            buffer: Vec::new(),
            searched: 0,
            terminated: false,
            dropping: false,
            done: false,
        })
    }

    /// Takes the source to end at this offset, unless it ends before it.
    pub(crate) fn end_at(&mut self, end: u64) {
        if end < self.start {
            self.before(end);
        }
    }

    /// Goes on with the line before the one that starts at `offset`.
    pub(crate) fn before(&mut self, offset: u64) {
        self.start = offset;
        self.buffer.clear();
        self.searched = 0;
        self.terminated = false;
        self.dropping = false;
        self.done = false;
    }

    /// The next line towards the start.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<RawLine>> {
        loop {
            let unsearched = self.buffer.len() - self.searched;
            if let Some(at) = self.buffer[..unsearched].iter().rposition(|byte| *byte == b'\n') {
                let bytes = self.buffer.split_off(at + 1);
                self.buffer.truncate(at);
                self.searched = 0;
                if let Some(line) = self.give(self.start + at as u64 + 1, bytes) {
                    return Ok(Some(line));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > MAX_LINE {
                self.buffer.clear();
                self.searched = 0;
                self.dropping = true;
            }
            if self.start == 0 {
                if self.done {
                    return Ok(None);
                }
                self.done = true;
                let bytes = std::mem::take(&mut self.buffer);
                self.searched = 0;
                if let Some(line) = self.give(0, bytes) {
                    return Ok(Some(line));
                }
                return Ok(None);
            }
            self.read_block()?;
        }
    }

    /// The line, unless nothing stands on it.
    fn give(&mut self, offset: u64, bytes: Vec<u8>) -> Option<RawLine> {
        let terminated = std::mem::replace(&mut self.terminated, true);
        let dropped = std::mem::take(&mut self.dropping);
        (!dropped && !bytes.is_empty()).then_some(RawLine { offset, bytes, terminated })
    }

    /// Reads a block in front of the buffer: as large as the buffer already is, so that a long line costs
    /// linear time.
    fn read_block(&mut self) -> io::Result<()> {
        let length = BLOCK.max(self.buffer.len() as u64).min(self.start);
        let from = self.start - length;
        self.source.seek(SeekFrom::Start(from))?;
        let mut block = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + self.buffer.len());
        self.source.by_ref().take(length).read_to_end(&mut block)?;
        if (block.len() as u64) < length {
            // The file was cut while we read it; what is gone was torn.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        block.append(&mut self.buffer);
        self.buffer = block;
        self.start = from;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lines_are_those_of_a_forward_split(text in "[ab\n]{0,400}", repeat in 1usize..2000) {
            let text = text.repeat(repeat);
            let mut backward = Backward::new(Cursor::new(text.as_bytes())).unwrap();
            let mut got = Vec::new();
            while let Some(line) = backward.next_line().unwrap() {
                prop_assert_eq!(&text.as_bytes()[line.offset as usize..][..line.bytes.len()], &line.bytes[..]);
                got.push(String::from_utf8(line.bytes).unwrap());
            }
            got.reverse();
            let expected: Vec<_> = text.split('\n').filter(|l| !l.is_empty()).map(str::to_owned).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn an_unfinished_last_line_says_so() {
        let mut backward = Backward::new(Cursor::new(b"one\ntwo")).unwrap();
        let two = backward.next_line().unwrap().unwrap();
        assert_eq!((two.bytes.as_slice(), two.terminated, two.offset), (b"two".as_slice(), false, 4));
        let one = backward.next_line().unwrap().unwrap();
        assert_eq!((one.bytes.as_slice(), one.terminated), (b"one".as_slice(), true));
        assert_eq!(backward.next_line().unwrap(), None);
        backward.before(4);
        assert_eq!(backward.next_line().unwrap().unwrap().bytes, b"one");
    }
}

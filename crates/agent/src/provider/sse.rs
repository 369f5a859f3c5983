//! Reads server-sent events out of bytes as they come.
//!
//! A reader of our own, of a few lines: the one crate for it scans a long line again for every piece of it
//! that arrives, stops on a byte order mark, and has no limit. It serves the tests as the oracle instead.

use std::collections::VecDeque;

/// An event grew beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// The state between two pieces. Only `data` fields are kept: no model endpoint needs the others.
#[derive(Debug)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    first_line: bool,
    limit: usize,
    events: VecDeque<Vec<u8>>,
}

impl SseReader {
    /// A reader that holds at most `limit` bytes of one event.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
            limit,
            events: VecDeque::new(),
        }
    }

    /// Takes the next piece. Each byte is looked at once.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            match bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                None => {
                    self.append(bytes)?;
                    return Ok(());
                }
                Some(at) => {
                    self.append(&bytes[..at])?;
                    self.after_cr = bytes[at] == b'\r';
                    bytes = &bytes[at + 1..];
                    self.end_line();
                }
            }
        }
        Ok(())
    }

    /// The next complete event's data.
    pub(crate) fn next_event(&mut self) -> Option<Vec<u8>> {
        self.events.pop_front()
    }

    /// What the last event holds if the stream ends here without the empty line that should close it. Some
    /// servers leave it out; whether it is complete is for the caller to see.
    pub(crate) fn rest(mut self) -> Option<Vec<u8>> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.has_data.then_some(self.data)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > self.limit {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut rest = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            rest = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
        }
        if rest.is_empty() {
            if std::mem::take(&mut self.has_data) {
                self.events.push_back(std::mem::take(&mut self.data));
            }
        } else if let Some(value) = rest.strip_prefix(b"data") {
            let value = match value.split_first() {
                None => value,
                Some((b':', value)) => value.strip_prefix(b" ").unwrap_or(value),
                Some(_) => return,
            };
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
            self.has_data = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = SseReader::new(1 << 20);
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece).unwrap();
            while let Some(event) = reader.next_event() {
                events.push(String::from_utf8(event).unwrap());
            }
        }
        events
    }

    #[test]
    fn line_ends_of_every_kind_and_comments() {
        let text = b"\xef\xbb\xbfdata: a\r\n\r\n: ping\n\ndata:b\rdata:  c\r\rdata\n\nevent: x\n\ndatum: no\n\ndata: d\n";
        assert_eq!(read(&[text]), ["a", "b\n c", ""]);
        for at in 0..text.len() {
            assert_eq!(read(&[&text[..at], &text[at..]]), ["a", "b\n c", ""], "split at {at}");
        }
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused() {
        let mut reader = SseReader::new(100);
        assert_eq!(reader.push(&[b'x'; 101]), Err(TooLarge));
        let mut reader = SseReader::new(100);
        let mut outcome = Ok(());
        for _ in 0..50 {
            outcome = outcome.and(reader.push(b"data: xxxxxxxxx\n"));
        }
        assert_eq!(outcome, Err(TooLarge));
    }

    #[test]
    fn an_unclosed_last_event_is_given_at_the_end() {
        let mut reader = SseReader::new(100);
        reader.push(b"data: [DO").unwrap();
        reader.push(b"NE]").unwrap();
        assert_eq!(reader.next_event(), None);
        assert_eq!(reader.rest().as_deref(), Some(&b"[DONE]"[..]));
    }

    proptest! {
        /// The crate's reader is the oracle, except where it is known to be wrong (a byte order mark).
        #[test]
        fn any_chunking_reads_as_the_oracle_reads(
            lines in prop::collection::vec("(data:|data: |event: |id:|: |data|)[a-zé{}\" ]{0,12}(\n|\r\n|\n\n)", 0..20),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let text = lines.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            let oracle: Vec<String> = futures::executor::block_on(
                eventsource_stream::EventStream::new(futures::stream::iter([Ok::<_, ()>(bytes)]))
                    .map(|event| event.unwrap().data)
                    .collect(),
            );
            prop_assert_eq!(read(&pieces), oracle);
        }
    }
}

//! Lines of bounded length from a byte stream (trap 4).

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The longest line that is read: more than the largest prompt the daemon accepts, and an end to a peer that
/// never sends a newline.
pub(crate) const MAX_LINE: usize = 64 * 1024 * 1024;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end.
    Text(String),
    /// A line that is no UTF-8.
    NotText,
    /// A line longer than the limit. It was skipped.
    TooLong,
    /// The stream has ended.
    End,
}

/// Reads the next line. A last line without an end is dropped: its sender is gone in the middle of it.
pub(crate) async fn read_line<R: AsyncBufRead + Unpin>(source: &mut R, max: usize) -> io::Result<Line> {
    let mut line: Vec<u8> = Vec::new();
    let mut skipping = false;
    loop {
        let chunk = source.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(Line::End);
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        if !skipping {
            if line.len() + part.len() > max {
                skipping = true;
                line = Vec::new();
            } else {
                line.extend_from_slice(part);
            }
        }
        let used = end.map_or(chunk.len(), |at| at + 1);
        source.consume(used);
        if end.is_none() {
            continue;
        }
        if skipping {
            return Ok(Line::TooLong);
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            line.clear();
            continue;
        }
        return Ok(String::from_utf8(line).map_or(Line::NotText, Line::Text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_next_is_read() {
        let mut source =
            tokio::io::BufReader::with_capacity(4, &b"12345678\n123456789\n\r\n\xff\nok\r\ntorn"[..]);
        let mut got = Vec::new();
        loop {
            let line = read_line(&mut source, 8).await.unwrap();
            let end = line == Line::End;
            got.push(line);
            if end {
                break;
            }
        }
        let text = |text: &str| Line::Text(text.to_owned());
        assert_eq!(got, [text("12345678"), Line::TooLong, Line::NotText, text("ok"), Line::End]);
    }
}

//! Long replies, in pieces that a platform takes: at the ends of paragraphs, lines or words, and code blocks whole
//! where they fit.

/// How long a text is for the platforms, which count as JavaScript does.
pub fn length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The text, shortened to `limit` with an ellipsis where it is longer.
pub fn fit(text: &str, limit: usize) -> String {
    if length(text) <= limit {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.len_utf16();
        if used > limit {
            break;
        }
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

const FENCE: &str = "```";

/// Splits a text into pieces of at most `limit` (at least 64). None is empty. A code block that has to be cut is closed
/// at the end of its piece and opened again, in its language, in the next.
pub fn split(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(64);
    let mut pieces = Pieces { limit, done: Vec::new(), piece: String::new(), fence: None };
    for block in blocks(text) {
        pieces.take(block);
    }
    pieces.finish()
}

/// A run of lines outside code, or a whole code block with its fences.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with(FENCE);
        if fence && !in_code && !block.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
        block.push(line);
        if fence {
            in_code = !in_code;
            if !in_code {
                blocks.push(std::mem::take(&mut block));
            }
        }
    }
    if !block.is_empty() {
        blocks.push(block);
    }
    blocks
}

struct Pieces {
    limit: usize,
    done: Vec<String>,
    piece: String,
    /// The line that opened the code block in which we are.
    fence: Option<String>,
}

impl Pieces {
    fn take(&mut self, block: Vec<&str>) {
        let is_code = block[0].trim_start().starts_with(FENCE);
        let whole: usize = block.iter().map(|line| length(line) + 1).sum();
        // A code block that fits a piece of its own is not cut.
        if is_code && whole > self.room() && whole <= self.limit {
            self.end();
        }
        for line in block {
            self.line(line);
            if line.trim_start().starts_with(FENCE) {
                self.fence = match self.fence {
                    Some(_) => None,
                    None => Some(fit(line.trim(), 32).replace('…', "")),
                };
            }
        }
    }

    /// What still fits, with the room that closing a code block takes.
    fn room(&self) -> usize {
        let closing = if self.fence.is_some() { FENCE.len() + 1 } else { 0 };
        self.limit.saturating_sub(length(&self.piece) + closing)
    }

    fn line(&mut self, line: &str) {
        let closes = self.fence.is_some() && line.trim_start().starts_with(FENCE);
        // An opening fence must leave room for its closing one; a closing one takes the room that was kept.
        let opens = self.fence.is_none() && line.trim_start().starts_with(FENCE);
        let need = length(line) + 1 + if opens { FENCE.len() + 2 } else { 0 };
        let room = if closes { self.room() + FENCE.len() + 1 } else { self.room() };
        if need > room && !self.piece.is_empty() && !closes {
            self.end();
        }
        let mut rest = line;
        while length(rest) + 1 > self.room() && !closes {
            let (head, tail) = cut(rest, self.room().saturating_sub(1).max(1), self.fence.is_none());
            self.push(head);
            self.end();
            rest = tail;
        }
        self.push(rest);
    }

    fn push(&mut self, line: &str) {
        self.piece.push_str(line);
        self.piece.push('\n');
    }

    fn end(&mut self) {
        let mut piece = std::mem::take(&mut self.piece);
        if let Some(fence) = &self.fence {
            piece.push_str(FENCE);
            self.piece = format!("{fence}\n");
        }
        let piece = piece.trim_end_matches('\n');
        if !piece.trim().is_empty() {
            self.done.push(piece.to_owned());
        }
    }

    fn finish(mut self) -> Vec<String> {
        self.end();
        self.done
    }
}

/// Cuts a line at `limit`, after a word where there is one (`words`), and never inside a character.
fn cut(line: &str, limit: usize, words: bool) -> (&str, &str) {
    let mut used = 0;
    let mut at = line.len();
    let mut word = None;
    for (place, c) in line.char_indices() {
        used += c.len_utf16();
        if used > limit {
            at = place;
            break;
        }
        if c == ' ' && place > 0 {
            word = Some(place);
        }
    }
    if at == 0 {
        // One character that does not fit: it goes on its own rather than never.
        at = line.chars().next().map_or(0, char::len_utf8);
    }
    match word {
        Some(place) if words && at < line.len() && place * 2 > at => (&line[..place], &line[place + 1..]),
        _ => line.split_at(at),
    }
}

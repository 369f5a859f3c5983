//! The path from the last record of a file back to the root: the session, as opposed to what a rewind left
//! behind.
//!
//! A parent is the nearest record *before* the child with that id, so no file can make a loop. Where the
//! parent cannot be found (its line is damaged, or another file holds it), the record before the child takes
//! its place: better a history with a hole than half a history.

use std::collections::HashMap;
use std::io::{self, Read, Seek};

use holdpoint_model::ids::RecordId;

use crate::backward::{Backward, RawLine};
use crate::record::{self, Parent, Record};

/// Why a walk stopped early.
#[derive(Debug)]
pub(crate) enum ChainError {
    /// The system refused.
    Io(io::Error),
    /// A record names a newer format.
    Newer(u64),
}

impl From<io::Error> for ChainError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A record and where its line starts.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Offset of its line.
    pub(crate) offset: u64,
    /// Length of its line.
    pub(crate) length: usize,
    /// The record.
    pub(crate) record: Record,
}

/// Walks from the leaf to the root, reading backwards.
pub(crate) struct Walk<R> {
    lines: Backward<R>,
    /// A record on the line that came last, before the one that was taken from it.
    pending: Option<Placed>,
    want: Want,
    /// Lines that could not be read, among those that were looked at.
    pub(crate) damaged: u32,
}

enum Want {
    Leaf,
    Parent(Parent),
    Nothing,
}

impl<R: Read + Seek> Walk<R> {
    pub(crate) fn new(source: R) -> io::Result<Self> {
        Ok(Self { lines: Backward::new(source)?, pending: None, want: Want::Leaf, damaged: 0 })
    }

    /// Takes the file to end at this offset, unless it ends before it. To be called before [`Walk::next`].
    pub(crate) fn end_at(&mut self, end: u64) {
        self.lines.end_at(end);
    }

    /// The next record towards the root.
    pub(crate) fn next(&mut self) -> Result<Option<Placed>, ChainError> {
        let placed = match std::mem::replace(&mut self.want, Want::Nothing) {
            Want::Nothing | Want::Parent(Parent::Root) => None,
            Want::Leaf | Want::Parent(Parent::Unsaid) => self.previous()?,
            Want::Parent(Parent::Of(id)) => self.find(&id)?,
        };
        if let Some(placed) = &placed {
            self.want = Want::Parent(placed.record.parent.clone());
        }
        Ok(placed)
    }

    /// The record before, in the file.
    fn previous(&mut self) -> Result<Option<Placed>, ChainError> {
        if let Some(placed) = self.pending.take() {
            return Ok(Some(placed));
        }
        while let Some(line) = self.lines.next_line()? {
            if let Some(placed) = self.read(&line)? {
                return Ok(Some(placed));
            }
        }
        Ok(None)
    }

    /// The last record of a line; one before it on the same line waits.
    fn read(&mut self, line: &RawLine) -> Result<Option<Placed>, ChainError> {
        let read = record::read_line(&line.bytes);
        if let Some(found) = read.newer {
            return Err(ChainError::Newer(found));
        }
        if read.damaged {
            self.damaged += 1;
        }
        let mut placed = read.records.into_iter().map(|(_, record)| Placed {
            offset: line.offset,
            length: line.bytes.len(),
            record,
        });
        let (first, second) = (placed.next(), placed.next());
        Ok(match second {
            Some(second) => {
                self.pending = first;
                Some(second)
            }
            None => first,
        })
    }

    /// The nearest record before with this id, else the one before.
    fn find(&mut self, id: &RecordId) -> Result<Option<Placed>, ChainError> {
        let Some(nearest) = self.previous()? else { return Ok(None) };
        if nearest.record.uuid.as_ref() == Some(id) {
            return Ok(Some(nearest));
        }
        let damaged = self.damaged;
        let waiting = self.pending.clone();
        // An id of plain characters stands in the line as it is: only lines that hold it are parsed.
        let plain = id.as_str().bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\' && b != b'/');
        if let Some(placed) = self.pending.take()
            && placed.record.uuid.as_ref() == Some(id)
        {
            return Ok(Some(placed));
        }
        while let Some(line) = self.lines.next_line()? {
            if plain && !contains(&line.bytes, id.as_str().as_bytes()) {
                continue;
            }
            let mut candidate = self.read(&line)?;
            while let Some(placed) = candidate {
                if placed.record.uuid.as_ref() == Some(id) {
                    return Ok(Some(placed));
                }
                candidate = self.pending.take();
            }
        }
        self.damaged = damaged;
        self.lines.before(nearest.offset);
        self.pending = waiting;
        Ok(Some(nearest))
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    let Some((first, rest)) = needle.split_first() else { return true };
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|byte| byte == first) {
        let after = from + at + 1;
        if haystack[after..].starts_with(rest) {
            return true;
        }
        from = after;
    }
    false
}

/// The whole path, from the root to the leaf, as places in `bytes`.
pub(crate) struct Index {
    /// Offset and length of each record of the path.
    pub(crate) path: Vec<(usize, usize)>,
    /// Lines that could not be read.
    pub(crate) damaged: u32,
}

/// Reads a whole file forward and finds the same path as [`Walk`].
pub(crate) fn index(bytes: &[u8]) -> Result<Index, ChainError> {
    struct Node {
        at: (usize, usize),
        parent: Option<usize>,
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut last_of: HashMap<RecordId, usize> = HashMap::new();
    let mut damaged = 0;
    let mut offset = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let start = offset;
        offset += line.len() + 1;
        if line.len() > crate::backward::MAX_LINE {
            continue;
        }
        let read = record::read_slim(line);
        if let Some(found) = read.newer {
            return Err(ChainError::Newer(found));
        }
        damaged += u32::from(read.damaged);
        for slim in read.records {
            let this = nodes.len();
            let parent = match &slim.parent {
                Parent::Root => None,
                Parent::Unsaid => this.checked_sub(1),
                Parent::Of(id) => last_of.get(id).copied().or_else(|| this.checked_sub(1)),
            };
            if let Some(id) = slim.uuid {
                last_of.insert(id, this);
            }
            nodes.push(Node { at: (start + slim.at, slim.length), parent });
        }
    }
    let mut path = Vec::new();
    let mut next = nodes.len().checked_sub(1);
    while let Some(at) = next {
        path.push(nodes[at].at);
        next = nodes[at].parent;
    }
    path.reverse();
    Ok(Index { path, damaged })
}

/// The record at a place that [`index`] gave.
pub(crate) fn record_at(bytes: &[u8], (offset, length): (usize, usize)) -> Option<Record> {
    let mut read = record::read_line(&bytes[offset..offset + length]);
    (read.records.len() == 1).then(|| read.records.remove(0).1)
}

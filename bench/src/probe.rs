//! What the disk itself takes: the unit in which durable things are measured.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// A file that grows by 512 bytes at a time.
pub(crate) struct Probe {
    file: File,
}

impl Probe {
    pub(crate) fn new(dir: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)?;
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(dir.join("probe"))? })
    }

    /// Appends and calls `fdatasync`.
    pub(crate) fn measure(&mut self) -> anyhow::Result<Duration> {
        let since = Instant::now();
        self.file.write_all(&[b'x'; 512])?;
        self.file.sync_data()?;
        Ok(since.elapsed())
    }
}

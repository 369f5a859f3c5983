//! Files that only their owner can read.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};

use camino::Utf8Path;

/// Makes a directory and what is missing above it, for the owner only; one that is there is left as it is.
pub(crate) fn private_dir(dir: &Utf8Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes an empty file for the owner only, where there is none.
pub(crate) fn private_file(path: &Utf8Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Takes a file away from everybody but its owner. By path: opening a SQLite file beside SQLite and closing it
/// again would drop SQLite's locks. A file that is not there, or of another owner, is left alone.
pub(crate) fn make_private(path: &Utf8Path) {
    let Ok(meta) = fs::metadata(path) else { return };
    if meta.permissions().mode() & 0o077 != 0
        && let Err(error) = fs::set_permissions(path, Permissions::from_mode(0o600))
    {
        tracing::warn!(%path, %error, "others can read this file, and its mode cannot be changed");
    }
}

/// Extends a file with zeros to `len` bytes; a longer one is left as it is. The zeros are written, not skipped:
/// a hole would have to be filled by the writes that this is to make cheap.
pub(crate) fn extend_with_zeros(path: &Utf8Path, len: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let mut missing = len.saturating_sub(file.metadata()?.len());
    while missing > 0 {
        let now = missing.min(ZEROS.len() as u64) as usize;
        file.write_all(&ZEROS[..now])?;
        missing -= now as u64;
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Utf8Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

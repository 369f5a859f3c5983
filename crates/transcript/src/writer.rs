//! Appending, so that a crash at any moment leaves whole records and at most one torn line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::backward::Backward;
use crate::error::{AppendError, OpenError, ReadError};
use crate::lock::{self, LockError};
use crate::record::{self, Record};

/// How long [`Writer::open`] waits for an earlier process to let go of the file.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);

/// How much of the start of a file is read to learn its format.
const HEAD: u64 = 64 * 1024;

/// Whether an append waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It returns when the record, and all before it, are on the disk.
    Fsync,
    /// It returns when the system has the record; a later `Fsync` covers it.
    Buffered,
}

/// What a crash left behind the last whole record. It was cut off when the file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where the rest began.
    pub offset: u64,
    /// How long it was.
    pub bytes: u64,
}

/// An opened transcript.
#[derive(Debug)]
pub struct Opened {
    /// The writer; it holds the lock.
    pub writer: Writer,
    /// What was cut off.
    pub torn: Option<TornTail>,
    /// Whether the file was there.
    pub existed: bool,
}

/// Appends to one transcript, and holds its lock while it lives.
#[derive(Debug)]
pub struct Writer {
    path: Utf8PathBuf,
    log: Option<Log<File>>,
}

impl Writer {
    /// Opens a transcript, taking its lock within [`LOCK_WAIT`], and cuts off a torn last line. A file that is
    /// not there is created by the first append, not before.
    ///
    /// # Errors
    /// Another process holds the lock, the format is newer, or the system refuses.
    pub fn open(path: &Utf8Path) -> Result<Opened, OpenError> {
        Self::open_within(path, LOCK_WAIT)
    }

    /// [`Self::open`] with another wait for the lock.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_within(path: &Utf8Path, wait: Duration) -> Result<Opened, OpenError> {
        let mut writer = Self { path: path.to_owned(), log: None };
        let Some(file) = open_locked(path, false, wait)? else {
            return Ok(Opened { writer, torn: None, existed: false });
        };
        let (log, torn) = recover(path, file)?;
        writer.log = Some(log);
        Ok(Opened { writer, torn, existed: true })
    }

    /// Where it writes.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Whether the file exists yet.
    pub fn exists(&self) -> bool {
        self.log.is_some()
    }

    /// Appends one record in one write. With [`Durability::Fsync`] it is on the disk when this returns, and
    /// after a file's first append its name is too.
    ///
    /// # Errors
    /// Nothing was written; or the state of the file is unknown, and the writer refuses to go on.
    pub fn append(&mut self, record: &Record, durability: Durability) -> Result<(), AppendError> {
        let line = record.to_line();
        if self.log.is_none() {
            self.log = Some(create(&self.path)?);
        }
        let Some(log) = &mut self.log else { unreachable!("the file was opened above") };
        log.append(&line, durability).map_err(|failure| match failure {
            Failure::Undone(source) => AppendError::Write { path: self.path.clone(), source },
            Failure::Poisoned(reason) => AppendError::Poisoned { path: self.path.clone(), reason },
        })
    }
}

/// Opens the file and takes its lock; `None` if it is not there and is not to be created.
fn open_locked(path: &Utf8Path, create: bool, wait: Duration) -> Result<Option<File>, OpenError> {
    let refused = |source| OpenError::Io { path: path.to_owned(), source };
    loop {
        // A transcript holds what people say to their agent: nobody else reads it.
        let opened =
            OpenOptions::new().read(true).append(true).create(create).mode(0o600).open(path.as_std_path());
        let file = match opened {
            Ok(file) => file,
            Err(error) if !create && error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(error)),
        };
        match lock::take(&file, wait) {
            Ok(()) => {}
            Err(LockError::Held(holder)) => return Err(OpenError::Locked { path: path.to_owned(), holder }),
            Err(LockError::Io(error)) => return Err(refused(error)),
        }
        // While we waited the file may have been deleted: what we would write then nobody would find.
        let here = file.metadata().map_err(refused)?;
        let there = std::fs::metadata(path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (here.dev(), here.ino())) {
            return Ok(Some(file));
        }
    }
}

/// Creates the file for the first append. Its name is made durable by the first `Fsync`.
fn create(path: &Utf8Path) -> Result<Log<File>, OpenError> {
    let refused = |source| OpenError::Io { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        // What is said in a session is its person's own.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    }
    let Some(file) = open_locked(path, true, LOCK_WAIT)? else {
        unreachable!("a file that is to be created is there when it was opened")
    };
    let (mut log, _) = recover(path, file)?;
    if log.length > 0 {
        // Another process began this session since we looked: its records are not our parents.
        return Err(refused(io::Error::new(io::ErrorKind::AlreadyExists, "another process has begun it")));
    }
    log.directory = path.parent().map(Utf8Path::to_owned);
    Ok(log)
}

/// Checks the format and makes the file end behind a whole record.
fn recover(path: &Utf8Path, mut file: File) -> Result<(Log<File>, Option<TornTail>), OpenError> {
    let refused = |source| OpenError::Io { path: path.to_owned(), source };
    let newer = |found| OpenError::Read(ReadError::Newer { path: path.to_owned(), found });
    if let Some(found) = format_of_head(&mut file).map_err(refused)? {
        return Err(newer(found));
    }
    let length = file.seek(SeekFrom::End(0)).map_err(refused)?;
    let last = Backward::new(&mut file).and_then(|mut lines| lines.next_line()).map_err(refused)?;
    let mut log = Log::new(file, length);
    let Some(last) = last else { return Ok((log, None)) };
    if let Some(found) = record::read_line(&last.bytes).newer {
        return Err(newer(found));
    }
    if last.terminated {
        return Ok((log, None));
    }
    // A whole record that lacks only its end is kept; what does not make one is cut off.
    let whole = record::whole_prefix(&last.bytes).unwrap_or(0) as u64;
    let end = last.offset + whole;
    let torn = TornTail { offset: end, bytes: length - end };
    if torn.bytes > 0 {
        tracing::warn!(%path, offset = torn.offset, bytes = torn.bytes, "cut off a torn last record");
        log.storage.set_len(end).map_err(refused)?;
        log.length = end;
    }
    if whole > 0 {
        log.append(b"\n", Durability::Buffered).map_err(|failure| match failure {
            Failure::Undone(error) => refused(error),
            Failure::Poisoned(reason) => refused(io::Error::other(reason)),
        })?;
    }
    Ok((log, (torn.bytes > 0).then_some(torn)))
}

/// A newer format, if the first line names one.
fn format_of_head(file: &mut File) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    Read::by_ref(file).take(HEAD).read_to_end(&mut head)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(record::read_line(line).newer)
}

/// What a log needs of its file; tests give it one that fails.
trait Storage {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The end of a file that only grows by whole lines.
#[derive(Debug)]
struct Log<S> {
    storage: S,
    /// Where the last whole line ends.
    length: u64,
    /// The directory whose entry for the file is not yet known to be durable.
    directory: Option<Utf8PathBuf>,
    poisoned: Option<String>,
}

enum Failure {
    Undone(io::Error),
    Poisoned(String),
}

impl<S: Storage> Log<S> {
    fn new(storage: S, length: u64) -> Self {
        Self { storage, length, directory: None, poisoned: None }
    }

    fn append(&mut self, line: &[u8], durability: Durability) -> Result<(), Failure> {
        if let Some(reason) = &self.poisoned {
            return Err(Failure::Poisoned(reason.clone()));
        }
        if let Err(error) = self.write(line) {
            // Part of the line may be there. Without it the next record starts on a line of its own.
            return match self.storage.set_len(self.length) {
                Ok(()) => Err(Failure::Undone(error)),
                Err(undo) => {
                    Err(self.poison(format!("a write failed ({error}) and could not be undone ({undo})")))
                }
            };
        }
        self.length += line.len() as u64;
        if durability == Durability::Fsync {
            self.sync()?;
        }
        Ok(())
    }

    /// One write; a short one is a failure, since its rest would have to come from a second.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        loop {
            match self.storage.write(line) {
                Ok(written) if written == line.len() => return Ok(()),
                Ok(written) => {
                    let text = format!("only {written} of {} bytes fitted", line.len());
                    return Err(io::Error::new(io::ErrorKind::WriteZero, text));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// After a failed sync nobody can say what is on the disk, and asking again may report a false success.
    fn sync(&mut self) -> Result<(), Failure> {
        self.storage.sync().map_err(|error| self.poison(format!("it could not be synced ({error})")))?;
        if let Some(directory) = self.directory.take()
            && let Err(error) = File::open(&directory).and_then(|directory| directory.sync_all())
        {
            return Err(self.poison(format!("its directory could not be synced ({error})")));
        }
        Ok(())
    }

    fn poison(&mut self, reason: String) -> Failure {
        tracing::error!(%reason, "a transcript can no longer be written");
        self.poisoned = Some(reason.clone());
        Failure::Poisoned(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in memory that fails where it is told to.
    #[derive(Default)]
    struct Faulty {
        bytes: Vec<u8>,
        room: Option<usize>,
        keep: bool,
        no_sync: bool,
    }

    impl Storage for Faulty {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits =
                self.room.map_or(bytes.len(), |room| room.saturating_sub(self.bytes.len()).min(bytes.len()));
            self.bytes.extend_from_slice(&bytes[..fits]);
            if fits == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
        }

        fn set_len(&mut self, length: u64) -> io::Result<()> {
            if self.keep {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.bytes.truncate(usize::try_from(length).unwrap());
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            if self.no_sync { Err(io::Error::other("disk gone")) } else { Ok(()) }
        }
    }

    #[test]
    fn a_full_disk_undoes_the_record_and_a_later_append_is_whole() {
        for room in 4..7 {
            let mut log = Log::new(Faulty { room: Some(room), ..Faulty::default() }, 0);
            assert!(log.append(b"one\n", Durability::Fsync).is_ok());
            assert!(
                matches!(log.append(b"two\n", Durability::Fsync), Err(Failure::Undone(_))),
                "room {room}"
            );
            log.storage.room = None;
            assert!(log.append(b"three\n", Durability::Fsync).is_ok());
            assert_eq!(log.storage.bytes, b"one\nthree\n");
        }
    }

    #[test]
    fn what_cannot_be_undone_or_synced_poisons_the_writer() {
        let mut log = Log::new(Faulty { room: Some(2), keep: true, ..Faulty::default() }, 0);
        assert!(matches!(log.append(b"one\n", Durability::Buffered), Err(Failure::Poisoned(_))));
        log.storage.room = None;
        assert!(matches!(log.append(b"two\n", Durability::Buffered), Err(Failure::Poisoned(_))));
        let mut log = Log::new(Faulty { no_sync: true, ..Faulty::default() }, 0);
        assert!(log.append(b"one\n", Durability::Buffered).is_ok());
        assert!(matches!(log.append(b"two\n", Durability::Fsync), Err(Failure::Poisoned(_))));
        assert!(matches!(log.append(b"three\n", Durability::Buffered), Err(Failure::Poisoned(_))));
    }
}

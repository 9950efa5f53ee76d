//! The requests that wait for the daemon: a directory beside its socket.
//!
//! DEL must not fail because the daemon is down, so the plugin leaves the request here, one file each, and the daemon
//! works the files off in order when it is back. Nothing is synced to disk: the directory lives where the socket does,
//! in a file system that dies with the boot, and so do the attachments that the requests are about. What a crash of
//! the plugin may leave is a file whose name begins with a dot, which nobody reads.
//!
//! The daemon must listen before it drains. A plugin that found nobody listening queues its request and then tries the
//! socket once more: either that reaches the new daemon, or the daemon was not yet listening and will find the file.

use crate::protocol::{self, MAX_FRAME, Request};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The queue of the daemon that listens on `socket`.
#[must_use]
pub fn beside(socket: &Path) -> PathBuf {
    socket.with_file_name("queue")
}

/// Puts a request at the end of the queue and returns its file.
///
/// # Guarantees
/// The file appears whole or not at all, and never in place of another.
///
/// # Errors
/// If the directory cannot be made or written.
pub fn enqueue(dir: &Path, request: &Request) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let bytes = serde_json::to_vec(request)?;
    let pid = std::process::id();
    // Stamp and process tell requests apart; the count is for one process that queues twice in a nanosecond, and for
    // process IDs that were used before.
    for count in 0..1000_u32 {
        let name = format!("{:020}-{pid}-{count:03}", request.stamp);
        let (draft, path) = (dir.join(format!(".{name}")), dir.join(name));
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            created => created?,
        };
        let written = file.write_all(&bytes);
        match written.and_then(|()| Ok(renameat_with(CWD, &draft, CWD, &path, RenameFlags::NOREPLACE)?)) {
            Ok(()) => return Ok(path),
            Err(error) => {
                let _ = fs::remove_file(&draft);
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error);
                }
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The files that wait, oldest request first. No directory is an empty queue.
///
/// # Errors
/// If the directory cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.path().extension().is_none()
        {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Reads a file of the queue. What cannot be understood is kept as `NAME.bad` for a person to look at, gives `None`,
/// and does not stand in the way of the rest; so does a file that is gone, because its plugin got through after all.
///
/// # Errors
/// If the file cannot be read or moved; the queue must then be tried again later.
pub fn read(path: &Path) -> io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_FRAME as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let whole = bytes.len() <= MAX_FRAME;
    match protocol::decode(&bytes) {
        Ok(request) if whole => Ok(Some(request)),
        _ => set_aside(path).map(|()| None),
    }
}

/// Takes a file that nothing can be done with out of the queue, and keeps it as `NAME.bad`.
///
/// # Errors
/// If it cannot be moved.
pub fn set_aside(path: &Path) -> io::Result<()> {
    fs::rename(path, path.with_extension("bad"))
}

/// Takes a file that has been worked off out of the queue. One that is gone already is fine.
///
/// # Errors
/// If it cannot be removed; it will then be worked off again, which must do no harm.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Attachment, Op};
    use std::os::unix::fs::PermissionsExt;

    fn del(stamp: u64, container: &str) -> Request {
        let attachment = Attachment { network: "n".into(), container: container.into(), ifname: "eth0".into() };
        Request::new(stamp, Op::Del(attachment))
    }

    fn requests(dir: &Path) -> Vec<Request> {
        list(dir).unwrap().iter().filter_map(|path| read(path).unwrap()).collect()
    }

    #[test]
    fn requests_come_back_in_the_order_of_their_stamps() {
        let home = tempfile::tempdir().unwrap();
        let dir = beside(&home.path().join("run/berth.sock"));
        assert_eq!(list(&dir).unwrap(), Vec::<PathBuf>::new(), "no directory is an empty queue");
        for stamp in [100, 9, 20_000_000_000, 10] {
            enqueue(&dir, &del(stamp, "c")).unwrap();
        }
        let stamps: Vec<u64> = requests(&dir).iter().map(|request| request.stamp).collect();
        assert_eq!(stamps, [9, 10, 100, 20_000_000_000]);
        for path in list(&dir).unwrap() {
            remove(&path).unwrap();
            remove(&path).unwrap();
        }
        assert!(list(&dir).unwrap().is_empty());
    }

    #[test]
    fn equal_stamps_never_replace_each_other() {
        let dir = tempfile::tempdir().unwrap();
        for container in ["a", "b", "c"] {
            enqueue(dir.path(), &del(1, container)).unwrap();
        }
        assert_eq!(requests(dir.path()), [del(1, "a"), del(1, "b"), del(1, "c")]);
    }

    #[test]
    fn only_root_looks_inside() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("queue");
        let file = enqueue(&dir, &del(1, "a")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn what_is_torn_or_foreign_is_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let whole = serde_json::to_string(&del(2, "torn")).unwrap();
        enqueue(dir.path(), &del(1, "a")).unwrap();
        fs::write(dir.path().join("00000000000000000002-1-000"), &whole[..whole.len() - 3]).unwrap();
        fs::write(dir.path().join("00000000000000000003-1-000"), "").unwrap();
        fs::write(dir.path().join("00000000000000000004-1-000"), vec![b' '; MAX_FRAME + 9]).unwrap();
        fs::write(dir.path().join(".00000000000000000005-1-000"), "a draft").unwrap();
        enqueue(dir.path(), &del(6, "b")).unwrap();
        assert_eq!(requests(dir.path()), [del(1, "a"), del(6, "b")]);
        for stamp in 2..5 {
            assert!(dir.path().join(format!("0000000000000000000{stamp}-1-000.bad")).exists());
        }
        assert_eq!(list(dir.path()).unwrap().len(), 2, "neither drafts nor bad files wait");
    }

    #[test]
    fn a_file_that_is_gone_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("00000000000000000001-1-000")).unwrap(), None);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        assert!(enqueue(&home.path().join("file/queue"), &del(1, "a")).is_err());
    }

    #[test]
    fn many_writers_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let dir = dir.path();
                scope.spawn(move || {
                    for n in 0..20 {
                        enqueue(dir, &del(n, &format!("c{writer}"))).unwrap();
                    }
                });
            }
        });
        assert_eq!(requests(dir.path()).len(), 160);
    }
}

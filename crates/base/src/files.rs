//! Files that a folder or a user names. What lies under a name may be anything: a reader waits at a pipe for somebody who
//! writes, and a device never ends. So nobody else opens files for reading.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, ErrorKind, Read},
    path::Path,
};

/// Most bytes of a text that a person or a program writes for this one: a prompt, a template, a grammar, settings.
pub const MOST_TEXT: u64 = 256 << 20;

/// Opens the regular file at `path` for reading.
///
/// # Errors
/// When there is none, it cannot be read, or something else lies there.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open(path, File::options().read(true))
}

/// Opens the regular file at `path` to be locked, and makes it where there is none.
///
/// # Errors
/// When it can neither be made nor written, or something else lies there.
pub fn open_lock(path: &Path) -> io::Result<File> {
    open(path, File::options().create(true).append(true))
}

/// All bytes of the regular file at `path`.
///
/// # Errors
/// When there is none, it cannot be read, something else lies there, or it has more than `most` bytes.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let len = file.metadata()?.len();
    let mut bytes = vec![];
    if len <= most {
        bytes.reserve_exact(len as usize);
        // One more: a file may grow while it is read.
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    if len.max(bytes.len() as u64) > most {
        let what = format!("it has {len} bytes, and at most {most} are read");
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// The text of the regular file at `path`, of at most [`MOST_TEXT`] bytes.
///
/// # Errors
/// As for [`read_regular`]; and when it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text_of(read_regular(path, MOST_TEXT)?)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The text of what a person names on a command line, of at most [`MOST_TEXT`] bytes: pipes too, as `<(command)` and
/// `/dev/stdin` are. It waits for who writes, as the person does.
///
/// # Errors
/// When it cannot be read, is too long, or is not UTF-8.
pub fn read_given(path: &Path) -> io::Result<String> {
    let mut bytes = vec![];
    File::open(path)?.take(MOST_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_TEXT {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {MOST_TEXT} bytes")));
    }
    text_of(bytes)
}

/// Has the names in `folder` on disk, so that they are there after a loss of power. Some systems and file systems have no
/// such thing.
///
/// # Errors
/// When the system refuses.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // To open a device may do something already.
    match path.metadata() {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        Ok(about) => regular(&about)?,
        Err(_) => {}
    }
    let file = system::open_at_once(path, options)?;
    // It may be something else by now.
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(about: &Metadata) -> io::Result<()> {
    let wrong = || io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
    about.is_file().then_some(()).ok_or_else(wrong)
}

#[cfg(unix)]
mod system {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use std::{
        fs::{File, OpenOptions},
        io,
        os::unix::fs::OpenOptionsExt,
        path::Path,
    };

    /// Opens without waiting for the other end of a pipe.
    pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        let file = options.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
        // Of regular files only io_uring heeds it, which then does not wait for the disk.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(file)
    }
}

#[cfg(not(unix))]
mod system {
    use std::{
        fs::{File, OpenOptions},
        io,
        path::Path,
    };

    pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        options.open(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, process};

    #[test]
    fn regular_files_are_read_up_to_a_bound() {
        let path = env::temp_dir().join(format!("lamina-files-{}", process::id()));
        fs::write(&path, "grüße").expect("written");
        assert_eq!(read_text(&path).expect("a text"), "grüße");
        assert_eq!(read_regular(&path, 7).expect("its bytes"), "grüße".as_bytes());
        assert_eq!(read_regular(&path, 6).expect_err("too long").kind(), ErrorKind::FileTooLarge);
        assert!(open_lock(&path).expect("opens").try_lock().is_ok());
        fs::write(&path, [0xff]).expect("written");
        assert!(read_text(&path).expect_err("no text").to_string().contains("UTF-8"));
        fs::remove_file(&path).expect("removed");
        assert_eq!(open_regular(&path).expect_err("gone").kind(), ErrorKind::NotFound);
        assert!(open_regular(&env::temp_dir()).is_err());
    }

    /// Without waiting for who writes to the pipe, or for the end of the device.
    #[cfg(target_os = "linux")]
    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let pipe = env::temp_dir().join(format!("lamina-pipe-{}", process::id()));
        let made = process::Command::new("mkfifo").arg(&pipe).status().expect("runs");
        assert!(made.success());
        for path in [pipe.as_path(), "/dev/zero".as_ref()] {
            for opened in [open_regular(path), open_lock(path)] {
                assert_eq!(
                    opened.expect_err("refused").kind(),
                    ErrorKind::InvalidInput,
                    "{}",
                    path.display()
                );
            }
        }
        assert!(system::open_at_once(&pipe, File::options().append(true)).is_err(), "nobody reads");
        assert_eq!(read_given("/dev/zero".as_ref()).expect_err("endless").kind(), ErrorKind::FileTooLarge);
        std::thread::scope(|s| {
            s.spawn(|| fs::write(&pipe, "a text").expect("somebody reads"));
            assert_eq!(read_given(&pipe).expect("a text"), "a text");
        });
        fs::remove_file(&pipe).expect("removed");
    }
}

//! The writer of the log: a thread with a bounded queue. A pipe that nobody reads, or a disk that is full, must not keep
//! requests: what does not fit is dropped and counted.

use prometheus_client::metrics::counter::Counter;
use std::{
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Bytes of lines that wait to be written.
const MOST_BYTES: usize = 1 << 20;

/// Where lines of the log go. Dropping it ends its thread once all lines are written.
pub struct LogWriter(Arc<LogQueue>);

struct LogQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    dropped: Counter,
}

#[derive(Default)]
struct QueueState {
    text: Vec<u8>,
    /// Lines dropped since the last one that was taken.
    dropped: u64,
    writing: bool,
    closed: bool,
}

impl LogWriter {
    /// A writer to stderr, which counts the lines that it drops.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn to_stderr(dropped: Counter) -> io::Result<LogWriter> {
        LogWriter::start(stderr(), dropped)
    }

    fn start(mut out: impl Write + Send + 'static, dropped: Counter) -> io::Result<LogWriter> {
        let queue = Arc::new(LogQueue { state: Mutex::default(), changed: Condvar::new(), dropped });
        let lines = queue.clone();
        thread::Builder::new().name("lamina-log".into()).spawn(move || {
            while let Some(text) = lines.next() {
                // There is nobody to tell.
                _ = out.write_all(&text);
            }
        })?;
        Ok(LogWriter(queue))
    }

    /// Writes a line some time soon, or drops it.
    pub fn line(&self, line: &str) {
        let mut state = self.0.lock();
        if !state.text.is_empty() && state.text.len() + line.len() > MOST_BYTES {
            state.dropped += 1;
            self.0.dropped.inc();
            return;
        }
        state.text.extend_from_slice(line.as_bytes());
        state.text.push(b'\n');
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written, but no longer than `time`.
    pub fn flush(&self, time: Duration) {
        let open = |state: &mut QueueState| state.writing || !state.text.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), time, open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl LogQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All lines that wait; none at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        state.writing = false;
        self.changed.notify_all();
        let idle = |state: &mut QueueState| state.text.is_empty() && !state.closed;
        let mut state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        if state.text.is_empty() {
            return None;
        }
        state.writing = true;
        let mut text = std::mem::take(&mut state.text);
        if std::mem::take(&mut state.dropped) > 0 {
            text.extend_from_slice(b"warning: lines of the log were dropped: it is read too slowly\n");
        }
        Some(text)
    }
}

/// Past the lock of `std`, which whoever else writes there would wait for.
#[cfg(unix)]
fn stderr() -> Box<dyn Write + Send> {
    use std::os::fd::AsFd;
    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(own) => Box::new(std::fs::File::from(own)),
        Err(_) => Box::new(io::stderr()),
    }
}

#[cfg(not(unix))]
fn stderr() -> Box<dyn Write + Send> {
    Box::new(io::stderr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A pipe that takes a write for each permission.
    struct SlowPipe(Receiver<()>, Sender<Vec<u8>>);

    impl Write for SlowPipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            _ = self.1.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_drops_lines_and_says_so() {
        let ((permit, permits), (written, pieces)) = (channel(), channel());
        let dropped = Counter::default();
        let log = LogWriter::start(SlowPipe(permits, written), dropped.clone()).expect("a thread");
        let line = "x".repeat(1000);
        (0..3000).for_each(|_| log.line(&line));
        assert!(dropped.get() > 500, "{}", dropped.get());
        log.flush(Duration::from_millis(10));
        (0..8).for_each(|_| _ = permit.send(()));
        log.flush(Duration::from_secs(20));
        drop(log);
        let text: Vec<u8> = pieces.try_iter().flatten().collect();
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("warning: lines of the log were dropped"));
        assert_eq!(text.matches(&line).count() as u64, 3000 - dropped.get());
    }
}

//! Pages of a cache on their way between memory and disk: jobs go in with a buffer and come out with it, in any order.

use crate::{buffer::PageBuffer, cache_file::CacheFile, error::CachePageError};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

/// Which way pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageWay {
    /// From the file to the buffer.
    In,
    /// From the buffer to the file.
    Out,
}

/// By what whoever submits a job knows it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTag {
    /// Serial number of the pass.
    pub pass: u64,
    /// Which use of a layer it is in the pass.
    pub place: usize,
}

/// Pages of one layer that are moved.
pub struct PageJob {
    /// Comes back with the result.
    pub tag: PageTag,
    /// Which way they go.
    pub way: PageWay,
    /// The array of the file.
    pub array: usize,
    /// Pages, ascending.
    pub pages: Vec<u32>,
    /// Pages that become zeros in memory, and are not read.
    pub cleared: Vec<u32>,
    /// The memory of the whole array.
    pub buffer: PageBuffer,
}

/// A job that is done.
pub struct PageDone {
    /// Of the job.
    pub tag: PageTag,
    /// Which way its pages went.
    pub way: PageWay,
    /// The array of the file.
    pub array: usize,
    /// Its buffer.
    pub buffer: PageBuffer,
    /// Bytes that were read or written.
    pub result: Result<u64, CachePageError>,
}

/// Threads that move pages, one job each at a time. They need no core while a disk works: they are no pool threads.
pub struct PageQueue {
    jobs: Sender<PageJob>,
    done: Receiver<PageDone>,
}

impl PageQueue {
    /// `threads` threads, one at least, over `file`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(file: Arc<CacheFile>, threads: usize) -> io::Result<PageQueue> {
        let (jobs, waiting) = channel();
        let (sender, done) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for i in 0..threads.max(1) {
            let (file, waiting, sender) = (file.clone(), waiting.clone(), sender.clone());
            let builder = thread::Builder::new().name(format!("lamina-page-{i}"));
            // Not joined: one that waits for a disk that hangs would hold up whoever closes the model.
            match builder.spawn(move || serve(&file, &waiting, &sender)) {
                Err(e) if i == 0 => return Err(e),
                _ => {}
            }
        }
        Ok(PageQueue { jobs, done })
    }

    /// Takes a job; does not wait.
    ///
    /// # Errors
    /// When the threads have ended.
    pub fn submit(&self, job: PageJob) -> io::Result<()> {
        self.jobs.send(job).map_err(|_| ended())
    }

    /// A job that is done; none when there is none after `timeout`.
    ///
    /// # Errors
    /// When the threads have ended.
    pub fn next(&self, timeout: Duration) -> io::Result<Option<PageDone>> {
        match self.done.recv_timeout(timeout) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }
}

fn ended() -> io::Error {
    io::Error::other("the threads that move pages of the cache have ended")
}

fn serve(file: &CacheFile, waiting: &Mutex<Receiver<PageJob>>, done: &Sender<PageDone>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(PageJob { tag, way, array, pages, cleared, mut buffer }) = next else { return };
        let result = match way {
            PageWay::In => {
                let stride = file.arrays()[array].stride;
                let bytes = buffer.bytes_mut();
                cleared.iter().for_each(|&page| bytes[page as usize * stride..][..stride].fill(0));
                file.read(array, &pages, bytes)
            }
            PageWay::Out => file.write(array, &pages, buffer.bytes()),
        };
        if done.send(PageDone { tag, way, array, buffer, result }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_file::PageArray;
    use lamina_base::BLOCK;

    #[test]
    fn what_goes_out_comes_in_again_with_its_buffer() {
        let folder = tempfile::tempdir().expect("a folder");
        let arrays = (0..4).map(|layer| PageArray { layer, stride: BLOCK, pages: 8 }).collect();
        let file = Arc::new(CacheFile::create(folder.path(), arrays).expect("made"));
        let queue = PageQueue::start(file, 2).expect("threads");
        let job = |array: usize, way, fill: u8| {
            let mut buffer = PageBuffer::new(8 * BLOCK);
            buffer.bytes_mut().fill(fill);
            let (pages, cleared) = (vec![1, 2, 6], if way == PageWay::In { vec![7] } else { vec![] });
            queue
                .submit(PageJob {
                    tag: PageTag { pass: 7, place: array },
                    way,
                    array,
                    pages,
                    cleared,
                    buffer,
                })
                .expect("taken");
        };
        let all = || -> Vec<PageDone> {
            let next = |_| queue.next(Duration::from_secs(20)).expect("runs").expect("arrives");
            (0..4).map(next).collect()
        };
        (0..4).for_each(|array| job(array, PageWay::Out, array as u8 + 1));
        assert!(all().iter().all(|done| matches!(done.result, Ok(bytes) if bytes == 3 * BLOCK as u64)));
        (0..4).for_each(|array| job(array, PageWay::In, 99));
        for PageDone { tag, buffer, result, .. } in all() {
            result.expect("whole");
            let bytes = [0, 1, 2, 3, 6, 7].map(|page| buffer.bytes()[page * BLOCK]);
            let own = tag.place as u8 + 1;
            assert_eq!(bytes, [99, own, own, 99, own, 0]);
        }
        assert!(queue.next(Duration::ZERO).expect("runs").is_none());
    }
}

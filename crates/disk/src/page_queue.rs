//! Pages of a cache on their way between memory and disk: jobs go in with a buffer and come out with it, in any order.

use crate::{
    buffer::PageBuffer, cache_file::CacheFile, error::CachePageError, in_flight::InFlight, queue::DiskQueue,
};
use std::{io, sync::Arc};

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
    /// By what it is known again.
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

/// Bytes that were read or written.
pub type MovedBytes = Result<u64, CachePageError>;

/// A queue of pages.
pub type PageQueue = InFlight<PageJob, MovedBytes>;

impl InFlight<PageJob, MovedBytes> {
    /// `threads` threads, one at least, over `file`, which move the pages of one job each at a time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(file: Arc<CacheFile>, threads: usize) -> io::Result<PageQueue> {
        DiskQueue::of_threads("pages", threads, move |job: &mut PageJob| job.run(&file)).map(InFlight::over)
    }
}

impl PageJob {
    fn run(&mut self, file: &CacheFile) -> MovedBytes {
        match self.way {
            PageWay::In => {
                let (stride, bytes) = (file.arrays()[self.array].stride, self.buffer.bytes_mut());
                self.cleared.iter().for_each(|&page| bytes[page as usize * stride..][..stride].fill(0));
                file.read(self.array, (0, &self.pages), bytes)
            }
            PageWay::Out => file.write(self.array, (0, &self.pages), self.buffer.bytes()),
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
        let mut queue = PageQueue::start(file, 2).expect("threads");
        let job = |queue: &mut PageQueue, array: usize, way, fill: u8| {
            let mut buffer = PageBuffer::new(8 * BLOCK);
            buffer.bytes_mut().fill(fill);
            let (pages, cleared) = (vec![1, 2, 6], if way == PageWay::In { vec![7] } else { vec![] });
            let tag = PageTag { pass: 7, place: array };
            queue.submit(PageJob { tag, way, array, pages, cleared, buffer });
        };
        let all = |queue: &mut PageQueue| -> Vec<(PageJob, MovedBytes)> {
            (0..4).map(|_| queue.wait().expect("runs").expect("arrives")).collect()
        };
        (0..4).for_each(|array| job(&mut queue, array, PageWay::Out, array as u8 + 1));
        assert!(all(&mut queue).into_iter().all(|(_, moved)| moved.ok() == Some(3 * BLOCK as u64)));
        (0..4).for_each(|array| job(&mut queue, array, PageWay::In, 99));
        for (PageJob { tag, buffer, .. }, moved) in all(&mut queue) {
            moved.expect("whole");
            let bytes = [0, 1, 2, 3, 6, 7].map(|page| buffer.bytes()[page * BLOCK]);
            let own = tag.place as u8 + 1;
            assert_eq!(bytes, [99, own, own, 99, own, 0]);
        }
        assert!(queue.arrived().expect("runs").is_none() && queue.wait().expect("runs").is_none());
        assert_eq!(queue.count(), 0);
    }
}

//! A reader of disks that are not as one would like them.

use lamina_disk::{DiskJobs, DiskReader, InFlight, PanelError, ReadRequest, ReadResult};
use std::{io, time::Duration};

/// Answers in an order of its own, late, and not always well.
struct OddReader {
    waiting: Vec<ReadRequest>,
    /// Requests so far.
    seen: usize,
    /// The request that fails.
    fails: Option<usize>,
    state: u64,
}

impl DiskJobs<ReadRequest, ReadResult> for OddReader {
    fn submit(&mut self, request: ReadRequest) {
        self.waiting.push(request);
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<(ReadRequest, ReadResult)>> {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Nothing has arrived yet, one time of two for who does not wait.
        if self.waiting.is_empty() || timeout.is_zero() && self.state >> 63 == 0 {
            return Ok(None);
        }
        let any = (self.state >> 33) as usize % self.waiting.len();
        let mut request = self.waiting.swap_remove(any);
        self.seen += 1;
        let result = match self.fails == Some(self.seen) {
            true => Err(PanelError::Io {
                what: "read",
                file: "panels".into(),
                source: io::Error::other("broken disk"),
            }),
            false => request.extent.read(&mut request.buffer),
        };
        Ok(Some((request, result)))
    }

    fn withdraw(&mut self, unwanted: &dyn Fn(&ReadRequest) -> bool) -> Vec<ReadRequest> {
        // Not all: others it has begun to read.
        let (back, kept) = self.waiting.drain(..).partition(|r| unwanted(r) && r.tag % 2 == 0);
        self.waiting = kept;
        back
    }
}

/// A reader whose `fails`th read fails.
pub fn odd(fails: Option<usize>, state: u64) -> DiskReader {
    InFlight::over(OddReader { waiting: vec![], seen: 0, fails, state })
}

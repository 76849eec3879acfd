//! What is said of GPUs that are there and are not taken.

use lamina_load::Reporter;
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// GPUs that were looked at for some work and are not taken, in order.
#[derive(Default)]
pub(crate) struct GpuSearch {
    skipped: Vec<SkippedGpu>,
}

struct SkippedGpu {
    device: String,
    why: String,
    /// No work can use it.
    unusable: bool,
}

impl GpuSearch {
    /// Notes a GPU that cannot do this work.
    pub(crate) fn skip(&mut self, device: String, why: &str) {
        self.note(device, why, false);
    }

    /// Notes a GPU that cannot be used at all: it is told once in a process.
    pub(crate) fn skip_unusable(&mut self, device: String, why: &str) {
        self.note(device, why, true);
    }

    fn note(&mut self, device: String, why: &str, unusable: bool) {
        // Reasons begin with the name of the backend, or of the device.
        let why = why.strip_prefix(&format!("{device}: ")).or(why.strip_prefix("cuda: ")).unwrap_or(why);
        self.skipped.push(SkippedGpu { device, why: why.to_owned(), unusable });
    }

    /// Reports why each of them is not taken, and what runs `instead`, in a line each.
    pub(crate) fn tell(&self, instead: &str, report: &Reporter) {
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        for gpu in &self.skipped {
            let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
            if !gpu.unusable || told.insert(gpu.device.clone()) {
                report.line(&format!("{}: {}: running on {instead}", gpu.device, gpu.why));
            }
        }
    }
}

//! The device's read bandwidth, taken between measurements, and the model's own peak of memory.

use lamina::{Device, Error, Result, backend_on};
use lamina_base::peak_rss;
use lamina_plan::Backend;

/// Reads memory as fast as the threads can.
///
/// Neighbours on a shared machine change what is left of its bandwidth from second to second: a speed is held against
/// the reading that follows it.
pub struct Meter {
    backend: Box<dyn Backend>,
    /// Peak before the first reading, whose memory is not the model's, and just after it.
    peaks: Option<[Option<u64>; 2]>,
    readings: Vec<f64>,
}

impl Meter {
    /// A meter of `device` with threads of its own.
    ///
    /// # Errors
    /// When the device cannot be used.
    pub fn new(device: Device, threads: usize) -> Result<Meter> {
        Ok(Meter { backend: backend_on(device, Some(threads))?, peaks: None, readings: vec![] })
    }

    /// Bytes per second now.
    ///
    /// # Errors
    /// When there is no memory to read, or the device cannot be measured.
    pub fn read(&mut self) -> Result<f64> {
        let before = peak_rss();
        let refuse = |why: &str| {
            Error::Unsupported(format!(
                "the read bandwidth of {} cannot be measured{why}",
                self.backend.name()
            ))
        };
        let measured = self.backend.read_bandwidth()?.ok_or_else(|| refuse(""))?;
        let little = ": so little memory is free that caches would be read";
        let bandwidth = measured.memory_rate().ok_or_else(|| refuse(little))?;
        self.readings.push(bandwidth);
        self.peaks.get_or_insert_with(|| [before, peak_rss()]);
        Ok(bandwidth)
    }

    /// Median of all readings.
    pub fn bandwidth(&self) -> f64 {
        median(&self.readings).unwrap_or(0.0)
    }

    /// Largest memory of the process, the meter's own apart.
    pub fn peak_rss(&self) -> Option<u64> {
        let now = peak_rss()?;
        match self.peaks {
            Some([Some(before), Some(after)]) if now <= after => Some(before),
            _ => Some(now),
        }
    }
}

/// Middle of the sorted values; the upper one of two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

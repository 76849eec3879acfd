//! The sums while a model runs.

use super::{Calibration, CalibrationOptions};
use lamina::{Error, Result};
use lamina_base::{human_bytes, zeros};
use lamina_convert::{Covariances, ImatrixWriter};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Plan name to the name in the file.
pub(super) type Names = HashMap<String, String>;

/// Shared by the backend, its machine and the one who asked.
#[derive(Clone)]
pub(super) struct Record(Arc<CalibrationRecord>);

struct CalibrationRecord {
    names: Names,
    output: bool,
    covariances: bool,
    sums: Mutex<InputSums>,
}

#[derive(Default)]
struct InputSums {
    imatrix: ImatrixWriter,
    covariances: HashMap<String, Vec<f64>>,
    /// Bytes of the first covariances that there was no memory for.
    missing: Option<usize>,
}

impl Record {
    pub fn new(names: Names, options: &CalibrationOptions) -> Record {
        let CalibrationOptions { output, covariances, .. } = *options;
        Record(Arc::new(CalibrationRecord { names, output, covariances, sums: Mutex::default() }))
    }

    fn sums(&self) -> MutexGuard<'_, InputSums> {
        self.0.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of `cols` numbers that the plan's weight `name` is applied to; of `matrices` experts that of number `expert`.
    pub fn add(&self, name: &str, (matrices, expert): (usize, usize), cols: usize, x: &[f32]) {
        let Some(in_file) = self.0.names.get(name) else { return };
        let head = in_file == "output.weight" || in_file == "token_embd.weight";
        if head && !self.0.output {
            return;
        }
        let mut sums = self.sums();
        // Sizes come from one plan: they cannot differ from call to call.
        let fits = sums.imatrix.add(in_file, matrices, expert, cols, x);
        debug_assert!(fits.is_ok(), "{fits:?}");
        if self.0.covariances && name.ends_with("attn_k.weight") {
            let InputSums { covariances, missing, .. } = &mut *sums;
            if !covariances.contains_key(name) {
                match zeros(cols * cols, "covariances") {
                    Ok(moments) => _ = covariances.insert(name.to_owned(), moments),
                    // Told at the end: a step has no way to.
                    Err(_) => *missing = missing.or(Some(8 * cols * cols)),
                }
            }
            if let Some(moments) = covariances.get_mut(name) {
                x.chunks_exact(cols).for_each(|row| add_outer(moments, row));
            }
        }
    }

    pub fn finish(&self, dataset: String, windows: usize, context: usize) -> Result<Calibration> {
        let sums = self.sums();
        if let Some(bytes) = sums.missing {
            return Err(Error::OutOfMemory(format!(
                "the covariances of a layer take {}, which cannot be had: end other programs",
                human_bytes(bytes as u64)
            )));
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let imatrix = sums.imatrix.finish(vec![dataset], count(windows), count(context));
        if imatrix.sums.is_empty() {
            return Err(Error::InvalidRequest(
                "the text fills no window: give a longer one or a smaller context".into(),
            ));
        }
        let narrow = |(name, m): (&String, &Vec<f64>)| (name.clone(), m.iter().map(|v| *v as f32).collect());
        Ok(Calibration { imatrix, covariances: sums.covariances.iter().map(narrow).collect::<Covariances>() })
    }
}

fn add_outer(sums: &mut [f64], row: &[f32]) {
    for (line, &a) in sums.chunks_exact_mut(row.len().max(1)).zip(row) {
        line.iter_mut().zip(row).for_each(|(s, &b)| *s += f64::from(a * b));
    }
}

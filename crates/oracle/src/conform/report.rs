//! What the kit found, and how far rows may be from the reference.

use super::is_refusal;
use lamina_base::DType;
pub use lamina_plan::Grade as Bits;
use lamina_plan::{backend::Result, kv::KvType};
use std::fmt;

/// Largest relative error of a row, by what the backend may round.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Everything in float32: only the order of sums differs.
    pub float: f64,
    /// Weights in 16 bits: a backend may round activations to the same type.
    pub half: f64,
    /// Quantized weights: a backend may round activations to 8 bits, which is half a step in 127 of the largest.
    pub quantized: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Tolerance { float: 2e-5, half: 5e-3, quantized: 1.5e-2 }
    }
}

/// What a case rounds.
#[derive(Clone, Copy, Debug)]
pub enum Rounds {
    /// Nothing.
    Float,
    /// Weights of this type.
    Weights(DType),
    /// Keys and values of this type.
    Kv(KvType),
}

impl Rounds {
    /// Largest relative error of a row.
    pub fn tolerance(self, t: Tolerance) -> f64 {
        // A last bit before the rounding moves a stored number by a whole step of its type, so the step counts, not the
        // backend: 2^-11 of the number for f16, 2^-8 for bf16, 2^-4 for fp8, 1/127 and 1/8 of the largest of 32.
        match self {
            Rounds::Float | Rounds::Weights(DType::F32) | Rounds::Kv(KvType::F32) => t.float,
            Rounds::Weights(DType::F16 | DType::BF16) => t.half,
            Rounds::Weights(_) => t.quantized,
            Rounds::Kv(KvType::F16) => t.float + 1e-3,
            Rounds::Kv(KvType::BF16) => t.float + 8e-3,
            Rounds::Kv(KvType::Q8_0) => t.float + 1e-2,
            Rounds::Kv(KvType::F8) => t.float + 6e-2,
            Rounds::Kv(KvType::Q4_0 | KvType::Q4_1) => t.float + 1.2e-1,
        }
    }
}

/// How a case failed.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseFailure {
    /// Rows are not those of the reference.
    Wrong {
        /// Relative error of the worst row.
        error: f64,
        /// What would be right.
        most: f64,
    },
    /// A fused operator does not do what its default body does.
    UnlikeDefault {
        /// Relative error of the worst row.
        error: f64,
        /// What would be right.
        most: f64,
    },
    /// A row's bits depend on something that they must not depend on.
    Depends {
        /// On what.
        on: &'static str,
        /// Sequence of the first such row.
        sequence: usize,
        /// Its position.
        position: usize,
    },
    /// What surrounds operators does not do what it says.
    Queue(&'static str),
    /// The backend failed.
    Error(String),
}

/// Outcome of all cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases that were run.
    pub cases: usize,
    /// Cases that failed, by name.
    pub failures: Vec<(String, CaseFailure)>,
    /// Cases that the backend declined, with its words.
    pub refused: Vec<(String, String)>,
}

impl Report {
    pub(super) fn add(&mut self, name: &str, outcome: Result<Option<CaseFailure>>) {
        self.cases += 1;
        match outcome {
            Ok(None) => {}
            Ok(Some(failure)) => self.failures.push((name.to_owned(), failure)),
            Err(e) if is_refusal(&e) => self.refused.push((name.to_owned(), e.to_string())),
            Err(e) => self.failures.push((name.to_owned(), CaseFailure::Error(e.to_string()))),
        }
    }

    /// Panics with the list of failures, if there are any; for tests.
    ///
    /// # Panics
    /// When a case failed.
    pub fn assert(&self) {
        assert!(self.failures.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} cases, {} failed, {} declined", self.cases, self.failures.len(), self.refused.len())?;
        self.failures.iter().try_for_each(|(name, failure)| writeln!(f, "  {name}: {failure}"))
    }
}

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaseFailure::Wrong { error, most } => {
                write!(f, "{error:.2e} from the reference, {most:.2e} would be right")
            }
            CaseFailure::UnlikeDefault { error, most } => {
                write!(f, "{error:.2e} from its default body, {most:.2e} would be right")
            }
            CaseFailure::Depends { on, sequence, position } => {
                write!(f, "bits depend on {on} (sequence {sequence}, position {position})")
            }
            CaseFailure::Queue(what) => f.write_str(what),
            CaseFailure::Error(message) => f.write_str(message),
        }
    }
}

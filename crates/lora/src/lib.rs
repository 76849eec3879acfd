//! Floor 3 and a quarter: low-rank adapters (LoRA, arXiv 2106.09685), `w + scale * b a` in place of `w`.
//!
//! Adapters of PEFT (a folder with `adapter_config.json` and safetensors) name the weights of the Hugging Face model,
//! GGUF adapters those of the GGUF file; either kind fits either kind of model. The crate stands below the converter,
//! which merges adapters, and below the loader, which puts them beside a running model ([`Adapter::factors`]).
#![forbid(unsafe_code)]

mod error;
mod factors;
mod gguf;
mod peft;

pub use error::{LoraError, Result};
pub use factors::{Factors, Target, Use};

use lamina_base::HostTensor;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The change of one weight: `scale * up down`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// `[rank x cols]`, PEFT's A.
    pub down: Vec<f32>,
    /// `[rows x rank]`, PEFT's B.
    pub up: Vec<f32>,
    /// Inner width.
    pub rank: usize,
    /// `alpha / rank`, or `alpha / sqrt(rank)` of rank-stabilized adapters.
    pub scale: f32,
    /// The model stores this weight with inputs first (GPT-2).
    pub inputs_first: bool,
}

impl Pair {
    /// Outputs of the weight.
    pub fn rows(&self) -> usize {
        self.up.len() / self.rank
    }

    /// Inputs of the weight.
    pub fn cols(&self) -> usize {
        self.down.len() / self.rank
    }

    /// What is added to the weight at strength 1, `[rows x cols]`.
    pub fn delta(&self) -> Vec<f32> {
        let cols = self.cols();
        let mut out = vec![0f32; self.rows() * cols];
        for (row, up) in out.chunks_exact_mut(cols.max(1)).zip(self.up.chunks_exact(self.rank)) {
            for (factor, down) in up.iter().zip(self.down.chunks_exact(cols.max(1))) {
                row.iter_mut().zip(down).for_each(|(o, d)| *o += self.scale * factor * d);
            }
        }
        out
    }

    /// Shape in the checkpoint.
    fn stored_shape(&self) -> Vec<usize> {
        if self.inputs_first { vec![self.cols(), self.rows()] } else { vec![self.rows(), self.cols()] }
    }

    /// [`Pair::delta`] in the layout of the checkpoint.
    fn stored(&self, name: &str) -> HostTensor {
        let delta = self.delta();
        let values = if self.inputs_first { transposed(&delta, self.cols()) } else { delta };
        HostTensor::from_f32(name, self.stored_shape(), &values)
    }
}

/// `values` with rows of `cols` numbers as columns.
fn transposed(values: &[f32], cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|c| values.iter().skip(c).step_by(cols.max(1)).copied()).collect()
}

/// Whose names the weights have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// A Hugging Face model's.
    HuggingFace,
    /// A GGUF file's.
    Gguf,
}

/// An adapter.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Where it was read from.
    pub path: PathBuf,
    /// Changes by the name of the weight.
    pub pairs: BTreeMap<String, Pair>,
    /// Whose names these are.
    pub names: Names,
    /// `general.architecture` of a GGUF adapter.
    architecture: Option<String>,
}

impl Adapter {
    /// The adapter at `path`: a folder that PEFT saved, or a GGUF adapter.
    ///
    /// # Errors
    /// When it is neither, broken, or of a kind that is no plain LoRA.
    pub fn open(path: impl AsRef<Path>) -> Result<Adapter> {
        let path = path.as_ref();
        let (pairs, names, architecture) = match path.is_dir() {
            true => (peft::read(path)?, Names::HuggingFace, None),
            false => {
                let (pairs, architecture) = gguf::read(path)?;
                (pairs, Names::Gguf, architecture)
            }
        };
        if pairs.is_empty() {
            return Err(LoraError::file(path, "holds no LoRA matrices"));
        }
        Ok(Adapter { path: path.to_owned(), pairs, names, architecture })
    }

    /// The changes of the weights `names` of a Hugging Face checkpoint.
    pub fn stored<'a>(&self, names: impl Iterator<Item = &'a String>) -> Vec<HostTensor> {
        names.filter_map(|name| Some(self.pairs.get(name)?.stored(name))).collect()
    }

    /// Names and shapes of all changed weights of a Hugging Face checkpoint, without values.
    pub fn header(&self) -> impl Iterator<Item = (&String, Vec<usize>)> {
        self.pairs.iter().map(|(name, pair)| (name, pair.stored_shape()))
    }
}

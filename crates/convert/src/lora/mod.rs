//! Low-rank adapters (LoRA, arXiv 2106.09685): `w + scale * b a` in place of `w`.
//!
//! Adapters of PEFT (a folder with `adapter_config.json` and safetensors) name the weights of the Hugging Face model,
//! GGUF adapters those of the GGUF file; either kind fits either kind of model.

mod factors;
mod gguf;
mod peft;

pub use factors::{Factors, Target, Use};

use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
    folder,
};
use lamina_arch::weights::Tensor;
use lamina_base::HostTensor;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
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
enum Names {
    HuggingFace,
    Gguf,
}

/// An adapter.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Where it was read from.
    pub path: PathBuf,
    /// Changes by the name of the weight.
    pub pairs: BTreeMap<String, Pair>,
    names: Names,
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
            return Err(ConvertError::file(path, "holds no LoRA matrices"));
        }
        Ok(Adapter { path: path.to_owned(), pairs, names, architecture })
    }

    /// The changes under the names and in the layout of the GGUF form of `draft`.
    fn changes(&self, draft: &Draft) -> Result<Vec<Planned>> {
        if self.names == Names::HuggingFace {
            return folder::changes(draft, self);
        }
        let one = |(name, pair): (&String, &Pair)| {
            let pair = pair.clone();
            let (rows, cols, title) = (pair.rows(), pair.cols(), name.clone());
            let make = move || Ok(Tensor::from_f32(&title, rows, cols, &pair.delta()));
            Planned::new(name, lamina_base::DType::F32, vec![rows, cols], make)
        };
        Ok(self.pairs.iter().map(one).collect())
    }

    /// The changes of the weights `names` of a Hugging Face checkpoint.
    pub(crate) fn stored<'a>(&self, names: impl Iterator<Item = &'a String>) -> Vec<HostTensor> {
        names.filter_map(|name| Some(self.pairs.get(name)?.stored(name))).collect()
    }

    /// Names and shapes of all changed weights of a Hugging Face checkpoint, without values.
    pub(crate) fn header(&self) -> impl Iterator<Item = (&String, Vec<usize>)> {
        self.pairs.iter().map(|(name, pair)| (name, pair.stored_shape()))
    }
}

impl Draft {
    /// Merges `adapter` at strength `scale` (1 is as trained) into the weights. Several may be merged one after another.
    ///
    /// # Errors
    /// When it changes a weight that the model does not have, or one of another shape.
    pub fn merge(&mut self, adapter: &Adapter, scale: f32) -> Result<()> {
        for change in adapter.changes(self)? {
            let wrong =
                |problem: String| ConvertError::file(&adapter.path, format!("`{}` {problem}", change.name));
            let place = self.tensors.iter_mut().find(|t| t.name == change.name);
            let Some(place) = place else {
                return Err(wrong("is no weight of this model: the adapter is of another one".into()));
            };
            if (place.rows(), place.cols()) != (change.rows(), change.cols()) {
                return Err(wrong(format!(
                    "is {} x {} in the adapter, {} x {} in the model",
                    change.rows(),
                    change.cols(),
                    place.rows(),
                    place.cols()
                )));
            }
            *place = sum(place.clone(), change, scale);
        }
        Ok(())
    }
}

fn sum(base: Planned, change: Planned, scale: f32) -> Planned {
    let (name, dtype, shape) = (base.name.clone(), base.dtype, base.shape.clone());
    let (base, change) = (Arc::new(base), Arc::new(change));
    Planned::new(name, dtype, shape, move || {
        let (values, delta) = (base.values()?, change.values()?.to_f32()?);
        let mut sum = values.to_f32()?;
        sum.iter_mut().zip(&delta).for_each(|(s, d)| *s += scale * d);
        Ok(Tensor::from_f32(&base.name, base.rows(), base.cols(), &sum))
    })
}

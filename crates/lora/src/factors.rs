//! Adapters beside a running model: both factors of each change, for the weights as a plan wants them.
//!
//! Cuts of fused tensors and the order of rotary pairs concern rows alone. So the second factor goes through the names
//! and rules of its family in the place of the weight, and the first one stays as it is.

use super::{Adapter, Names, Pair, transposed};
use crate::error::{LoraError, Result};
use lamina_arch::{
    Family, ModelSpec, Weights,
    spec::{Layer, Mixer},
};
use lamina_base::HostTensor;
use lamina_store::{Checkpoint, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The change `up down` of a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    /// Inner width.
    pub rank: usize,
    /// `[rank x cols]`.
    pub down: Vec<f32>,
    /// `[rows x rank]`, with the adapter's own scale.
    pub up: Vec<f32>,
}

/// A weight of a running model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Canonical name.
    pub name: &'a str,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// What is done with it.
    pub used: Use,
}

/// What a running model does with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Multiplies every row by it: adapters can work beside it.
    Product,
    /// Looks rows up.
    Table,
    /// Multiplies rows by some of many matrices.
    Experts,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Use::Product => "a matrix",
            Use::Table => "an embedding",
            Use::Experts => "matrices of experts or heads",
        }
    }
}

/// What to do where only a merged model helps.
const MERGE: &str = "merge the adapter into the model with `lamina convert --lora` instead";

impl Adapter {
    /// The factors of every change that the adapter makes to `targets`, the weights of the model in `source`, by name.
    ///
    /// # Errors
    /// When the adapter is of another architecture, changes anything but products of these shapes, or something that
    /// is none of `targets`.
    pub fn factors(
        &self,
        source: &Checkpoint,
        family: &'static Family,
        spec: &ModelSpec,
        targets: &[Target<'_>],
    ) -> Result<BTreeMap<String, Factors>> {
        let (kind, family, spec) = self.reader(source, family, spec)?;
        let stand_in =
            source.with_tensors(kind, self.pairs.iter().map(|(name, pair)| second(name, pair)).collect());
        let weights = Weights::new(&stand_in, family, &spec);
        let (mut found, mut seen) = (BTreeMap::new(), BTreeSet::new());
        for target in targets {
            let Some(stored) = weights.stored(target.name) else { continue };
            let ([name], Use::Product) = (&stored.parts[..], target.used) else {
                let problem = format!("changes `{}`, {}", stored.parts[0], target.used.name());
                return Err(self.wrong(format!("{problem}, which cannot be done while it runs: {MERGE}")));
            };
            found.insert(target.name.to_owned(), self.of(name, target, &weights)?);
            seen.insert(name.clone());
        }
        match self.pairs.keys().find(|name| !seen.contains(*name)) {
            None => Ok(found),
            Some(name) => Err(self.wrong(format!(
                "changes `{name}`, which {} models do not have or do not multiply with on its own: take an adapter \
                 of this model, or {MERGE}",
                family.name
            ))),
        }
    }

    /// Under which names and rules the adapter's weights are found.
    fn reader(
        &self,
        source: &Checkpoint,
        family: &'static Family,
        spec: &ModelSpec,
    ) -> Result<(Kind, &'static Family, ModelSpec)> {
        let (kind, names, reader) = match (self.names, source.kind) {
            (Names::HuggingFace, _) => (Kind::HuggingFace, source.architecture.as_str(), family),
            (Names::Gguf, Kind::Gguf) => (Kind::Gguf, source.architecture.as_str(), family),
            (Names::Gguf, Kind::HuggingFace) => {
                let (name, reader) = in_gguf(family)?;
                (Kind::Gguf, name, reader)
            }
        };
        if let Some(other) = self.architecture.as_deref().filter(|a| *a != names) {
            return Err(self.wrong(format!("is an adapter of {other}, but the model is of {names}")));
        }
        if kind == source.kind {
            return Ok((kind, reader, spec.clone()));
        }
        // Files of Qwen 3.5 have the value heads of gated delta nets in another order, inputs of a matrix among them.
        let delta = |l: &Layer| matches!(l.mixer, Mixer::GatedDelta(_));
        if in_gguf(family)?.0.starts_with("qwen35") && spec.layers.iter().any(delta) {
            let problem = "names the weights of the other form of this model";
            return Err(
                self.wrong(format!("{problem} (folder or GGUF file), whose heads are ordered otherwise"))
            );
        }
        let pairs = reader.pairs[usize::from(kind == Kind::Gguf)];
        Ok((kind, reader, spec.clone().with_pairs(pairs)))
    }

    fn of(&self, name: &str, target: &Target<'_>, weights: &Weights<'_>) -> Result<Factors> {
        let pair = &self.pairs[name];
        let unfit = || {
            let (rows, cols) = (pair.rows(), pair.cols());
            let want = format!("`{}` is {} x {}", target.name, target.rows, target.cols);
            self.wrong(format!("changes `{name}` as {rows} x {cols}, but the model's {want}"))
        };
        if pair.cols() != target.cols {
            return Err(unfit());
        }
        let up = weights.get(target.name, target.rows, pair.rank).map_err(|_| unfit())?;
        Ok(Factors { rank: pair.rank, down: pair.down.clone(), up: up.to_f32()? })
    }

    fn wrong(&self, problem: String) -> LoraError {
        LoraError::file(&self.path, problem)
    }
}

/// The second factor as the checkpoint would store the weight, `rank` inputs wide.
fn second(name: &str, pair: &Pair) -> HostTensor {
    let up: Vec<f32> = pair.up.iter().map(|v| v * pair.scale).collect();
    match pair.inputs_first {
        false => HostTensor::from_f32(name, vec![pair.rows(), pair.rank], &up),
        true => HostTensor::from_f32(name, vec![pair.rank, pair.rows()], &transposed(&up, pair.rank)),
    }
}

fn in_gguf(family: &'static Family) -> Result<(&'static str, &'static Family)> {
    family.in_gguf().ok_or(LoraError::NoGgufForm { family: family.name })
}

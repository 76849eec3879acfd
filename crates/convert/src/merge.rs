//! Adapters merged into the weights.

use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
    folder,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_lora::{Adapter, Names, Pair};
use std::sync::Arc;

impl Draft {
    /// Merges `adapter` at `scale` (1 is as trained) into the weights. Several may be merged one after another.
    ///
    /// # Errors
    /// When it changes a weight that the model does not have, or one of another shape.
    pub fn merge(&mut self, adapter: &Adapter, scale: f32) -> Result<()> {
        for change in changes(adapter, self)? {
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

/// The changes under the names and in the layout of the GGUF form of `draft`.
fn changes(adapter: &Adapter, draft: &Draft) -> Result<Vec<Planned>> {
    if adapter.names == Names::HuggingFace {
        return folder::changes(draft, adapter);
    }
    let one = |(name, pair): (&String, &Pair)| {
        let pair = pair.clone();
        let (rows, cols, title) = (pair.rows(), pair.cols(), name.clone());
        let make = move || Ok(Tensor::from_f32(&title, rows, cols, &pair.delta()));
        Planned::computed(name, DType::F32, vec![rows, cols], make)
    };
    Ok(adapter.pairs.iter().map(one).collect())
}

fn sum(base: Planned, change: Planned, scale: f32) -> Planned {
    let (name, dtype, shape) = (base.name.clone(), base.dtype, base.shape.clone());
    let (base, change) = (Arc::new(base), Arc::new(change));
    Planned::computed(name, dtype, shape, move || {
        let (values, delta) = (base.values()?, change.values()?.to_f32()?);
        let mut sum = values.to_f32()?;
        sum.iter_mut().zip(&delta).for_each(|(s, d)| *s += scale * d);
        Ok(Tensor::from_f32(&base.name, base.rows(), base.cols(), &sum))
    })
}

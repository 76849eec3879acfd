//! A model of which a plan was made, for machines of any kind.

use lamina_arch::{
    Family,
    weights::{Tensor, Weights},
};
use lamina_fixtures::Numbers;
use lamina_plan::{Backend, BackendWeight, KvType, LORA, Limits, Plan, WeightKind, WeightSpec, adapt, emit};
use lamina_store::Checkpoint;
use std::path::Path;

/// A model of which a plan was made, with adapters beside all of its matrices where there is a rank.
pub struct Opened {
    pub plan: Plan,
    pub tensors: Vec<Tensor>,
}

impl Opened {
    pub fn new(path: &Path, rank: Option<usize>) -> Opened {
        let checkpoint = Checkpoint::open(path).unwrap();
        let family = Family::of(&checkpoint).unwrap();
        let spec = family.spec(&checkpoint).unwrap();
        let weights = Weights::new(&checkpoint, family, &spec);
        let plan = emit(&spec, &|name| weights.has(name));
        let matrices = plan.weights.iter().filter(|w| matches!(w.kind, WeightKind::Matrix { .. }));
        let ranks = rank.map(|rank| matrices.map(|w| (w.name.clone(), vec![rank, 0, 1])).collect());
        let plan = adapt(plan, &ranks.unwrap_or_default());
        let tensor = |w: &WeightSpec| {
            let (rows, cols) = w.kind.shape();
            if LORA.iter().any(|end| w.name.ends_with(end)) {
                let mut made = Numbers::of(&w.name);
                let numbers: Vec<f32> = (0..rows * cols).map(|_| 0.1 * made.uniform()).collect();
                return Tensor::from_f32(&w.name, rows, cols, &numbers);
            }
            weights.get(&w.name, rows, cols).unwrap()
        };
        let tensors = plan.weights.iter().map(tensor).collect();
        Opened { plan, tensors }
    }

    pub fn limits(&self, rows: usize) -> Limits {
        let groups = self.plan.kv.groups.len();
        let kv = vec![KvType::F16.into(); groups];
        Limits { rows, selected: rows, logits: rows, pages: vec![8; groups], states: 4, kv }
    }

    pub fn uploaded(&self, backend: &dyn Backend) -> Vec<BackendWeight> {
        let all = self.plan.weights.iter().zip(&self.tensors);
        all.map(|(spec, tensor)| backend.upload(spec, tensor).unwrap()).collect()
    }
}

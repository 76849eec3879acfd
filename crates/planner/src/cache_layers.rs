//! Which layers of a model the layers of its cache belong to.

use lamina_plan::{Plan, op::Operands};

/// The number of the layer that a weight belongs to; none for what is before and behind layers.
pub(crate) fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Of each layer of the cache, the number of the layer of the model that it belongs to.
pub(crate) fn layers_of_cache(plan: &Plan) -> Vec<usize> {
    let (mut of, mut now) = (vec![0; plan.kv.layers.len()], 0);
    for op in &plan.ops {
        now = op.weights().iter().find_map(|w| layer_of(&plan.weight(*w).name)).unwrap_or(now);
        op.layer().into_iter().for_each(|kv| of[kv] = now);
    }
    of
}

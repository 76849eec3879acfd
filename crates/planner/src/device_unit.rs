//! Parts of a model that a device holds or does not hold, in the order in which it gets them.

use crate::{
    cache_layers::{layer_of, layers_of_cache},
    policy::PlacementPolicy,
    rules::{Home, weight_class},
};
use lamina_plan::{KvLayout, LayerState, Limits, Plan, WeightSpec, op::Op};

/// Weights and layers of the cache that go to a device together.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceUnit {
    /// Weights of the plan.
    pub weights: Vec<usize>,
    /// Layers of the cache.
    pub layers: Vec<usize>,
    /// A rule puts it there.
    pub ruled: bool,
}

/// Units in the order in which a device gets them: all that every token multiplies with, then experts, of which a token uses
/// a few. That is the order of multiplications for a byte and step (KTransformers, SOSP 2025): the last layers come first, as
/// `n_gpu_layers` and `n_cpu_moe` count them. Tables stay where their rows are read.
///
/// `homes` are what rules say of weights, `cache` what they say of layers of the cache.
pub(crate) fn device_units(
    plan: &Plan,
    policy: &PlacementPolicy,
    homes: &[Option<Home>],
    cache: &[Option<Home>],
) -> Vec<DeviceUnit> {
    let experts = expert_weights(plan);
    let layers = plan.weights.iter().filter_map(|w| layer_of(&w.name)).max().map_or(0, |last| last + 1);
    let allowed = |from_end: usize| policy.device_layers.is_none_or(|most| from_end < most);
    let matrix = |i: &usize| plan.weights[*i].kind.is_matrix();
    let free: Vec<usize> = (0..plan.weights.len()).filter(|&i| homes[i].is_none()).filter(matrix).collect();
    let of = |layer: Option<usize>, expert: bool| -> Vec<usize> {
        let inside = |i: &usize| layer_of(&plan.weights[*i].name) == layer && experts[*i] == expert;
        free.iter().copied().filter(inside).collect()
    };
    let cached = cache_allowed(plan, policy, cache);
    let of_cache = layers_of_cache(plan);
    let cache_of = |layer| -> Vec<usize> {
        (0..cached.len()).filter(|&kv| cached[kv] && of_cache[kv] == layer).collect()
    };
    let mixing = |layer| mixing_home(plan, homes, layer);
    let ruled = DeviceUnit {
        weights: (0..plan.weights.len()).filter(|&i| homes[i].is_some_and(Home::on_device)).collect(),
        layers: (0..cache.len()).filter(|&kv| cache[kv] == Some(Home::Device)).collect(),
        ruled: true,
    };
    let last_first = || (0..layers).rev().filter(|&layer| allowed(layers - 1 - layer));
    // The cache is where attention is: what rules say of that holds for both.
    let follows = |layer: usize| DeviceUnit { layers: cache_of(layer), ..DeviceUnit::default() };
    let following =
        (0..layers).rev().filter(|&layer| mixing(layer).is_some_and(Home::on_device)).map(follows);
    let whole = last_first().map(|layer| {
        let layers = if mixing(layer).is_none() { cache_of(layer) } else { vec![] };
        DeviceUnit { weights: of(Some(layer), false), layers, ruled: false }
    });
    let head = allowed(layers).then(|| DeviceUnit { weights: of(None, false), ..DeviceUnit::default() });
    let mixtures =
        last_first().map(|layer| DeviceUnit { weights: of(Some(layer), true), ..DeviceUnit::default() });
    let all = [ruled].into_iter().chain(following).chain(whole).chain(head).chain(mixtures);
    all.filter(|unit| !unit.weights.is_empty() || !unit.layers.is_empty()).collect()
}

/// What rules say of the attention of a layer, or of what stands in its place.
fn mixing_home(plan: &Plan, homes: &[Option<Home>], layer: usize) -> Option<Home> {
    let is = |w: &WeightSpec| {
        w.kind.is_matrix() && layer_of(&w.name) == Some(layer) && weight_class(&w.name) == Some("attention")
    };
    plan.weights.iter().zip(homes).find(|(w, _)| is(w)).and_then(|(_, home)| *home)
}

/// True for the matrices of experts.
fn expert_weights(plan: &Plan) -> Vec<bool> {
    let mut experts = vec![false; plan.weights.len()];
    for op in &plan.ops {
        if let Op::Experts(o) = op {
            [o.gate, o.up, o.down].iter().for_each(|w| experts[w.0 as usize] = true);
        }
    }
    experts
}

/// Layers of the cache that may be on a device: as many as a percentage says, the last ones, where no rule speaks of them.
fn cache_allowed(plan: &Plan, policy: &PlacementPolicy, cache: &[Option<Home>]) -> Vec<bool> {
    let all = plan.kv.layers.len();
    let percent = policy.percent.map_or(100, |p| p.kv.0) as usize;
    let most = (all * percent + 50) / 100;
    (0..all).map(|kv| cache[kv].is_none() && all - kv <= most).collect()
}

/// Bytes of one layer of the cache, where `page` tells those of a page of a group.
pub(crate) fn layer_bytes(
    kv: &KvLayout,
    layer: usize,
    limits: &Limits,
    page: &dyn Fn(&KvLayout, usize) -> usize,
) -> u64 {
    let bytes = match kv.layers[layer] {
        LayerState::Recurrent { conv, state } => size_of::<f32>() * (conv + state) * limits.states,
        state => state.group().map_or(0, |group| page(&kv.alone(layer), group) * limits.pages[group]),
    };
    bytes as u64
}

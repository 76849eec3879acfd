//! Models larger than a device: what of them lies there, and what on the host beside it.

use crate::{
    cache_layers::layers_of_cache,
    cache_plan::{CachePlan, GroupBytes, cache_memory, plan_cache, step_limits},
    device_unit::{DeviceUnit, device_units, layer_bytes},
    error::{PlannerError, Result},
    model::{ModelHeaders, WeightSize},
    options::PlacementOptions,
    policy::PlacementPolicy,
    rules::cache_homes,
    sent_weights::{SentWeights, matrices_sent},
    step_sizes::step_rows,
};
use lamina_base::human_bytes;
use lamina_plan::{Backend, Footprint, GroupSpec, KvTypes, Limits, Plan, WeightKind};
use lamina_stream::{DeviceHomes, TierSide};

/// One part of so many of a device's memory stays free: a driver rounds what it gives out.
const SLACK: u64 = 16;
/// One part of so many is what steps work with at most, before they get fewer rows.
const WORKING: u64 = 4;
/// One part of so many is what the cache is planned with.
const CACHE: u64 = 4;
/// Fewer rows of a step save no more memory.
const LEAST_ROWS: usize = 32;

/// What of a model lies on a device.
#[derive(Clone, Debug)]
pub struct DevicePlacement {
    /// Weights and layers of the cache.
    pub homes: DeviceHomes,
    /// The cache, on both machines.
    pub cache: CachePlan,
    /// Rows of a step.
    pub rows: usize,
    /// Memory of the device that weights take.
    pub weights: u64,
    /// What its machine takes.
    pub machine: Footprint,
    /// Memory of the device that weights are sent to when it multiplies with them, in turn.
    pub staging: u64,
    /// Bytes of the weights that are sent in a step, at most.
    pub sent: u64,
    /// What can be had there.
    pub free: u64,
    /// Bytes of each layer of the cache, were it there.
    pub layer_bytes: Vec<u64>,
}

impl DevicePlacement {
    /// Bytes that weights and cache may take of the device.
    pub fn room(&self) -> u64 {
        (self.free - self.free / SLACK).saturating_sub(self.machine.working() as u64)
    }
}

/// Sizes of steps on both machines.
struct DeviceSteps {
    rows: usize,
    cache: CachePlan,
    limits: Limits,
}

/// A model that is larger than a device, or that its user wants divided.
pub struct DeviceQuestion<'a> {
    /// The model as the host computes it, without a head.
    pub model: &'a ModelHeaders<'a>,
    /// Budgets, rules and sizes.
    pub options: &'a PlacementOptions,
    /// Has memory of its own.
    pub device: &'a dyn Backend,
    /// Has the rest.
    pub host: &'a dyn Backend,
    /// Bytes of the device that others take.
    pub taken: u64,
}

impl DeviceQuestion<'_> {
    /// What lies on the device; none where the user wants nothing there.
    ///
    /// # Errors
    /// When a rule names nothing, or the device holds no part, or not what rules put there.
    pub fn answer(&self) -> Result<Option<DevicePlacement>> {
        let (plan, policy) = (self.model.plan, &self.options.policy);
        let homes = matrices_sent(plan, policy.rule_homes(plan)?);
        let cache = cache_homes(&layers_of_cache(plan), &policy.rules);
        let units = device_units(plan, policy, &homes, &cache);
        if units.is_empty() || policy.percent.is_some_and(|p| p.weights.0 == 0) && !units[0].ruled {
            return Ok(None);
        }
        let sizes = self.model.sizes(self.device);
        let sent = SentWeights::of(self.device, plan, &homes, &sizes)?;
        let sizes = sent.without(sizes);
        let free = self.options.memory_of(self.device).map_or(u64::MAX >> 1, |m| m.free);
        let free = free.saturating_sub(self.taken);
        let usable = free - free / SLACK;
        let (steps, working) = self.steps(&units, free)?;
        let all: Vec<&DeviceUnit> = units.iter().collect();
        let staging = sent.staging(self.device, plan, self.homes(&all)?)?.1;
        let vectors: u64 = (0..sizes.len()).filter(|&i| is_vector(plan, i)).map(|i| sizes[i].bytes).sum();
        let left = usable.saturating_sub(working + vectors + staging);
        let mut chosen = self.choose(&units, &sizes, &steps.limits, left, policy);
        loop {
            let (homes, staging) = sent.staging(self.device, plan, self.homes(&chosen)?)?;
            let machine = self.machine(&homes, &steps.limits)?;
            let on_device = |i: &usize| homes.sides(&plan.weights[*i]).device;
            let weights: u64 = (0..sizes.len()).filter(on_device).map(|i| sizes[i].bytes).sum();
            let fits = weights + machine.total() as u64 + staging <= usable;
            if fits && !chosen.is_empty() {
                let layer_bytes = self.layer_bytes(&steps.limits);
                let sent = sent.bytes(self.device, plan, &homes);
                let DeviceSteps { rows, cache, .. } = steps;
                return Ok(Some(DevicePlacement {
                    homes,
                    cache,
                    rows,
                    weights,
                    machine,
                    staging,
                    sent,
                    free,
                    layer_bytes,
                }));
            }
            // Estimates were too low by a little: the last unit goes.
            if chosen.pop().is_none_or(|unit| unit.ruled) {
                return Err(self.too_small(&units, &sizes, (free, working + staging)));
            }
        }
    }

    /// Rows, cache and limits of steps, and bytes that the device works with: few enough that weights fit beside.
    fn steps(&self, units: &[DeviceUnit], free: u64) -> Result<(DeviceSteps, u64)> {
        let plan = self.model.plan;
        let all: Vec<&DeviceUnit> = units.iter().collect();
        let homes = self.homes(&all)?;
        let mut rows = step_rows(self.host, self.model, self.options);
        loop {
            let (cache, kv) = self.cache(rows, free);
            let limits = step_limits(self.model, rows, &cache, kv);
            let working = self.machine(&homes, &limits)?.working() as u64;
            let fixed = self.options.batch_rows.is_some() || plan.looks_ahead();
            if working <= free / WORKING || fixed || rows <= LEAST_ROWS {
                return Ok((DeviceSteps { rows, cache, limits }, working));
            }
            rows /= 2;
        }
    }

    /// The cache, as if all of it were on the device: a part of that, or what the user asks for.
    fn cache(&self, rows: usize, free: u64) -> (CachePlan, Vec<KvTypes>) {
        let (plan, options) = (self.model.plan, self.options);
        let stored = |(i, g): (usize, &GroupSpec)| {
            let types = self.device.stores_as(&plan.kv, i, options.kv_dtype.of(g.reach));
            self.host.stores_as(&plan.kv, i, types)
        };
        let kv: Vec<KvTypes> = plan.kv.groups.iter().enumerate().map(stored).collect();
        let page = |(i, g): (usize, &GroupSpec)| (g.reach, self.device.page_bytes(&plan.kv, i, kv[i]));
        let groups = GroupBytes { groups: plan.kv.groups.iter().enumerate().map(page).collect(), rows };
        let memory = cache_memory(Some(free / CACHE), options.kv_memory);
        let asked = options.context;
        let one = || CachePlan::of_one(plan, &groups, asked.unwrap_or(self.model.context.min(512)));
        (plan_cache(plan, &groups, self.model.context, asked, memory).unwrap_or_else(|_| one()), kv)
    }

    /// Units in their order, as long as they fit into `left` bytes.
    fn choose<'u>(
        &self,
        units: &'u [DeviceUnit],
        sizes: &[WeightSize],
        limits: &Limits,
        left: u64,
        policy: &PlacementPolicy,
    ) -> Vec<&'u DeviceUnit> {
        let cache = self.layer_bytes(limits);
        let all: u64 = sizes.iter().map(|s| s.bytes).sum();
        let most = policy.percent.map_or(u64::MAX, |p| all / 100 * p.weights.0);
        let (mut taken, mut of_weights) = (0, 0);
        let fits = |unit: &&'u DeviceUnit| {
            let weights: u64 = unit.weights.iter().map(|&i| sizes[i].bytes).sum();
            let cache: u64 = unit.layers.iter().map(|&layer| cache[layer]).sum();
            let fits = taken + weights + cache <= left && of_weights + weights <= most || unit.ruled;
            if fits {
                taken += weights + cache;
                of_weights += weights;
            }
            fits
        };
        units.iter().filter(fits).collect()
    }

    fn layer_bytes(&self, limits: &Limits) -> Vec<u64> {
        let kv = &self.model.plan.kv;
        let page = |layout: &_, group: usize| self.device.page_bytes(layout, group, limits.kv[group]);
        (0..kv.layers.len()).map(|layer| layer_bytes(kv, layer, limits, &page)).collect()
    }

    fn homes(&self, units: &[&DeviceUnit]) -> Result<DeviceHomes> {
        let plan = self.model.plan;
        let side = |there: bool| if there { TierSide::Device } else { TierSide::Host };
        let (mut weights, mut layers) = (vec![false; plan.weights.len()], vec![false; plan.kv.layers.len()]);
        for unit in units {
            unit.weights.iter().for_each(|&i| weights[i] = true);
            unit.layers.iter().for_each(|&i| layers[i] = true);
        }
        Ok(DeviceHomes::of(plan, &|w| side(weights[w.0 as usize]), &|kv| side(layers[kv]))?)
    }

    /// What the device's machine would take; of one that cannot say, its slots.
    fn machine(&self, homes: &DeviceHomes, limits: &Limits) -> Result<Footprint> {
        let whole = homes.ordered(self.model.plan.clone());
        let plan = homes.split(&whole)?.plan_of(&whole, TierSide::Device);
        let told = self.device.footprint(&plan, limits)?;
        let slots = || Footprint { arena: size_of::<f32>() * plan.arena(limits).len, ..Footprint::default() };
        Ok(told.unwrap_or_else(slots))
    }

    fn too_small(
        &self,
        units: &[DeviceUnit],
        sizes: &[WeightSize],
        (free, working): (u64, u64),
    ) -> PlannerError {
        let bytes = |unit: &DeviceUnit| unit.weights.iter().map(|&i| sizes[i].bytes).sum::<u64>();
        let least = units.iter().find(|u| u.ruled).or(units.iter().min_by_key(|u| bytes(u))).map_or(0, bytes);
        let what = if units.iter().any(|u| u.ruled) { "what rules put there" } else { "its smallest part" };
        PlannerError::OutOfMemory(format!(
            "{} has {} of memory that can be had, but {what} takes {} of weights beside {} to work in: allow more, ask for a \
             smaller context or fewer rows, or use device=\"cpu\"",
            self.device.about().device,
            human_bytes(free),
            human_bytes(least),
            human_bytes(working)
        ))
    }
}

fn is_vector(plan: &Plan, i: usize) -> bool {
    matches!(plan.weights[i].kind, WeightKind::Vector { .. })
}

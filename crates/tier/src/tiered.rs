//! A backend over two others: a device with memory of its own, and the host.

use crate::{
    device_homes::DeviceHomes,
    tier_plan::{TierPlan, elsewhere},
    tier_side::{TierSide, TierSides},
    tiered_machine::TieredMachine,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{
    About, Backend, Capabilities, Footprint, Grade, KvLayout, KvTypes, Limits, Memory, Plan, WeightLayout,
    WeightSpec,
    backend::{PanelFill, Result},
    op::Op,
};
use std::ops::Range;

/// A backend over two: weights and layers of the cache lie where [`DeviceHomes`] says, and operators are run where these
/// lie. What it tells of memory is that of the host: [`Backend::device_bytes`],
/// [`Tiered::device_page_bytes`] and [`Tiered::device_footprint`] tell the device's.
///
/// Between unlike machines the bits of a row depend on where operators run, which is fixed with the homes, and on nothing
/// else.
#[derive(Clone)]
pub struct Tiered<A, B> {
    /// Has memory of its own.
    pub device: A,
    /// Has the rest.
    pub host: B,
    /// What lies on the device.
    pub homes: DeviceHomes,
}

/// A weight on the device, on the host, or on both.
pub struct TieredWeight<A, B> {
    device: Option<A>,
    host: Option<B>,
}

impl<A, B> TieredWeight<A, B> {
    fn sides(&self) -> TierSides {
        TierSides { device: self.device.is_some(), host: self.host.is_some() }
    }
}

impl<A: Backend, B: Backend> Tiered<A, B> {
    /// Bytes on the device of one page of a layer group, over its layers there.
    pub fn device_page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        self.device.page_bytes(&self.homes.layout(layout, TierSide::Device), group, types)
    }

    /// What the machine would take on the device, to the byte; none where the device cannot say.
    ///
    /// # Errors
    /// When the plan cannot be divided, or some size is more than an address can say.
    pub fn device_footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        self.device.footprint(&self.split(plan)?.plan_of(plan, TierSide::Device), limits)
    }

    /// How `plan` is divided.
    ///
    /// # Errors
    /// When no machine has all weights of an operator.
    pub fn split(&self, plan: &Plan) -> Result<TierPlan> {
        self.homes.split(plan)
    }

    fn on_host(&self, weight: B::Weight) -> TieredWeight<A::Weight, B::Weight> {
        TieredWeight { device: None, host: Some(weight) }
    }
}

/// What of a plan a backend does not run.
fn refusal<B: Backend>(backend: &B, plan: &Plan) -> Option<String> {
    let has = backend.capabilities().ops;
    let missing = |name: &&str| Op::PLAIN.contains(name) && !has.contains(name);
    let operator = plan.ops.iter().map(Op::name).find(missing).map(|name| format!("the operator {name}"));
    operator.or_else(|| backend.refuses(plan))
}

impl<A: Backend, B: Backend> Backend for Tiered<A, B> {
    type Weight = TieredWeight<A::Weight, B::Weight>;
    type Machine = TieredMachine<A::Machine, B::Machine>;

    fn name(&self) -> &'static str {
        "tiered"
    }

    /// Operators of either: [`Backend::refuses`] looks at who would run them.
    fn capabilities(&self) -> Capabilities {
        let (device, host) = (self.device.capabilities(), self.host.capabilities());
        let all_batches = device.bits == Grade::AllBatches && host.bits == Grade::AllBatches;
        let more: Vec<_> = device.ops.iter().filter(|op| !host.ops.contains(op)).copied().collect();
        Capabilities {
            types: host.types.into_iter().filter(|t| device.types.contains(t)).collect(),
            ops: host.ops.into_iter().chain(more).collect(),
            bits: if all_batches { Grade::AllBatches } else { Grade::PerShape },
            selects_cells: device.selects_cells && host.selects_cells,
        }
    }

    /// For a second model, which lies on the host but for what it shares with the first.
    fn handle(&self) -> Option<Self> {
        let homes = DeviceHomes::default();
        Some(Tiered { device: self.device.handle()?, host: self.host.handle()?, homes })
    }

    fn about(&self) -> About {
        let (device, host) = (self.device.about(), self.host.about());
        About {
            device: format!("{} + {}", device.device, host.device),
            kernels: format!("{} + {}", device.kernels, host.kernels),
            threads: host.threads,
        }
    }

    fn identity(&self) -> String {
        format!("{} {} {}", self.device.identity(), self.host.identity(), self.homes.text())
    }

    fn memory(&self) -> Option<Memory> {
        self.host.memory()
    }

    fn rows(&self) -> usize {
        self.host.rows()
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        let split = match self.split(plan) {
            Ok(split) => split,
            Err(e) => return Some(e.to_string()),
        };
        let device = refusal(&self.device, &split.plan_of(plan, TierSide::Device));
        device.or_else(|| refusal(&self.host, &split.plan_of(plan, TierSide::Host)))
    }

    fn runs_as(&self, dtype: DType) -> DType {
        self.host.runs_as(dtype)
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        if self.homes.sides(spec).host { self.host.weight_bytes(spec, dtype) } else { 0 }
    }

    fn shares_memory(&self) -> bool {
        self.host.shares_memory()
    }

    fn device_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        if self.homes.sides(spec).device { self.device.weight_bytes(spec, dtype) } else { 0 }
    }

    fn reads_rows(&self) -> bool {
        self.host.reads_rows()
    }

    fn read_bandwidth(&self) -> Result<Option<f64>> {
        self.host.read_bandwidth()
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<Self::Weight> {
        let sides = self.homes.sides(spec);
        Ok(TieredWeight {
            device: sides.device.then(|| self.device.upload(spec, tensor)).transpose()?,
            host: sides.host.then(|| self.host.upload(spec, tensor)).transpose()?,
        })
    }

    fn share(&self, weight: &Self::Weight) -> Option<Self::Weight> {
        let device = weight.device.as_ref().map(|w| self.device.share(w));
        let host = weight.host.as_ref().map(|w| self.host.share(w));
        match (device, host) {
            (Some(None), _) | (_, Some(None)) => None,
            (device, host) => Some(TieredWeight { device: device.flatten(), host: host.flatten() }),
        }
    }

    /// Of what lies on the host alone: that can be streamed.
    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        if self.homes.sides(spec).device { None } else { self.host.layout(spec, dtype) }
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.host.pack(spec, tensor, panels, out)
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<Self::Weight> {
        Ok(self.on_host(self.host.unbound(spec, dtype)?))
    }

    fn upload_panels(&self, spec: &WeightSpec, dtype: DType, fill: PanelFill<'_>) -> Result<Self::Weight> {
        Ok(self.on_host(self.host.upload_panels(spec, dtype, fill)?))
    }

    fn stores_as(&self, layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
        self.host.stores_as(layout, group, self.device.stores_as(layout, group, types))
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        self.host.page_bytes(&self.homes.layout(layout, TierSide::Host), group, types)
    }

    fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        self.host.footprint(&self.split(plan)?.plan_of(plan, TierSide::Host), limits)
    }

    fn machine(self, plan: &Plan, weights: Vec<Self::Weight>, limits: &Limits) -> Result<Self::Machine> {
        let sides: Vec<TierSides> = weights.iter().map(TieredWeight::sides).collect();
        let split = TierPlan::of(plan, &sides, &self.homes.layers(&plan.kv))?;
        let (device, host): (Vec<_>, Vec<_>) = weights.into_iter().map(|w| (w.device, w.host)).unzip();
        let (device, host) = (filled(&self.device, device)?, filled(&self.host, host)?);
        let device = self.device.machine(&split.plan_of(plan, TierSide::Device), device, limits)?;
        let host = self.host.machine(&split.plan_of(plan, TierSide::Host), host, limits)?;
        TieredMachine::new(device, host, plan, split, limits)
    }
}

/// Weights with something in the place of those that are elsewhere.
fn filled<B: Backend>(backend: &B, weights: Vec<Option<B::Weight>>) -> Result<Vec<B::Weight>> {
    let spec = elsewhere();
    let nothing = Tensor::from_f32(&spec.name, 1, 1, &[0.0]);
    let one = backend.upload(&spec, &nothing)?;
    let fill = |weight: Option<B::Weight>| match weight.or_else(|| backend.share(&one)) {
        Some(weight) => Ok(weight),
        None => backend.upload(&spec, &nothing),
    };
    weights.into_iter().map(fill).collect()
}

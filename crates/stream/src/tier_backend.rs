//! A backend over two others: a device with memory of its own, and the host.

use crate::{
    device_homes::DeviceHomes,
    host_copy::HostCopy,
    sender::{STAGING_SLOTS, WeightSender, slot_bytes},
    tier_machine::TieredMachine,
    tier_plan::TierPlan,
    tier_side::{TierSide, TierSides},
};
use lamina_arch::weights::Tensor;
use lamina_base::{Bytes, DType};
use lamina_disk::PageBuffer;
use lamina_plan::{
    About, Backend, BackendError, BackendWeight, Capabilities, Footprint, Grade, KvLayout, KvTypes, Limits,
    Memory, Ops, PanelFill, Panels, Plan, ReadSpeed, Reports, Sizes, WeightId, WeightLayout, WeightSpec,
    backend::Result,
};
use std::ops::Range;

/// A backend over two: weights and layers of the cache lie where [`DeviceHomes`] says, and operators are run where these
/// lie. What it tells of memory is that of the host: [`Sizes::device_bytes`] and [`Tiered::device_footprint`] tell the device's.
///
/// Between unlike machines the bits of a row depend on where operators run, which is fixed with the homes, and on nothing
/// else.
pub struct Tiered {
    /// Has memory of its own.
    pub device: Box<dyn Backend>,
    /// Has the rest.
    pub host: Box<dyn Backend>,
    /// What lies on the device.
    pub homes: DeviceHomes,
}

/// A weight on the device, on the host, or on both.
struct TieredWeight {
    device: Option<BackendWeight>,
    host: Option<BackendWeight>,
    /// What the host has of one that is sent to the device.
    copy: Option<HostCopy>,
}

impl TieredWeight {
    fn sides(&self) -> TierSides {
        TierSides { device: self.device.is_some(), host: self.host.is_some() }
    }
}

impl Tiered {
    /// `device` and `host` as one backend.
    pub fn new(
        device: impl Into<Box<dyn Backend>>,
        host: impl Into<Box<dyn Backend>>,
        homes: DeviceHomes,
    ) -> Tiered {
        Tiered { device: device.into(), host: host.into(), homes }
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

    fn on_host(&self, weight: BackendWeight) -> BackendWeight {
        BackendWeight::new(TieredWeight { device: None, host: Some(weight), copy: None })
    }

    /// A weight that is sent to the device, of which `fill` writes all panels in the device's form; it is on disk where nobody
    /// does.
    fn on_its_way(
        &self,
        spec: &WeightSpec,
        dtype: DType,
        fill: Option<HostFill<'_>>,
    ) -> Result<BackendWeight> {
        let layout = self.device.layout(spec, dtype).ok_or_else(|| BackendError::Unsupported {
            backend: self.device.name(),
            what: format!("`{}`, which is sent to it when it is used", spec.name),
        })?;
        let (panels, len) = (layout.matrices * layout.panels, layout.bytes());
        let filled = |fill: HostFill<'_>| {
            let mut memory = PageBuffer::new(len);
            fill(panels, &mut memory.bytes_mut()[..len]).map(|()| Bytes::new(HostPanels(memory)))
        };
        let bytes = fill.map(filled).transpose()?.and_then(|bytes| bytes.slice(0..len));
        let copy = match bytes {
            Some(bytes) => HostCopy::whole(layout.matrices, bytes),
            None => HostCopy::away(layout.matrices, len),
        };
        let device = Some(self.device.need_panels()?.unbound(spec, dtype)?);
        Ok(BackendWeight::new(TieredWeight { device, host: None, copy: Some(copy) }))
    }
}

/// Writes so many panels of a weight, all of them.
type HostFill<'a> = &'a dyn Fn(usize, &mut [u8]) -> Result<()>;

/// Panels in the device's form in the host's memory.
struct HostPanels(PageBuffer);

impl AsRef<[u8]> for HostPanels {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Bytes of staging slots that `device` needs for the weights of `plan` that are sent to it, of types `dtypes`.
///
/// # Errors
/// When the plan cannot be divided.
pub fn staging_bytes(
    device: &dyn Backend,
    homes: &DeviceHomes,
    plan: &Plan,
    dtypes: &dyn Fn(WeightId) -> DType,
) -> Result<usize> {
    let len = |w: WeightId| {
        let spec = Some(plan.weight(w)).filter(|spec| homes.is_sent(spec))?;
        Some(device.layout(spec, dtypes(w))?.bytes())
    };
    Ok(STAGING_SLOTS * slot_bytes(plan, &homes.split(plan)?, &len))
}

impl Reports for Tiered {
    fn name(&self) -> &'static str {
        "tiered"
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

    fn read_bandwidth(&self) -> Result<Option<ReadSpeed>> {
        self.host.read_bandwidth()
    }
}

impl Sizes for Tiered {
    fn memory(&self) -> Option<Memory> {
        self.host.memory()
    }

    fn runs_as(&self, dtype: DType) -> DType {
        self.host.runs_as(dtype)
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        if self.homes.is_sent(spec) {
            return self.device.layout(spec, dtype).map_or(0, |layout| layout.bytes());
        }
        if self.homes.sides(spec).host { self.host.weight_bytes(spec, dtype) } else { 0 }
    }

    fn device_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        if self.homes.sides(spec).device && !self.homes.is_sent(spec) {
            self.device.weight_bytes(spec, dtype)
        } else {
            0
        }
    }

    fn sent_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        if self.homes.is_sent(spec) { self.weight_bytes(spec, dtype) } else { 0 }
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
}

impl Backend for Tiered {
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
            attention_unit: device.attention_unit.max(host.attention_unit),
            shares_memory: host.shares_memory,
            reads_rows: host.reads_rows,
            binds_cache: host.binds_cache,
            // Experts may be on both.
            parts_experts: false,
            pages_by_head: false,
        }
    }

    /// For a second model, which lies on the host but for what it shares with the first.
    fn handle(&self) -> Option<Box<dyn Backend>> {
        let homes = DeviceHomes::default();
        Some(Box::new(Tiered { device: self.device.handle()?, host: self.host.handle()?, homes }))
    }

    fn rows(&self) -> usize {
        self.host.rows()
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        let split = match self.split(plan) {
            Ok(split) => split,
            Err(e) => return Some(e.to_string()),
        };
        let device = self.device.refusal(&split.plan_of(plan, TierSide::Device));
        device.or_else(|| self.host.refusal(&split.plan_of(plan, TierSide::Host)))
    }

    /// What the device computes beside the host comes before what it is beside.
    fn ordered(&self, plan: Plan) -> Plan {
        self.homes.ordered(plan)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        if self.homes.is_sent(spec) {
            let own = self.device.need_panels()?;
            let pack = |panels, out: &mut [u8]| own.pack(spec, tensor, 0..panels, out);
            return self.on_its_way(spec, tensor.dtype, Some(&pack));
        }
        let sides = self.homes.sides(spec);
        Ok(BackendWeight::new(TieredWeight {
            device: sides.device.then(|| self.device.upload(spec, tensor)).transpose()?,
            host: sides.host.then(|| self.host.upload(spec, tensor)).transpose()?,
            copy: None,
        }))
    }

    /// What is sent is not: a second machine would need staging slots of its own.
    fn share(&self, weight: &BackendWeight) -> Option<BackendWeight> {
        let weight = weight.get::<TieredWeight>().filter(|weight| weight.copy.is_none())?;
        let device = weight.device.as_ref().map(|w| self.device.share(w));
        let host = weight.host.as_ref().map(|w| self.host.share(w));
        match (device, host) {
            (Some(None), _) | (_, Some(None)) => None,
            (device, host) => {
                let (device, host) = (device.flatten(), host.flatten());
                Some(BackendWeight::new(TieredWeight { device, host, copy: None }))
            }
        }
    }

    fn panels(&self) -> Option<&dyn Panels> {
        Some(self)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let weights: Vec<TieredWeight> = BackendWeight::own(weights, self.name())?;
        let sides: Vec<TierSides> = weights.iter().map(TieredWeight::sides).collect();
        let split = TierPlan::of(plan, &sides, &self.homes.layers(&plan.kv))?;
        let (mut device, mut host, mut copies) = (vec![], vec![], vec![]);
        for weight in weights {
            device.push(weight.device);
            host.push(weight.host);
            copies.push(weight.copy);
        }
        let (device, host) = (filled(&*self.device, device)?, filled(&*self.host, host)?);
        let mut device = self.device.machine(&split.plan_of(plan, TierSide::Device), device, limits)?;
        let host = self.host.machine(&split.plan_of(plan, TierSide::Host), host, limits)?;
        let sender = match WeightSender::new(plan, &split, copies) {
            Some((sender, bytes)) => {
                device.stage(STAGING_SLOTS, bytes)?;
                sender.resident().for_each(|bytes| device.pin(bytes));
                Some(sender)
            }
            None => None,
        };
        Ok(Box::new(TieredMachine::new((device, host), plan, split, sender, limits)?))
    }
}

impl Panels for Tiered {
    /// Of what the host has, and can read from disk.
    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        match self.homes.is_sent(spec) {
            true => self.device.layout(spec, dtype),
            false if self.homes.sides(spec).device => None,
            false => self.host.layout(spec, dtype),
        }
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        match self.homes.is_sent(spec) {
            true => self.device.need_panels()?.pack(spec, tensor, panels, out),
            false => self.host.need_panels()?.pack(spec, tensor, panels, out),
        }
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<BackendWeight> {
        match self.homes.is_sent(spec) {
            true => self.on_its_way(spec, dtype, None),
            false => Ok(self.on_host(self.host.need_panels()?.unbound(spec, dtype)?)),
        }
    }

    fn upload_panels(&self, spec: &WeightSpec, dtype: DType, fill: PanelFill<'_>) -> Result<BackendWeight> {
        match self.homes.is_sent(spec) {
            true => self.on_its_way(spec, dtype, Some(&|panels, out: &mut [u8]| fill(0..panels, out))),
            false => Ok(self.on_host(self.host.need_panels()?.upload_panels(spec, dtype, fill)?)),
        }
    }
}

/// Weights with something in the place of those that are elsewhere.
fn filled(backend: &dyn Backend, weights: Vec<Option<BackendWeight>>) -> Result<Vec<BackendWeight>> {
    let spec = WeightSpec::elsewhere();
    let nothing = Tensor::from_f32(&spec.name, 1, 1, &[0.0]);
    let one = backend.upload(&spec, &nothing)?;
    let fill = |weight: Option<BackendWeight>| match weight.or_else(|| backend.share(&one)) {
        Some(weight) => Ok(weight),
        None => backend.upload(&spec, &nothing),
    };
    weights.into_iter().map(fill).collect()
}

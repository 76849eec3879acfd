//! The backend: takes weights over, counts the memory that a plan needs, and builds its machine.

use crate::{
    device::GpuDevice,
    format::{FORMATS, PanelFormat},
    golden, host_panels,
    kv::page_bytes,
    machine::{Enqueue, GpuMachine},
    ops::recurrent::MOST_TAPS,
    scratch::UNIT,
    weight::GpuWeight,
};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_plan::{
    About, Backend, BackendWeight, Batch, Capabilities, Footprint, KernelBits, KvLayout, KvTypes, Limits,
    Memory, Ops, Panels, Plan, ReadSpeed, Reports, Sizes, WeightLayout, WeightSpec, backend::Result, op::*,
};
use std::{ops::Range, time::Instant};

/// Copies whose time is taken together.
const COPIES: usize = 8;

/// A GPU backend over a device.
#[derive(Clone)]
pub struct Gpu<D: GpuDevice> {
    device: D,
}

impl<D: GpuDevice> Gpu<D> {
    /// The backend of `device`.
    pub fn new(device: D) -> Self {
        Gpu { device }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }
}

impl<D: GpuDevice> Reports for Gpu<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn about(&self) -> About {
        let info = self.device.info();
        About { device: info.device, kernels: info.kernels, threads: 1 }
    }

    /// By copies inside the device's memory, which read and write it.
    fn read_bandwidth(&self) -> Result<Option<ReadSpeed>> {
        let half = (self.device.info().free / 16).min(256 << 20) as usize;
        if half == 0 {
            return Ok(None);
        }
        let buffer = self.device.alloc(2 * half, "measuring the memory's speed")?;
        self.device.clear(&buffer, 0, 2 * half)?;
        self.device.copy(&buffer, 0, half, half)?;
        self.device.wait()?;
        let start = Instant::now();
        (0..COPIES).try_for_each(|_| self.device.copy(&buffer, 0, half, half))?;
        self.device.wait()?;
        let rate = (COPIES * 2 * half) as f64 / start.elapsed().as_secs_f64();
        Ok(Some(ReadSpeed::of_memory(rate)))
    }

    fn kernel_bits(&self) -> Result<Option<KernelBits>> {
        golden::compare(&self.device).map(Some)
    }
}

impl<D: GpuDevice> Sizes for Gpu<D> {
    fn memory(&self) -> Option<Memory> {
        let info = self.device.info();
        Some(Memory { free: info.free, total: info.total })
    }

    fn runs_as(&self, dtype: DType) -> DType {
        PanelFormat::of(dtype).dtype
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        PanelFormat::weight_bytes(spec, dtype)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        page_bytes(layout, group, types)
    }

    fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        Ok(Some(GpuMachine::footprint(&self.device, plan, limits)))
    }
}

impl<D: GpuDevice> Backend for Gpu<D> {
    fn capabilities(&self) -> Capabilities {
        let types = FORMATS.iter().map(|f| f.dtype).collect();
        let ops = Op::PLAIN.iter().copied().chain(FUSED).collect();
        Capabilities { attention_unit: UNIT, ..Capabilities::new(types, ops) }
    }

    fn handle(&self) -> Option<Box<dyn Backend>> {
        Some(Box::new(self.clone()))
    }

    fn rows(&self) -> usize {
        2048
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        if plan.is_sparse() {
            return Some("sparse attention".to_owned());
        }
        plan.ops.iter().find_map(|op| match op {
            Op::Conv(o) => {
                let (_, len) = plan.weight(o.weight).kind.shape();
                let taps = len / plan.width(o.x).max(1);
                (taps > MOST_TAPS).then(|| format!("a convolution of {taps} taps, more than {MOST_TAPS}"))
            }
            _ => None,
        })
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        GpuWeight::upload(&self.device, spec, tensor).map(BackendWeight::new)
    }

    fn share(&self, weight: &BackendWeight) -> Option<BackendWeight> {
        weight.get::<GpuWeight<D>>().cloned().map(BackendWeight::new)
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
        let weights = BackendWeight::own(weights, self.name())?;
        Ok(Box::new(GpuMachine::new(self.device, plan, weights, limits)?))
    }
}

impl<D: GpuDevice> Panels for Gpu<D> {
    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        host_panels::layout(spec, dtype)
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        host_panels::pack(spec, tensor, panels, out)
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<BackendWeight> {
        GpuWeight::unbound(&self.device, spec, dtype).map(BackendWeight::new)
    }
}

/// Fused operators with launches of their own; the others run as what they stand for.
const FUSED: [&str; 2] = ["Project", "LinearAdd"];

macro_rules! operators {
    (plain { $($(#[$_doc:meta])* $plain:ident $Plain:ident,)* } fused { $($fused:tt)* }) => {
        impl<D: GpuDevice> Ops for GpuMachine<D> {
            $(fn $plain(&mut self, b: &Batch, o: &$Plain) -> Result<()> { self.enqueue(b, o) })*

            fn project(&mut self, b: &Batch, o: &Project) -> Result<()> {
                self.enqueue(b, o)
            }

            fn linear_add(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
                self.enqueue(b, o)
            }
        }
    };
}

lamina_plan::for_each_op!(operators);

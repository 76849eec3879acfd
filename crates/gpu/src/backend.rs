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
    About, Backend, Batch, Capabilities, Footprint, Grade, KernelBits, KvLayout, KvTypes, Limits, Memory,
    Ops, Plan, WeightLayout, WeightSpec, backend::Result, op::*,
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

impl<D: GpuDevice> Backend for Gpu<D> {
    type Weight = GpuWeight<D>;
    type Machine = GpuMachine<D>;

    fn name(&self) -> &'static str {
        D::NAME
    }

    fn capabilities(&self) -> Capabilities {
        let types = FORMATS.iter().map(|f| f.dtype).collect();
        let ops = Op::PLAIN.iter().copied().chain(FUSED).collect();
        Capabilities { types, ops, bits: Grade::AllBatches, selects_cells: false, attention_unit: UNIT }
    }

    fn handle(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn about(&self) -> About {
        let info = self.device.info();
        About { device: info.device, kernels: info.kernels, threads: 1 }
    }

    fn memory(&self) -> Option<Memory> {
        let info = self.device.info();
        Some(Memory { free: info.free, total: info.total })
    }

    fn rows(&self) -> usize {
        2048
    }

    /// By copies inside the device's memory, which read and write it.
    fn read_bandwidth(&self) -> Result<Option<f64>> {
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
        Ok(Some((COPIES * 2 * half) as f64 / start.elapsed().as_secs_f64()))
    }

    fn kernel_bits(&self) -> Result<Option<KernelBits>> {
        golden::compare(&self.device).map(Some)
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

    fn runs_as(&self, dtype: DType) -> DType {
        PanelFormat::of(dtype).dtype
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        PanelFormat::weight_bytes(spec, dtype)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<Self::Weight> {
        GpuWeight::upload(&self.device, spec, tensor)
    }

    fn share(&self, weight: &Self::Weight) -> Option<Self::Weight> {
        Some(weight.clone())
    }

    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        host_panels::layout(spec, dtype)
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        host_panels::pack(spec, tensor, panels, out)
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<Self::Weight> {
        GpuWeight::unbound(&self.device, spec, dtype)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        page_bytes(layout, group, types)
    }

    fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        Ok(Some(GpuMachine::footprint(&self.device, plan, limits)))
    }

    fn machine(self, plan: &Plan, weights: Vec<Self::Weight>, limits: &Limits) -> Result<Self::Machine> {
        GpuMachine::new(self.device, plan, weights, limits)
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

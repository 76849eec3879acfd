//! The backend: takes weights over, counts the memory that a plan needs, and builds its machine.

use crate::{
    error::{NAME, failed},
    machine::CandleMachine,
    pool::stored_types,
    weight::{CandleWeight, MatrixForm},
};
use candle_core::Device;
use lamina_arch::weights::Tensor;
use lamina_base::{DType, available_memory, total_memory};
use lamina_plan::{
    About, Backend, BackendWeight, Batch, Capabilities, KvLayout, KvTypes, LayerState, Limits, Memory, Ops,
    Plan, Reports, Sizes, WeightSpec, backend::Result, kv::PAGE_LEN, op::*,
};

/// A backend over candle's tensors on one of its devices.
#[derive(Clone)]
pub struct Candle {
    device: Device,
    form: MatrixForm,
}

impl Candle {
    /// candle's CPU device, with matrices in this form.
    pub fn cpu(form: MatrixForm) -> Candle {
        Candle { device: Device::Cpu, form }
    }

    /// The first GPU that Metal has, with matrices as the file has them.
    ///
    /// # Errors
    /// When there is none, or this build was made without the feature `metal`.
    pub fn metal() -> Result<Candle> {
        Ok(Candle { device: Device::new_metal(0).map_err(failed)?, form: MatrixForm::Stored })
    }
}

impl Reports for Candle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> About {
        let device = if self.device.is_metal() { "metal" } else { "cpu" };
        About { device: device.into(), kernels: NAME.into(), threads: 1 }
    }
}

impl Sizes for Candle {
    /// That of the host: Metal's devices share it.
    fn memory(&self) -> Option<Memory> {
        Some(Memory { free: available_memory()?, total: total_memory()? })
    }

    fn runs_as(&self, dtype: DType) -> DType {
        self.form.runs_as(dtype)
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        self.form.weight_bytes(spec, dtype)
    }

    fn stores_as(&self, layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
        let latent = layout.of_group(group).any(|l| matches!(l, LayerState::Latent { .. }));
        let types = stored_types(types);
        if latent { types.k.into() } else { types }
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        let KvTypes { k, v } = self.stores_as(layout, group, types);
        let [k, v] = [k, v].map(|t| t.dtype().block_bytes());
        let token = |l: &LayerState| match *l {
            LayerState::Paged { kv_heads, dim, .. } => kv_heads * dim * (k + v),
            LayerState::Latent { rank, rope, .. } => (rank + rope) * k,
            LayerState::Recurrent { .. } | LayerState::Elsewhere => 0,
        };
        PAGE_LEN * layout.of_group(group).map(token).sum::<usize>()
    }
}

impl Backend for Candle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.form.types(), Op::PLAIN.to_vec())
    }

    fn handle(&self) -> Option<Box<dyn Backend>> {
        Some(Box::new(self.clone()))
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        plan.is_sparse().then(|| "sparse attention".to_owned())
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        CandleWeight::upload(self.form, &self.device, spec, tensor).map(BackendWeight::new)
    }

    fn share(&self, weight: &BackendWeight) -> Option<BackendWeight> {
        weight.get::<CandleWeight>().cloned().map(BackendWeight::new)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let weights = BackendWeight::own(weights, NAME)?;
        Ok(Box::new(CandleMachine::new(self.device, plan, weights, limits)?))
    }
}

macro_rules! operators {
    (plain { $($(#[$_doc:meta])* $plain:ident $Plain:ident,)* } fused { $($fused:tt)* }) => {
        impl Ops for CandleMachine {
            $(fn $plain(&mut self, b: &Batch, o: &$Plain) -> Result<()> { self.operate(b, o) })*
        }
    };
}

lamina_plan::for_each_op!(operators);

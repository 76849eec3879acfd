//! The backend: takes weights over, counts the memory that a plan needs, and builds its machine.

use crate::{
    act::ActKind,
    bandwidth::read_bandwidth,
    expert_rows::ExpertRows,
    kv::{Cache, CacheRow, Codec, page_bytes},
    machine::{Machine, Operate},
    memory::Aligned,
    ops::{attention, latent, linear},
    ropes::RopeTables,
    row_kernels::RowKernels,
    tasks::TaskLists,
    weight::Weight,
};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, available_memory, startable, total_memory};
use lamina_plan::{
    About, Backend, Batch, Capabilities, Grade, KvLayout, KvType, KvTypes, LayerState, Limits, Memory, Ops,
    Plan, WeightSpec, backend::Result, op::*,
};
use lamina_pool::Pool;
use lamina_simd::{Isa, UnknownIsa};
use std::sync::Arc;

/// Why the CPU backend cannot start.
pub type CpuError = UnknownIsa;

/// The CPU backend: an instruction set and threads.
#[derive(Clone)]
pub struct Cpu {
    isa: Isa,
    pool: Arc<Pool>,
}

impl Cpu {
    /// The best instruction set of this CPU (or that of `LAMINA_ISA`) with `threads` threads.
    ///
    /// # Errors
    /// When `LAMINA_ISA` names an instruction set that is not there.
    pub fn new(threads: usize) -> std::result::Result<Cpu, CpuError> {
        Ok(Cpu::with_isa(Isa::detect()?, threads))
    }

    /// A given instruction set, which this CPU must have.
    pub fn with_isa(isa: Isa, threads: usize) -> Cpu {
        assert!(isa.available(), "{isa} is not available");
        Cpu { isa, pool: Arc::new(Pool::new(1 + startable(threads.saturating_sub(1)))) }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The threads.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl Backend for Cpu {
    type Weight = Weight;
    type Machine = Machine;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn capabilities(&self) -> Capabilities {
        let ops = Op::PLAIN.iter().copied().chain(FUSED).collect();
        Capabilities { types: crate::format::NATIVE.to_vec(), ops, bits: Grade::AllBatches }
    }

    fn handle(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn about(&self) -> About {
        let kernels = self.isa.name().to_owned();
        About { device: "cpu".to_owned(), kernels, threads: self.pool.threads() }
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { free: available_memory()?, total: total_memory()? })
    }

    fn runs_as(&self, dtype: DType) -> DType {
        if crate::format::NATIVE.contains(&dtype) { dtype } else { crate::weight::plain(dtype) }
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        Weight::bytes(spec, dtype, self.isa)
    }

    fn read_bandwidth(&self) -> Result<Option<f64>> {
        read_bandwidth(&self.pool, self.isa).map(Some)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<Weight> {
        Weight::upload(spec, tensor, self.isa, &self.pool)
    }

    fn share(&self, weight: &Weight) -> Option<Weight> {
        Some(weight.clone())
    }

    fn stores_as(&self, layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
        cache_types(layout, group, types)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        page_bytes(&Codec::new(cache_types(layout, group, types), self.isa), layout, group)
    }

    fn machine(self, plan: &Plan, weights: Vec<Weight>, limits: &Limits) -> Result<Machine> {
        let types = limits.kv.iter().enumerate().map(|(group, &types)| cache_types(&plan.kv, group, types));
        let limits = &Limits { kv: types.collect(), ..limits.clone() };
        let arena = plan.arena(limits);
        let widest = plan.slots.iter().map(|s| s.width).max().unwrap_or(0);
        let cache = Cache::new(&plan.kv, limits, self.isa)?;
        let space = ExpertRows::new(plan, limits.rows)?;
        let act = |kind: ActKind| {
            let plain =
                kind.bytes(limits.rows, plan.hidden.max(linear::widest_input(plan)).next_multiple_of(256));
            Aligned::zeroed(plain.max(space.act_bytes(kind)), "activations")
        };
        let scratch =
            |_| Aligned::zeroed(linear::SCRATCH + 4 * widest.next_multiple_of(256), "scratch memory");
        Ok(Machine {
            kernels: RowKernels::new(self.isa),
            slots: plan.slots.clone(),
            ropes: RopeTables::new(&plan.ropes, limits.rows)?,
            acts: [act(ActKind::F32)?, act(ActKind::Int32)?, act(ActKind::Int256)?],
            scratch: (0..self.pool.threads()).map(scratch).collect::<Result<_>>()?,
            attention: (0..self.pool.threads())
                .map(|_| Aligned::zeroed(attention_bytes(plan), "scratch memory"))
                .collect::<Result<_>>()?,
            // All of them, since a thread may get its first row in any step.
            stored: (0..self.pool.threads()).map(|_| CacheRow::new(cache.widest_row()).into()).collect(),
            cache,
            lists: TaskLists { cuts: Vec::with_capacity(space.most_runs).into(), ..TaskLists::default() },
            experts: space,
            limits: limits.clone(),
            arena: Aligned::zeroed(4 * arena.len, "activations")?,
            offsets: arena.offsets,
            pool: self.pool,
            weights,
        })
    }
}

/// Memory that attention needs per thread.
fn attention_bytes(plan: &Plan) -> usize {
    let paged = |l: &LayerState| match *l {
        LayerState::Paged { dim, .. } => attention::scratch_bytes(dim.next_multiple_of(32)),
        _ => 0,
    };
    let latents = |op: &Op| match op {
        Op::LatentAttend(o) => {
            // Both in whole blocks, as some types keep them.
            let width = plan.width(o.latent).next_multiple_of(32) + o.rope.next_multiple_of(32);
            latent::scratch_bytes(width, o.nope.max(o.v_dim))
        }
        _ => 0,
    };
    plan.kv.layers.iter().map(paged).chain(plan.ops.iter().map(latents)).max().unwrap_or(0)
}

/// Latents serve as keys and as values. There are no kernels for 4 bits that do both, so 8 bits are kept instead.
fn cache_types(layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
    let latent = layout.of_group(group).any(|l| matches!(l, LayerState::Latent { .. }));
    match types.k {
        KvType::Q4_0 | KvType::Q4_1 if latent => KvType::Q8_0.into(),
        k if latent => k.into(),
        _ => types,
    }
}

/// Fused operators with an implementation of their own; the others run as what they stand for, since nothing would be
/// faster in one.
const FUSED: [&str; 3] = ["Project", "LinearAdd", "Glu"];

macro_rules! operators {
    (plain { $($(#[$_doc:meta])* $plain:ident $Plain:ident,)* } fused { $($fused:tt)* }) => {
        impl Ops for Machine {
            $(fn $plain(&mut self, b: &Batch, o: &$Plain) -> Result<()> { self.run(b, o) })*

            fn project(&mut self, b: &Batch, o: &Project) -> Result<()> {
                self.run(b, o)
            }

            fn linear_add(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
                self.run(b, o)
            }

            fn glu(&mut self, b: &Batch, o: &Glu) -> Result<()> {
                self.run(b, o)
            }
        }
    };
}

lamina_plan::for_each_op!(operators);

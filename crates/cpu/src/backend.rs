//! The backend: takes weights over, counts the memory that a plan needs, and builds its machine.

use crate::{
    bandwidth::read_bandwidth,
    expert_rows::ExpertRows,
    kv::{Cache, page_bytes},
    machine::{Machine, Operate},
    matrix::{Matrix, PanelPacker, layout, plain},
    memory::{Aligned, SharedPtr},
    ropes::RopeTables,
    sizes::MachineSizes,
    tasks::TaskLists,
    weight::Weight,
};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, available_memory, startable, total_memory};
use lamina_kernels::{CHUNK, CacheRow, Codec, NATIVE, RowKernels};
use lamina_plan::{
    About, Backend, BackendWeight, Batch, Capabilities, Footprint, KvLayout, KvType, KvTypes, LayerState,
    Limits, Memory, Ops, PanelFill, Panels, Plan, ReadSpeed, Reports, Sizes, WeightLayout, WeightSpec,
    backend::Result, op::*,
};
use lamina_pool::Pool;
use lamina_simd::{Isa, UnknownIsa};
use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

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

impl Reports for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn about(&self) -> About {
        let kernels = self.isa.name().to_owned();
        About { device: "cpu".to_owned(), kernels, threads: self.pool.threads() }
    }

    fn read_bandwidth(&self) -> Result<Option<ReadSpeed>> {
        read_bandwidth(&self.pool, self.isa).map(Some)
    }
}

impl Sizes for Cpu {
    fn memory(&self) -> Option<Memory> {
        Some(Memory { free: available_memory()?, total: total_memory()? })
    }

    fn runs_as(&self, dtype: DType) -> DType {
        if NATIVE.contains(&dtype) { dtype } else { plain(dtype) }
    }

    fn weight_bytes(&self, spec: &WeightSpec, dtype: DType) -> usize {
        Weight::bytes(spec, dtype, self.isa)
    }

    fn stores_as(&self, layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
        cache_types(layout, group, types)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        page_bytes(&Codec::new(cache_types(layout, group, types), self.isa), layout, group)
    }

    fn footprint(&self, plan: &Plan, limits: &Limits) -> Result<Option<Footprint>> {
        let limits = with_cache_types(plan, limits);
        let sizes = MachineSizes::new(plan, &limits, self.isa, self.pool.threads())?;
        Ok(Some(sizes.footprint()))
    }
}

impl Backend for Cpu {
    fn capabilities(&self) -> Capabilities {
        let ops = Op::PLAIN.iter().copied().chain(FUSED).collect();
        let types = NATIVE.to_vec();
        Capabilities {
            selects_cells: true,
            attention_unit: CHUNK,
            shares_memory: true,
            reads_rows: true,
            binds_cache: true,
            parts_experts: true,
            pages_by_head: true,
            ..Capabilities::new(types, ops)
        }
    }

    fn handle(&self) -> Option<Box<dyn Backend>> {
        Some(Box::new(self.clone()))
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        Weight::upload(spec, tensor, self.isa, &self.pool).map(BackendWeight::new)
    }

    fn share(&self, weight: &BackendWeight) -> Option<BackendWeight> {
        weight.get::<Weight>()?.shared().map(BackendWeight::new)
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
        Ok(Box::new(Machine::new(*self, plan, weights, limits)?))
    }
}

impl Panels for Cpu {
    fn layout(&self, spec: &WeightSpec, dtype: DType) -> Option<WeightLayout> {
        layout(spec, dtype, self.isa)
    }

    fn pack(&self, spec: &WeightSpec, tensor: &Tensor, panels: Range<usize>, out: &mut [u8]) -> Result<()> {
        let packer = PanelPacker::new(spec, tensor, self.isa)?;
        let bytes = out.len() / panels.len().max(1);
        let out = SharedPtr(out.as_mut_ptr());
        let failed = OnceLock::new();
        self.pool.run(panels.len(), |i, _| {
            // SAFETY: `out` holds a panel of `bytes` bytes for each of `panels`, and each belongs to one task.
            let panel = unsafe { std::slice::from_raw_parts_mut(out.at(i * bytes), bytes) };
            let at = panels.start + i;
            panel.fill(0);
            if let Err(e) = packer.pack(at..at + 1, panel) {
                // The first error is the one that is returned.
                let _ = failed.set(e);
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    fn unbound(&self, spec: &WeightSpec, dtype: DType) -> Result<BackendWeight> {
        let matrix = Matrix::unbound(spec, dtype, self.isa)?;
        Ok(BackendWeight::new(Weight::Matrix(matrix)))
    }

    fn upload_panels(&self, spec: &WeightSpec, dtype: DType, fill: PanelFill<'_>) -> Result<BackendWeight> {
        let matrix = Matrix::filled(spec, dtype, self.isa, &self.pool, fill)?;
        Ok(BackendWeight::new(Weight::Matrix(matrix)))
    }
}

impl Machine {
    pub(crate) fn new(
        Cpu { isa, pool }: Cpu,
        plan: &Plan,
        weights: Vec<Weight>,
        limits: &Limits,
    ) -> Result<Machine> {
        let limits = with_cache_types(plan, limits);
        let threads = pool.threads();
        let sizes = MachineSizes::new(plan, &limits, isa, threads)?;
        let [float, int32, int256] = sizes.acts.map(|bytes| Aligned::zeroed(bytes, "activations"));
        let per_thread = |bytes: usize| {
            (0..threads).map(|_| Aligned::zeroed(bytes, "scratch memory")).collect::<Result<Vec<_>>>()
        };
        Ok(Machine {
            kernels: RowKernels::new(isa),
            slots: plan.slots.clone(),
            ropes: RopeTables::new(&plan.ropes, limits.rows)?,
            acts: [float?, int32?, int256?],
            scratch: per_thread(sizes.scratch)?,
            attention: per_thread(sizes.attention)?,
            // All of them, since a thread may get its first row in any step.
            stored: (0..threads).map(|_| CacheRow::new(sizes.stored).into()).collect(),
            cache: Cache::new(sizes.cache)?,
            lists: TaskLists {
                cuts: Vec::with_capacity(sizes.experts.most_runs).into(),
                ..TaskLists::default()
            },
            experts: ExpertRows::new(sizes.experts)?,
            limits,
            arena: Aligned::zeroed(4 * sizes.arena.len, "activations")?,
            offsets: sizes.arena.offsets,
            pool,
            weights,
        })
    }
}

/// The limits with what layer groups are really stored in.
fn with_cache_types(plan: &Plan, limits: &Limits) -> Limits {
    let types = limits.kv.iter().enumerate().map(|(group, &types)| cache_types(&plan.kv, group, types));
    Limits { kv: types.collect(), ..limits.clone() }
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

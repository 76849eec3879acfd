//! The machine: one arena for all slots, the cache, scratch per thread, and kernels chosen for this CPU.

use crate::{
    act::{ActKind, act32_kernel, act256_kernel},
    bandwidth::read_bandwidth,
    kernel::{attend, rows},
    kv::{Cache, Codec, page_bytes},
    memory::Aligned,
    ops::{attention, experts, latent, linear, rope::RopeTables},
    weight::Weight,
};
use lamina_arch::weights::Tensor;
use lamina_base::{DType, available_memory, total_memory};
use lamina_plan::{
    About, Backend, Batch, Capabilities, Grade, KvLayout, KvType, KvTypes, LayerState, Limits, Memory, Ops,
    Plan, Slot, SlotSpec, WeightId, WeightSpec, backend::Result, op::*,
};
use lamina_pool::Pool;
use lamina_simd::{Isa, UnknownIsa};
use std::{ops::Range, sync::Arc};

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
        Cpu { isa, pool: Arc::new(Pool::new(threads)) }
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

/// Kernels over rows, chosen once.
pub struct Kernels {
    pub act32: unsafe fn(*const f32, usize, *mut crate::act::Act32, usize),
    pub act256: unsafe fn(*const f32, usize, *mut crate::act::Act256, usize),
    pub epilogue: unsafe fn(&rows::EpilogueArgs<'_>),
    pub norm: unsafe fn(*const f32, usize, &rows::NormArgs<'_>, *mut f32),
    pub activate: unsafe fn(*const f32, *const f32, usize, lamina_plan::op::Act, *mut f32),
    pub gate: unsafe fn(*mut f32, *const f32, usize, usize),
    pub softcap: unsafe fn(*mut f32, usize, f32),
    pub add: unsafe fn(*const f32, usize, f32, *mut f32),
    pub rotate: unsafe fn(*mut f32, usize, *const f32, *const f32),
    pub gated_norm: unsafe fn(*mut f32, *const f32, usize, &rows::NormArgs<'_>, bool),
    pub soften: unsafe fn(&attend::Scores, &mut [f32; 2]),
    pub merge: unsafe fn(*mut f32, f32, *const f32, f32, usize),
}

impl Kernels {
    fn new(isa: Isa) -> Kernels {
        Kernels {
            act32: act32_kernel(isa),
            act256: act256_kernel(isa),
            epilogue: rows::epilogue_kernel(isa),
            norm: rows::norm_kernel(isa),
            activate: rows::activate_kernel(isa),
            gate: rows::gate_kernel(isa),
            softcap: rows::softcap_kernel(isa),
            add: rows::add_kernel(isa),
            rotate: rows::rotate_kernel(isa),
            gated_norm: rows::gated_norm_kernel(isa),
            soften: attend::soften_kernel(isa),
            merge: attend::merge_kernel(isa),
        }
    }
}

/// A plan's machine on the CPU.
pub struct Machine {
    pub(crate) k: Kernels,
    pub(crate) pool: Arc<Pool>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) slots: Vec<SlotSpec>,
    pub(crate) cache: Cache,
    pub(crate) ropes: RopeTables,
    /// Activations of the running product, one buffer per [`ActKind`].
    pub(crate) acts: [Aligned; 3],
    /// A float32 row or product tile per thread and more, see [`linear::SCRATCH`].
    pub(crate) scratch: Vec<Aligned>,
    /// Scores and running sums of attention, per thread.
    pub(crate) attention: Vec<Aligned>,
    /// Routing and intermediate rows of experts.
    pub(crate) experts: experts::Space,
    limits: Limits,
    arena: Aligned,
    offsets: Vec<usize>,
}

impl Backend for Cpu {
    type Weight = Weight;
    type Machine = Machine;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn capabilities(&self) -> Capabilities {
        // The others run as what they stand for: nothing would be faster in one.
        let missing = ["NormAdd", "Attend", "LowRank"];
        let ops = Op::NAMES.iter().copied().filter(|name| !missing.contains(name)).collect();
        Capabilities { types: crate::format::NATIVE.to_vec(), ops, bits: Grade::AllBatches }
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

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        page_bytes(&Codec::new(cache_types(layout, group, types), self.isa), layout, group)
    }

    fn machine(self, plan: &Plan, weights: Vec<Weight>, limits: &Limits) -> Result<Machine> {
        let types = limits.kv.iter().enumerate().map(|(group, &types)| cache_types(&plan.kv, group, types));
        let limits = &Limits { kv: types.collect(), ..limits.clone() };
        let arena = plan.arena(limits);
        let widest = plan.slots.iter().map(|s| s.width).max().unwrap_or(0);
        let space = experts::Space::new(plan, limits.rows)?;
        let act = |kind: ActKind| {
            let plain =
                kind.bytes(limits.rows, plan.hidden.max(linear::widest_input(plan)).next_multiple_of(256));
            Aligned::zeroed(plain.max(space.act_bytes(kind)), "activations")
        };
        let scratch =
            |_| Aligned::zeroed(linear::SCRATCH + 4 * widest.next_multiple_of(256), "scratch memory");
        Ok(Machine {
            k: Kernels::new(self.isa),
            slots: plan.slots.clone(),
            cache: Cache::new(&plan.kv, limits, self.isa)?,
            ropes: RopeTables::new(&plan.ropes, limits.rows)?,
            acts: [act(ActKind::F32)?, act(ActKind::Int32)?, act(ActKind::Int256)?],
            scratch: (0..self.pool.threads()).map(scratch).collect::<Result<_>>()?,
            attention: (0..self.pool.threads())
                .map(|_| Aligned::zeroed(attention_bytes(plan), "scratch memory"))
                .collect::<Result<_>>()?,
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
        LayerState::Paged { dim, .. } => attention::space_bytes(dim.next_multiple_of(32)),
        _ => 0,
    };
    let latents = |op: &Op| match op {
        Op::LatentAttend(o) => latent::space_bytes(plan.width(o.latent) + o.rope, o.nope.max(o.v_dim)),
        _ => 0,
    };
    plan.kv.layers.iter().map(paged).chain(plan.ops.iter().map(latents)).max().unwrap_or(0)
}

/// Latents serve as keys and as values, which the block types cannot be read as: they are kept as float16 instead.
fn cache_types(layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
    let latent = layout.of_group(group).any(|l| matches!(l, LayerState::Latent { .. }));
    match types.k {
        KvType::Q8_0 | KvType::Q4_0 | KvType::Q4_1 if latent => KvType::F16.into(),
        _ => types,
    }
}

/// The rows of a slot.
#[derive(Clone, Copy)]
pub(crate) struct RowsOf {
    pub ptr: *mut f32,
    pub rows: usize,
    pub width: usize,
}

// SAFETY: tasks that share a slot write rows or columns of their own.
unsafe impl Send for RowsOf {}
// SAFETY: as above.
unsafe impl Sync for RowsOf {}

impl RowsOf {
    /// Row `r`, for reading.
    pub fn row(&self, r: usize) -> &[f32] {
        debug_assert!(r < self.rows);
        // SAFETY: the slot holds `rows` rows, and nothing writes this row meanwhile: operators write other slots or,
        // in place, only rows of the running task.
        unsafe { std::slice::from_raw_parts(self.ptr.add(r * self.width), self.width) }
    }

    /// Row `r` as a pointer, for writing by one task.
    pub fn at(&self, r: usize) -> *mut f32 {
        debug_assert!(r < self.rows.max(1));
        self.ptr.wrapping_add(r * self.width)
    }
}

impl Machine {
    /// The rows of `slot` that `b` has.
    pub(crate) fn slot(&self, b: &Batch, slot: Slot) -> RowsOf {
        let spec = self.slots[slot.0 as usize];
        let rows = b.count(spec.rows);
        RowsOf {
            ptr: self.arena.ptr_mut().cast::<f32>().wrapping_add(self.offsets[slot.0 as usize]),
            rows,
            width: spec.width,
        }
    }

    /// Some rows of a slot, whatever the batch.
    pub(crate) fn some_rows(&self, slot: Slot, rows: &Range<usize>) -> RowsOf {
        let spec = self.slots[slot.0 as usize];
        assert!(rows.end <= self.limits.of(spec.rows), "rows {rows:?} of a slot with fewer");
        let start = self.offsets[slot.0 as usize] + rows.start * spec.width;
        let ptr = self.arena.ptr_mut().cast::<f32>().wrapping_add(start);
        RowsOf { ptr, rows: rows.len(), width: spec.width }
    }

    pub(crate) fn vector(&self, w: WeightId) -> &[f32] {
        match &self.weights[w.0 as usize] {
            Weight::Vector(v) => v,
            _ => unreachable!("the plan names vectors where vectors are wanted"),
        }
    }

    pub(crate) fn optional(&self, w: Option<WeightId>) -> Option<&[f32]> {
        w.map(|w| self.vector(w))
    }

    /// Runs `f` for every row, on all threads where the work is worth it.
    pub(crate) fn each_row(&self, rows: usize, width: usize, f: impl Fn(usize, usize) + Sync) {
        // About 10 us of simple work: less than waking and joining threads costs.
        const WORTH: usize = 1 << 15;
        if rows * width < WORTH {
            return (0..rows).for_each(|r| f(r, 0));
        }
        let chunk = rows.div_ceil(self.pool.threads() * 4).max(1);
        self.pool.run(rows.div_ceil(chunk), |task, worker| {
            (task * chunk..((task + 1) * chunk).min(rows)).for_each(|r| f(r, worker));
        });
    }
}

impl Ops for Machine {
    fn embed(&mut self, b: &Batch, o: &Embed) -> Result<()> {
        self.do_embed(b, o)
    }
    fn positions(&mut self, b: &Batch, o: &Positions) -> Result<()> {
        self.do_positions(b, o)
    }
    fn normalize(&mut self, b: &Batch, o: &Normalize) -> Result<()> {
        self.do_normalize(b, o);
        Ok(())
    }
    fn head_norm(&mut self, b: &Batch, o: &HeadNorm) -> Result<()> {
        self.do_head_norm(b, o);
        Ok(())
    }
    fn linear(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        self.do_project(b, o.x, None, std::slice::from_ref(&o.part))
    }
    fn project(&mut self, b: &Batch, o: &Project) -> Result<()> {
        self.do_project(b, o.x, o.norm, &o.parts)
    }
    fn linear_add(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
        self.do_linear_add(b, o)
    }
    fn glu(&mut self, b: &Batch, o: &Glu) -> Result<()> {
        self.do_glu(b, o)
    }
    fn add(&mut self, b: &Batch, o: &Add) -> Result<()> {
        self.do_add(b, o);
        Ok(())
    }
    fn copy(&mut self, b: &Batch, o: &Copy) -> Result<()> {
        self.do_copy(b, o);
        Ok(())
    }
    fn activate(&mut self, b: &Batch, o: &Activate) -> Result<()> {
        self.do_activate(b, o);
        Ok(())
    }
    fn gate(&mut self, b: &Batch, o: &Gate) -> Result<()> {
        self.do_gate(b, o);
        Ok(())
    }
    fn apply(&mut self, b: &Batch, o: &Apply) -> Result<()> {
        self.do_apply(b, o);
        Ok(())
    }
    fn rotate(&mut self, b: &Batch, o: &Rotate) -> Result<()> {
        self.do_rotate(b, o);
        Ok(())
    }
    fn store(&mut self, b: &Batch, o: &Store) -> Result<()> {
        self.do_store(b, o);
        Ok(())
    }
    fn attention(&mut self, b: &Batch, o: &Attention) -> Result<()> {
        self.do_attention(b, o);
        Ok(())
    }
    fn latent_attend(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        self.do_latent(b, o)
    }
    fn experts(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        self.do_experts(b, o)
    }
    fn conv(&mut self, b: &Batch, o: &Conv) -> Result<()> {
        self.do_conv(b, o);
        Ok(())
    }
    fn delta_rule(&mut self, b: &Batch, o: &DeltaRule) -> Result<()> {
        self.do_delta_rule(b, o);
        Ok(())
    }
    fn scan(&mut self, b: &Batch, o: &Scan) -> Result<()> {
        self.do_scan(b, o);
        Ok(())
    }
    fn gated_norm(&mut self, b: &Batch, o: &GatedNorm) -> Result<()> {
        self.do_gated_norm(b, o);
        Ok(())
    }
    fn adapt(&mut self, b: &Batch, o: &Adapt) -> Result<()> {
        self.do_adapt(b, o);
        Ok(())
    }
    fn add_adapted(&mut self, b: &Batch, o: &AddAdapted) -> Result<()> {
        self.do_add_adapted(b, o);
        Ok(())
    }
    fn select(&mut self, b: &Batch, o: &Select) -> Result<()> {
        self.do_select(b, o);
        Ok(())
    }
}

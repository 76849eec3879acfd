//! Sizes of all that a machine allocates: computed once, so that what is promised is what is taken.

use crate::{
    expert_rows::ExpertSizes,
    kv::CacheSizes,
    ops::{attention, latent, linear},
    ropes,
};
use lamina_kernels::{ActKind, CacheRow};
use lamina_plan::{Arena, Footprint, LayerState, Limits, Plan, backend::Result, op::Op};
use lamina_simd::Isa;

/// Sizes of a machine's memory, in bytes where nothing else is said.
pub struct MachineSizes {
    /// Places of the slots.
    pub arena: Arena,
    /// Activations of each of [`ActKind::ALL`].
    pub acts: [usize; 3],
    /// Product tiles and a row, of each thread.
    pub scratch: usize,
    /// Scores and running sums of attention, of each thread.
    pub attention: usize,
    /// Numbers of the widest row on its way into the cache, of each thread.
    pub stored: usize,
    /// Rows of experts.
    pub experts: ExpertSizes,
    /// Pages and states.
    pub cache: CacheSizes,
    ropes: usize,
    threads: usize,
}

impl MachineSizes {
    /// Sizes of the machine of `plan` for steps of `limits` on `threads` threads.
    ///
    /// # Errors
    /// When some size is more than an address can say.
    pub fn new(plan: &Plan, limits: &Limits, isa: Isa, threads: usize) -> Result<MachineSizes> {
        let widest = plan.slots.iter().map(|s| s.width).max().unwrap_or(0);
        let experts = ExpertSizes::new(plan, limits.rows);
        let input = plan.hidden.max(linear::widest_input(plan)).next_multiple_of(256);
        let cache = CacheSizes::new(&plan.kv, limits, isa)?;
        Ok(MachineSizes {
            arena: plan.arena(limits),
            acts: ActKind::ALL.map(|kind| kind.bytes(limits.rows, input).max(experts.act_bytes(kind))),
            scratch: linear::SCRATCH + 4 * widest.next_multiple_of(256),
            attention: attention_bytes(plan),
            stored: cache.widest_row(),
            experts,
            cache,
            ropes: ropes::bytes(&plan.ropes, limits.rows)?,
            threads,
        })
    }

    /// All of it, by use.
    pub fn footprint(&self) -> Footprint {
        let of_thread = self.scratch + self.attention + CacheRow::bytes(self.stored);
        Footprint {
            arena: 4 * self.arena.len,
            activations: self.acts.iter().sum::<usize>() + self.experts.inner + self.experts.results,
            scratch: self.threads * of_thread,
            tables: self.ropes,
            cache: self.cache.pages,
            states: self.cache.states,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, machine::Machine};
    use lamina_arch::{Family, Weights};
    use lamina_fixtures::{Models, names};
    use lamina_plan::{KvLayout, KvType, Sizes, emit};
    use lamina_store::Checkpoint;

    /// Bytes of all memory that a machine has.
    fn held(m: &Machine) -> usize {
        let aligned = m.acts.iter().chain(&m.scratch).chain(&m.attention).chain([&m.arena]);
        let experts = m.experts.inner.len() + m.experts.results.len();
        let stored = m.stored.iter().map(|row| row.lock().expect("whole").held()).sum::<usize>();
        aligned.map(|a| a.len()).sum::<usize>() + experts + stored + m.cache.held() + m.ropes.held()
    }

    #[test]
    fn the_footprint_is_what_a_machine_takes() {
        let models = Models::new();
        for (i, name) in names().iter().enumerate() {
            let checkpoint = Checkpoint::open(models.folder(name)).expect("a made checkpoint");
            let family = Family::of(&checkpoint).expect("a family");
            let spec = family.spec(&checkpoint).expect("a spec");
            let weights = Weights::new(&checkpoint, family, &spec);
            let plan = emit(&spec, &|name| weights.has(name));
            let (cpu, groups) = (Cpu::new(1 + i % 3).expect("an instruction set"), plan.kv.groups.len());
            for (rows, selected) in [(1, 1), (64, 7), (33, 33)] {
                let kv_type = KvType::ALL[(i + rows) % KvType::ALL.len()].1;
                let kv = vec![kv_type.into(); groups];
                let limits =
                    Limits { rows, selected, logits: selected, pages: vec![5; groups], states: 3, kv };
                let counted = cpu.footprint(&plan, &limits).expect("counts").expect("the CPU can say");
                let machine = Machine::new(cpu.clone(), &plan, vec![], &limits).expect("builds");
                assert_eq!(counted.total(), held(&machine), "{name} with {rows} rows: {counted:?}");
                // Layers that are bound take no memory, and each page of them what it would take.
                let paged = |layer: &usize| plan.kv.layers[*layer].group().is_some();
                let bound: Vec<usize> = (0..plan.kv.layers.len()).filter(paged).skip(1).collect();
                let page = |&layer: &usize| {
                    let group = plan.kv.layers[layer].group().expect("a paged layer");
                    cpu.page_bytes(&plan.kv.alone(layer), group, kv_type.into()) * 5
                };
                let away: usize = bound.iter().map(page).sum();
                let plan = Plan { kv: KvLayout { bound, ..plan.kv.clone() }, ..plan.clone() };
                let fewer = cpu.footprint(&plan, &limits).expect("counts").expect("the CPU can say");
                let machine = Machine::new(cpu.clone(), &plan, vec![], &limits).expect("builds");
                assert_eq!(fewer.total(), held(&machine), "{name} with {rows} rows: {fewer:?}");
                assert_eq!(fewer.total() + away, counted.total(), "{name}");
            }
        }
    }
}

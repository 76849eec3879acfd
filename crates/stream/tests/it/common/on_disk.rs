//! Experts of a model in a panel file, and a backend that reads them as rows ask for them.

use lamina_arch::weights::Tensor;
use lamina_disk::{DiskReader, Extent, MatrixName, PanelAccess, PanelError, PanelFolder, PanelRange};
use lamina_plan::{
    Backend, Limits, Ops, Plan, WeightId, WeightLayout, lookahead,
    op::{Experts, Op},
};
use lamina_stream::{ExpertCache, ExpertStack, StreamedMachine, StreamedWeights};
use std::{ops::Range, path::Path, sync::Arc};

/// A model, and where panels of it are kept.
pub struct OnDisk<'a> {
    pub plan: &'a Plan,
    pub tensors: &'a [Tensor],
    pub root: &'a Path,
}

impl OnDisk<'_> {
    /// A machine of `backend` that reads the experts for which `on_disk` is true into `slots` slots, and guesses; and the plan
    /// that it runs.
    pub fn streamed(
        &self,
        backend: impl Into<Box<dyn Backend>>,
        on_disk: &dyn Fn(&Experts) -> bool,
        (slots, reader): (usize, DiskReader),
        limits: &Limits,
    ) -> (Box<dyn Ops>, Plan) {
        let inner = backend.into();
        let stacks: Vec<[WeightId; 3]> = self.mixtures().filter(|o| on_disk(o)).map(stack).collect();
        let away: Vec<WeightId> = stacks.iter().flatten().copied().collect();
        let weight = |(i, (spec, tensor)): (usize, (&_, &Tensor))| match away.contains(&WeightId(i as u32)) {
            true => inner.need_panels().unwrap().unbound(spec, tensor.dtype).unwrap(),
            false => inner.upload(spec, tensor).unwrap(),
        };
        let weights = self.plan.weights.iter().zip(self.tensors).enumerate().map(weight).collect();
        let stacks = self.packed(&*inner, &stacks);
        let (plan, guesses) = lookahead(inner.ordered(self.plan.clone()), &|_| true);
        let experts = (!stacks.is_empty()).then(|| ExpertCache::new(stacks, reader, slots));
        let experts = experts.map(|cache| cache.with_guesses(&guesses));
        let reader = lamina_disk::ReaderKind::Threads.start(1).unwrap();
        let inner = inner.machine(&plan, weights, limits).unwrap();
        let streamed = StreamedWeights { extents: vec![], reader, buffers: 1, experts };
        (Box::new(StreamedMachine::new(inner, &plan, streamed)), plan)
    }

    /// All mixtures of experts.
    pub fn mixtures(&self) -> impl Iterator<Item = &Experts> {
        self.plan.ops.iter().filter_map(|op| if let Op::Experts(o) = op { Some(o) } else { None })
    }

    fn packed(&self, inner: &dyn Backend, stacks: &[[WeightId; 3]]) -> Vec<ExpertStack> {
        let tensor = |w: WeightId| &self.tensors[w.0 as usize];
        let layout =
            |w: WeightId| -> WeightLayout { inner.layout(self.plan.weight(w), tensor(w).dtype).unwrap() };
        let name = |w: WeightId| MatrixName { name: self.plan.weight(w).name.clone(), layout: layout(w).key };
        let all: Vec<WeightId> = stacks.iter().flatten().copied().collect();
        let matrix =
            |w: &WeightId| (name(*w), layout(*w).matrices * layout(*w).panels, layout(*w).panel_bytes);
        let matrices: Vec<_> = all.iter().map(matrix).collect();
        let pack = &mut |i: usize, panels: Range<usize>, out: &mut [u8]| {
            inner.need_panels().unwrap().pack(self.plan.weight(all[i]), tensor(all[i]), panels, out).unwrap();
            Ok::<(), PanelError>(())
        };
        let mut folder = PanelFolder::open(self.root, "model", PanelAccess::default()).unwrap();
        folder.add(&matrices, pack).unwrap();
        let run = |w: WeightId, expert: usize| {
            let (each, (file, place)) = (layout(w).panels, folder.find(&name(w)).unwrap());
            (file.clone(), PanelRange::new(file, place, expert * each..(expert + 1) * each))
        };
        let extent = |stack: &[WeightId; 3], expert: usize| {
            Arc::new(Extent::new(stack.iter().map(|w| run(*w, expert)).collect()))
        };
        let experts = |stack: &[WeightId; 3]| ExpertStack {
            weights: *stack,
            extents: (0..layout(stack[0]).matrices).map(|expert| extent(stack, expert)).collect(),
        };
        stacks.iter().map(experts).collect()
    }
}

fn stack(o: &Experts) -> [WeightId; 3] {
    [o.gate, o.up, o.down]
}

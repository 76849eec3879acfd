//! Experts that are deferred add to the next mixture's result: beside a backend that runs the plan as it is, one expert of
//! each row at a time, and sums them itself.

use crate::common::{Model, Result, prefill};
use lamina_fixtures::{Models, tokens};
use lamina_oracle::reference::{Reference, ReferenceMachine};
use lamina_plan::{
    Backend, BackendError, BackendWeight, Batch, Capabilities, KvLayout, KvType, KvTypes, Limits, Ops, Plan,
    Queue, Reports, Sizes, WeightSpec, Wrapper, defer_experts, fewer_experts,
    op::{ExpertRanks, Experts, FewerExperts, Op, OpRef, RouterScore, Routing},
};

/// The reference, whose mixtures leave out the `count` chosen experts of least weight, and the next ones add them.
struct Deferring {
    count: usize,
}

impl Reports for Deferring {
    fn name(&self) -> &'static str {
        Reference.name()
    }
}

impl Sizes for Deferring {
    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        Reference.page_bytes(layout, group, types)
    }
}

impl Backend for Deferring {
    fn capabilities(&self) -> Capabilities {
        Reference.capabilities()
    }

    fn upload(
        &self,
        spec: &WeightSpec,
        tensor: &lamina_arch::weights::Tensor,
    ) -> std::result::Result<BackendWeight, BackendError> {
        Reference.upload(spec, tensor)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> std::result::Result<Box<dyn Ops>, BackendError> {
        let weights: Vec<Vec<f32>> = BackendWeight::own(weights, self.name())?;
        let inner = ReferenceMachine::new(plan, weights.clone(), limits)?;
        let to_come = plan.ops.iter().filter(|op| matches!(op, Op::Experts(_))).count();
        let (plan, left) = (plan.clone(), vec![]);
        Ok(Box::new(DeferringMachine { inner, plan, weights, count: self.count, to_come, left }))
    }
}

struct DeferringMachine {
    inner: ReferenceMachine,
    plan: Plan,
    weights: Vec<Vec<f32>>,
    count: usize,
    /// Mixtures of the step that were not run yet.
    to_come: usize,
    /// What the mixture before has left, for each row.
    left: Vec<f32>,
}

impl DeferringMachine {
    /// What the experts in `place` of each row's choice make of it, with weight 1.
    fn place(
        &mut self,
        b: &Batch,
        o: &Experts,
        experts: &[usize],
    ) -> std::result::Result<Vec<f32>, BackendError> {
        let rows = 0..experts.len();
        let mut logits = vec![0.0; experts.len() * o.routing.experts];
        experts.iter().enumerate().for_each(|(row, e)| logits[row * o.routing.experts + e] = 1.0);
        self.inner.write(o.logits, rows.clone(), &logits)?;
        let routing = Routing {
            top_k: 1,
            score: RouterScore::SoftmaxOfChosen,
            renorm: false,
            scale: 1.0,
            groups: None,
            fewer: None,
            ..o.routing
        };
        self.inner.experts(b, &Experts { routing, select_bias: None, ..*o })?;
        let mut values = vec![];
        self.inner.read(o.out, rows, &mut values)?;
        Ok(values)
    }

    fn mixture(&mut self, b: &Batch, o: &Experts) -> std::result::Result<(), BackendError> {
        let (rows, hidden) = (0..b.count(self.plan.kind(o.out)), self.plan.width(o.out));
        let mut logits = vec![];
        self.inner.read(o.logits, rows.clone(), &mut logits)?;
        let bias = o.select_bias.map(|w| self.weights[w.0 as usize].clone());
        let routed: Vec<Vec<(usize, f32)>> =
            logits.chunks(o.routing.experts).map(|row| o.routing.choose(row, bias.as_deref())).collect();
        self.to_come -= 1;
        let top_k = o.routing.top_k;
        let sure = if self.to_come == 0 || self.count >= top_k { top_k } else { top_k - self.count };
        let (mut now, mut later) = (vec![0.0; rows.len() * hidden], vec![0.0; rows.len() * hidden]);
        for place in 0..top_k {
            let experts: Vec<usize> = routed.iter().map(|row| row.get(place).map_or(0, |r| r.0)).collect();
            let values = self.place(b, o, &experts)?;
            for (row, chosen) in routed.iter().enumerate() {
                let Some(&(_, weight)) = chosen.get(place) else { continue };
                let before = |(i, r): &(usize, &(usize, f32))| r.1 > weight || r.1 == weight && *i < place;
                let rank = chosen.iter().enumerate().filter(before).count();
                let to = if rank < sure { &mut now } else { &mut later };
                for column in row * hidden..(row + 1) * hidden {
                    to[column] += weight * values[column];
                }
            }
        }
        now.iter_mut().zip(&self.left).for_each(|(to, left)| *to += left);
        self.left = if self.to_come > 0 && self.count < top_k { later } else { vec![] };
        self.inner.write(o.out, rows, &now)
    }
}

impl Wrapper for DeferringMachine {
    const FUSED: bool = false;

    fn inner(&self) -> &dyn Ops {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut self.inner
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> std::result::Result<(), BackendError> {
        match op {
            OpRef::Experts(o) => self.mixture(b, o),
            other => other.run(&mut self.inner, b),
        }
    }
}

/// Families whose mixtures differ: with biases and shared experts, with groups, in recurrent layers.
const MIXTURES: [&str; 8] = [
    "mixtral",
    "qwen3-moe",
    "gpt-oss",
    "granite-moe",
    "deepseek-v2",
    "deepseek-v3",
    "qwen2-moe",
    "qwen3-next",
];

fn prompts() -> Vec<Vec<u32>> {
    vec![tokens(24), tokens(7)]
}

#[test]
fn deferred_experts_add_to_the_next_mixture() -> Result<()> {
    let models = Models::new();
    for name in MIXTURES {
        let mut model = Model::open(&models.folder(name))?;
        let whole = model.plan.clone();
        let exact = prefill(&mut model.runner(KvType::F32)?.0, &prompts())?;
        for fewer in [None, Some(FewerExperts { least: 1, threshold: 0.7 })] {
            let base = fewer.map_or(whole.clone(), |f| fewer_experts(whole.clone(), f));
            for count in [0, 1, 3] {
                model.plan = base.clone();
                let want = prefill(&mut model.runner_on(Deferring { count }, KvType::F32)?.0, &prompts())?;
                model.plan = defer_experts(base.clone(), count);
                let got = prefill(&mut model.runner(KvType::F32)?.0, &prompts())?;
                assert!(got == want, "{name}, {count} deferred, {fewer:?}");
                let changed = model.plan != whole;
                assert_eq!(got != exact, changed, "{name}, {count} deferred, {fewer:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_deferred_stands_before_the_next_mixture() -> Result<()> {
    let plan = Model::open(&Models::new().folder("qwen3-moe"))?.plan;
    let deferred = defer_experts(plan.clone(), 1);
    let mixture = |op: &Op| if let Op::Experts(o) = op { Some(o.routing.ranks) } else { None };
    let ranks: Vec<_> = deferred.ops.iter().filter_map(mixture).collect();
    let (first, behind) = (ExpertRanks::First(3), ExpertRanks::Behind(3));
    assert_eq!(ranks, [first, behind, first, behind, ExpertRanks::All]);
    assert_eq!(deferred.weights, plan.weights);
    for (new, old) in deferred.marks.iter().zip(&plan.marks) {
        assert_eq!(new.slot, old.slot);
    }
    // A token takes four: with none left for its own layer nothing would be computed in time.
    assert_eq!(defer_experts(plan.clone(), 4), plan);
    assert_eq!(defer_experts(plan.clone(), 0), plan);
    Ok(())
}

//! Heads that guess a model's tokens: found in its checkpoint or in a folder of their own, and put beside it on its
//! backend, with its embedding and its output matrix.

use crate::{
    error::{Error, Result},
    uploads::WeightSource,
};
use lamina_arch::{
    Family, HeadFolder, HeadKind, ModelSpec, Weights,
    spec::{HeadFeed, HeadSource, LastRow},
};
use lamina_base::DType;
use lamina_engine::{Drafter, HeadDrafter, InTurn, LoadedHead, Medusa};
use lamina_plan::{
    Backend, BackendWeight, KvDtype, Limits, Plan, RowKind, Runner, Step, WeightSpec, emit_features,
    emit_head, emit_medusa,
};
use lamina_planner::{HeadSizes, stored_types};
use lamina_store::Checkpoint;

/// Rows of a head's step: sequences that it guesses for at once, or kept tokens that it reads.
const ROWS: usize = 256;
/// Sequences that it guesses for at once.
pub(crate) const SEQUENCES: usize = 64;

/// A head, before anything of it is uploaded.
pub(crate) struct FoundHead<'a> {
    /// Its name in requests and reports.
    pub name: &'static str,
    ck: &'a Checkpoint,
    head: HeadFolder,
    /// Longest chain.
    depth: usize,
}

/// A checkpoint's only layer that guesses further tokens is used again and again for longer chains, but was trained for one
/// or two.
const MTP_DEPTH: usize = 3;
/// EAGLE heads are trained to go on from their own rows.
const EAGLE_DEPTH: usize = 8;

impl<'a> FoundHead<'a> {
    /// The layers of a checkpoint that guess further tokens, if it has any.
    pub fn own(ck: &'a Checkpoint, family: &'static Family, spec: &ModelSpec) -> Option<FoundHead<'a>> {
        let head = HeadFolder { family, spec: spec.clone(), kind: HeadKind::Layer, ids: vec![] };
        let depth = if spec.heads.len() == 1 { MTP_DEPTH } else { spec.heads.len() };
        (!spec.heads.is_empty()).then_some(FoundHead { name: "mtp", ck, head, depth })
    }

    /// The head of a folder of its own, for a model.
    ///
    /// # Errors
    /// When it does not fit the model.
    pub fn folder(ck: &'a Checkpoint, spec: &ModelSpec) -> Result<FoundHead<'a>> {
        let head = HeadFolder::of(ck, spec)?;
        let (name, depth) = match head.kind {
            HeadKind::Layer => ("eagle", EAGLE_DEPTH),
            HeadKind::Medusa { heads, .. } => ("medusa", heads),
        };
        Ok(FoundHead { name, ck, head, depth })
    }

    /// Its tensors.
    pub fn weights(&self) -> Weights<'_> {
        Weights::new(self.ck, self.head.family, &self.head.spec)
    }

    /// Its plans: of each of its layers or heads; behind that of a layer that reads residuals, the one that makes its
    /// features.
    fn plans(&self, model: &Plan, has: &dyn Fn(&str) -> bool) -> Vec<Plan> {
        let spec = &self.head.spec;
        match (self.head.kind, spec.heads.first().map(|h| &h.source)) {
            (HeadKind::Medusa { heads, blocks }, _) => {
                (0..heads).map(|i| emit_medusa(spec, i, blocks, has)).collect()
            }
            (HeadKind::Layer, Some(HeadSource::Residuals(layers))) => {
                vec![emit_head(spec, 0, has), emit_features(spec, layers.len() * model.hidden, has)]
            }
            (HeadKind::Layer, _) => (0..spec.heads.len()).map(|h| emit_head(spec, h, has)).collect(),
        }
    }

    /// Marks of the model's plan that it reads.
    fn taps(&self, model: &Plan) -> Vec<usize> {
        match self.head.spec.heads.first().map(|h| &h.source) {
            Some(HeadSource::Residuals(layers)) => layers.clone(),
            Some(HeadSource::Last(LastRow::Residual)) => vec![model.marks.len() - 2],
            Some(HeadSource::Last(LastRow::Normed)) | None => vec![model.marks.len() - 1],
        }
    }
}

/// A head that is ready to guess.
pub(crate) enum ReadyHead {
    /// Decoder layers.
    Layer(LoadedHead),
    /// Heads on the last hidden row, and the mark that they read.
    Medusa(Vec<Box<dyn Step>>, usize),
}

impl ReadyHead {
    /// What guesses by it.
    pub fn drafter(self) -> Box<dyn Drafter> {
        match self {
            ReadyHead::Layer(head) => Box::new(HeadDrafter::new(head)),
            ReadyHead::Medusa(heads, mark) => Box::new(Medusa::new(heads, mark)),
        }
    }
}

/// Plans of a head, and where its weights come from.
pub(crate) struct PlannedHead<'a> {
    found: &'a FoundHead<'a>,
    weights: &'a Weights<'a>,
    plans: Vec<Plan>,
    /// Marks of the model's plan that it reads.
    taps: Vec<usize>,
    dtype: Option<DType>,
}

impl<'a> PlannedHead<'a> {
    /// The plans of a head beside a model's plan; matrices of its own become `dtype`.
    pub fn new(
        found: &'a FoundHead<'a>,
        weights: &'a Weights<'a>,
        model: &Plan,
        dtype: Option<DType>,
    ) -> PlannedHead<'a> {
        let plans = found.plans(model, &|name| weights.has(name));
        PlannedHead { found, weights, plans, taps: found.taps(model), dtype }
    }

    /// What the backend has to run for it.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// What it takes beside a model whose weights come from `source`.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape.
    pub fn sizes(
        &self,
        backend: &dyn Backend,
        (model, source): (&Plan, &WeightSource<'_>),
        kv_dtype: KvDtype,
    ) -> Result<HeadSizes> {
        Ok(HeadSizes {
            bytes: self.bytes(backend)?
                + self.copied_bytes(backend, source, &|w| !model.weights.contains(w))?,
            copies: self.copied_bytes(backend, source, &|w| model.weights.contains(w))?,
            working: self.working_bytes(backend, kv_dtype)?,
            page_bytes: self.page_bytes(backend, kv_dtype),
            selects: self.selects(model),
        })
    }

    /// Bytes that it takes beside the model, but for its pages.
    fn bytes(&self, backend: &dyn Backend) -> Result<u64> {
        let from = WeightSource::new(self.weights, self.dtype);
        let own = self.plans.iter().flat_map(|p| &p.weights).filter(|w| is_own(w));
        own.map(|spec| from.bytes(backend, spec)).sum()
    }

    /// Bytes of the model's weights that it holds for itself, of those that `some` is true of: all of them beside a model that does
    /// not hold them in memory, and always those of which other machines have a part.
    fn copied_bytes(
        &self,
        backend: &dyn Backend,
        model: &WeightSource<'_>,
        some: &dyn Fn(&WeightSpec) -> bool,
    ) -> Result<u64> {
        let others = self.plans.iter().flat_map(|p| &p.weights).filter(|w| !is_own(w) && some(w));
        others.map(|spec| model.bytes(backend, spec)).sum()
    }

    /// Bytes that its machines work in at most.
    fn working_bytes(&self, backend: &dyn Backend, kv_dtype: KvDtype) -> Result<u64> {
        let of = |plan: &Plan| -> Result<u64> {
            let kv = stored_types(backend, plan, kv_dtype);
            let selected = self.selected(SEQUENCES, ROWS);
            let pages = vec![1; kv.len()];
            let limits = Limits { rows: ROWS, selected, logits: SEQUENCES, pages, states: 0, kv };
            Ok(backend.footprint(plan, &limits)?.unwrap_or_default().working() as u64)
        };
        self.plans.iter().map(of).sum()
    }

    /// Rows that its machines hand on, of so many with logits and of all.
    fn selected(&self, logits: usize, rows: usize) -> usize {
        // All rows of a layer go on to the next one.
        if self.found.head.spec.heads.len() > 1 { rows } else { logits }
    }

    /// Bytes of one of its pages, which it has as many of as the model.
    fn page_bytes(&self, backend: &dyn Backend, kv_dtype: KvDtype) -> usize {
        let of = |plan: &Plan| -> usize {
            let kv = stored_types(backend, plan, kv_dtype);
            kv.iter().enumerate().map(|(g, &types)| backend.page_bytes(&plan.kv, g, types)).sum()
        };
        self.plans.iter().map(of).sum()
    }

    /// True where the model's steps have to select all of their rows for it.
    fn selects(&self, model: &Plan) -> bool {
        self.taps.iter().any(|&mark| model.kind(model.marks[mark].slot) != RowKind::All)
    }

    /// Puts it on the backend of a model that was uploaded: rows and logits are no more than `like` has, and pages so
    /// many of this type.
    ///
    /// # Errors
    /// When a tensor cannot be read, or memory does not suffice.
    pub fn load(
        mut self,
        backend: &dyn Backend,
        model: UploadedModel<'_>,
        like: &Limits,
        (pages, kv_dtype): (usize, KvDtype),
    ) -> Result<ReadyHead> {
        let (logits, rows) = (SEQUENCES.min(like.logits), ROWS.min(like.rows));
        let selected = self.selected(logits, rows);
        let mut steps = vec![];
        for plan in std::mem::take(&mut self.plans) {
            let kv = stored_types(backend, &plan, kv_dtype);
            // Plans without attention have one group of pages that take no memory.
            let pages = if plan.kv.layers.is_empty() { 1 } else { pages };
            let pages = vec![pages; kv.len()];
            let limits = Limits { rows, selected, logits, pages, states: 0, kv };
            let weights = self.uploaded(backend, &plan, &model)?;
            steps.push(machine(backend, plan, weights, limits)?);
        }
        let FoundHead { name, head, depth, .. } = self.found;
        let Some(spec) = head.spec.heads.first().filter(|_| head.kind == HeadKind::Layer) else {
            return Ok(ReadyHead::Medusa(steps, self.taps[0]));
        };
        let features = match spec.source {
            HeadSource::Residuals(_) => steps.pop(),
            HeadSource::Last(_) => None,
        };
        let (feed, blank_first) = (usize::from(spec.feed == HeadFeed::Normed), spec.blank_first);
        let (layers, taps, ids, depth) = (steps, self.taps, head.ids.clone(), *depth);
        Ok(ReadyHead::Layer(LoadedHead { name, layers, features, taps, feed, blank_first, ids, depth }))
    }

    /// The weights of one of its plans: its own, and the model's.
    fn uploaded(
        &self,
        backend: &dyn Backend,
        plan: &Plan,
        model: &UploadedModel<'_>,
    ) -> Result<Vec<BackendWeight>> {
        let own = WeightSource::new(self.weights, self.dtype);
        let threads = backend.about().threads;
        let one = |spec: &WeightSpec| {
            let shared = model.plan.weights.iter().position(|w| w == spec).filter(|_| !is_own(spec));
            match shared.and_then(|i| backend.share(model.weights.get(i)?)) {
                Some(weight) => Ok(weight),
                None if is_own(spec) => Ok(backend.upload(spec, &own.tensor(spec, threads)?.0)?),
                None => Ok(backend.upload(spec, &model.source.tensor(spec, threads)?.0)?),
            }
        };
        plan.weights.iter().map(one).collect()
    }
}

/// A model whose weights are on a backend.
pub(crate) struct UploadedModel<'a> {
    pub plan: &'a Plan,
    /// None where some are read from disk: then the head has those that it needs for itself.
    pub weights: &'a [BackendWeight],
    pub source: &'a WeightSource<'a>,
}

/// True for the weights of a head itself; its plan has those of the model under the model's names.
fn is_own(spec: &WeightSpec) -> bool {
    spec.name.starts_with("blk.") || spec.name.starts_with("fc.")
}

/// A second machine on the backend of a model.
fn machine(
    backend: &dyn Backend,
    plan: Plan,
    weights: Vec<BackendWeight>,
    limits: Limits,
) -> Result<Box<dyn Step>> {
    let own = backend.handle().ok_or_else(|| {
        Error::Unsupported(format!("a head beside a model on {}: it holds one model only", backend.name()))
    })?;
    Ok(Box::new(InTurn::new(Box::new(Runner::new(own, plan, weights, limits)?))))
}

//! A model of which the sizes are known, and its cost model.

use super::{DraftCost, Forecast, ForecastQuestion, cache_forecast::CacheForecast, speeds};
use crate::{
    cost::{CachedExperts, CostModel},
    cost_shape::CostShape,
    device_cost::DeviceCost,
    error::Result,
    hardware::Hardware,
    hits::ExpertHits,
    layer_cost::layers_on_disk,
    memory_parts::MemoryPart,
    memory_question::BUFFERS,
    model::{ModelHeaders, WeightSize},
    options::PlacementOptions,
    placement::Placement,
    rows::RowPlacement,
    speed_table::{DiskRate, SpeedQuality, SpeedTable},
    work::{WeightForm, works},
};
use lamina_base::{DType, resident_memory};
use lamina_disk::{PanelFolder, SwapBudget, disk_space};
use lamina_plan::{
    Backend, Plan, WeightKind, WeightSpec,
    op::{Op, Operands},
    whole_name,
};
use lamina_stream::ExpertUses;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// The file beside panels with the uses of experts in earlier runs.
pub const EXPERT_USES: &str = "experts.liked";

/// What is read from disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskForecast {
    /// Where panels are kept.
    pub folder: PathBuf,
    /// Bytes of panels that a load would write first.
    pub missing_bytes: u64,
    /// Bytes that are free there.
    pub free: Option<u64>,
    /// Bytes of weights that every step reads.
    pub step_bytes: u64,
    /// Layers of the cache that lie there; none where all are in memory.
    pub cache: Option<CacheForecast>,
    /// Experts that are in memory, of how many; none where all are.
    pub experts: Option<(usize, usize)>,
    /// How many of those that a token asks for are in memory; none where all are.
    pub hits: Option<HitForecast>,
    /// How fast it is now.
    pub rate: DiskRate,
}

/// How many of the experts that tokens ask for are in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HitForecast {
    /// Share of them, while one sequence decodes.
    pub share: f64,
    /// It comes from uses that earlier runs counted; else from what papers report of mixtures.
    pub counted: bool,
}

impl HitForecast {
    fn of(hits: &ExpertHits, plan: &Plan) -> HitForecast {
        let chosen = experts(plan).map_or(0, |e| e.1);
        HitForecast { share: hits.of(1.0, chosen).share, counted: hits.is_counted() }
    }
}

/// What preempted sequences may take.
#[derive(Debug, Clone, PartialEq)]
pub struct SwapForecast {
    /// Most bytes of memory and of disk.
    pub budget: SwapBudget,
    /// Where the file is made.
    pub folder: PathBuf,
    /// Bytes that are free there.
    pub free: Option<u64>,
    /// Tokens of sequences that fit.
    pub tokens: u64,
}

impl SwapForecast {
    fn of(options: &PlacementOptions, token_bytes: f64) -> Option<SwapForecast> {
        let budget = options.swap;
        let (folder, bytes) = (options.stream.panel_root(), budget.memory + budget.disk);
        let tokens = (bytes as f64 / token_bytes.max(1.0)) as u64;
        (!budget.is_none()).then(|| SwapForecast { budget, free: free_space(&folder), folder, tokens })
    }
}

/// Bytes that are free where `folder` is, or will be made.
fn free_space(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|p| p.exists()).and_then(disk_space).map(|(free, _)| free)
}

/// A model and where it lies: what it takes of memory, and how fast it will be.
pub struct ForecastModel<'a> {
    model: &'a ModelHeaders<'a>,
    placement: &'a Placement,
    backend: &'a dyn Backend,
    options: &'a PlacementOptions,
    files: &'a ModelFiles,
    /// Bytes that the process held before anything was measured, and most that it may hold.
    process: u64,
    budget: Option<u64>,
    /// What others take beside it.
    neighbours: Vec<MemoryPart>,
    /// What a guess costs.
    draft: Option<DraftCost>,
}

/// What a forecast says of a model, or looks at, beside its plan.
pub struct ModelFiles {
    /// Its layers.
    pub layers: usize,
    /// What names its panels.
    pub panel_key: String,
    /// A file of it.
    pub file: Option<PathBuf>,
    /// Approximations that were asked for, each as `option value`.
    pub approximations: Vec<String>,
}

impl<'a> ForecastModel<'a> {
    /// A model that lies on `backend` as `placement` says. To be called before anything is measured.
    pub fn new(
        (model, files): (&'a ModelHeaders<'a>, &'a ModelFiles),
        placement: &'a Placement,
        backend: &'a dyn Backend,
        options: &'a PlacementOptions,
    ) -> ForecastModel<'a> {
        // The same figure that memory was divided by: what a process holds grows by every look at it.
        let process = match backend.capabilities().shares_memory {
            true => placement.held,
            false => resident_memory().unwrap_or(0),
        };
        let (budget, neighbours, draft) = (placement.budget, vec![], None);
        ForecastModel { model, placement, backend, options, files, process, budget, neighbours, draft }
    }

    /// The same beside others.
    pub fn beside(self, neighbours: Vec<MemoryPart>) -> Self {
        ForecastModel { neighbours, ..self }
    }

    /// The same in a process that held so many bytes before anything was measured.
    pub fn in_process(self, process: u64) -> Self {
        ForecastModel { process, ..self }
    }

    /// The same with guesses that cost so much.
    pub fn drafted(self, draft: Option<DraftCost>) -> Self {
        ForecastModel { draft, ..self }
    }

    /// What it takes, and how fast it is.
    ///
    /// # Errors
    /// When the machine cannot be measured.
    pub fn forecast(
        &self,
        question: &ForecastQuestion,
        speeds: &mut SpeedTable,
        device: Option<DeviceCost>,
    ) -> Result<Forecast> {
        let (plan, limits) = (self.model.plan, &self.placement.limits);
        let (model, quality, disk) = self.measured(speeds)?;
        let model = CostModel { device, ..model };
        let step = |shape: &CostShape| model.step(shape);
        let stored = self.weight_bytes();
        let longest = self.model.context.max(self.options.context.unwrap_or(0));
        Ok(Forecast {
            problem: None,
            weights: stored.iter().sum(),
            bytes_per_token: bytes_per_token(plan, &stored),
            shape: (self.files.layers, experts(plan)),
            approximations: self.files.approximations.clone(),
            budget: self.budget,
            memory: self.memory()?,
            placement: self.placement.classes(plan),
            context: self.placement.cache.context.min(longest),
            cut_from: self.placement.cache.cut_from,
            disk,
            device: None,
            pictures: None,
            sounds: None,
            swap: SwapForecast::of(self.options, self.placement.token_bytes),
            ram_rate: model.hardware.ram,
            measured: Some(quality),
            decode: speeds::decoding(&step, limits, plan, question),
            prefill: speeds::prompts(&step, limits, question),
            jobs: speeds::jobs(&step, limits, plan, question),
            draft: self.draft.as_ref().map(|draft| draft.forecast(&model, question)),
            advice: vec![],
            machines: vec![],
        })
    }

    /// Its cost on a machine whose speeds are measured, or were; and what its disk gives where anything is read from there.
    fn measured(&self, speeds: &mut SpeedTable) -> Result<(CostModel, SpeedQuality, Option<DiskForecast>)> {
        let measured = speeds.speeds(self.backend, &self.types(self.backend))?;
        let on_disk = self.placement.weights.offload.is_some() || !self.placement.layers.arrays.is_empty();
        let disk = on_disk.then(|| self.disk(speeds)).transpose()?;
        Ok((self.cost_model(measured.hardware, disk.as_ref()), measured.quality, disk))
    }

    /// Its cost as a stage, and where memory goes on the machine that runs it.
    ///
    /// # Errors
    /// When the machine cannot be measured.
    pub fn stage(&self, speeds: &mut SpeedTable) -> Result<(CostModel, Vec<MemoryPart>)> {
        Ok((self.measured(speeds)?.0, self.memory()?))
    }

    pub(super) fn plan(&self) -> &Plan {
        self.model.plan
    }

    pub(super) fn placement(&self) -> &Placement {
        self.placement
    }

    pub(super) fn options(&self) -> &PlacementOptions {
        self.options
    }

    /// Bytes of its weights, wherever they are.
    pub fn weight_bytes(&self) -> Vec<u64> {
        self.placement.weights.sizes.iter().map(WeightSize::any_bytes).collect()
    }

    /// Bytes of a weight, or of some rows of one, that a step sends to a device.
    pub(super) fn sent_bytes(&self, spec: &WeightSpec) -> f64 {
        let whole = self.model.plan.weights.iter().position(|w| w.name == whole_name(&spec.name));
        let dtype = |i: usize| self.placement.weights.sizes[i].dtype;
        whole.map_or(0.0, |i| self.backend.sent_bytes(spec, dtype(i)) as f64)
    }

    /// True where matrices can be sent to `device` when it multiplies with them.
    pub(super) fn can_be_sent(&self, device: &dyn Backend) -> bool {
        let mut all = self.model.plan.weights.iter().zip(&self.placement.weights.sizes);
        let matrix = |w: &WeightSpec| matches!(w.kind, WeightKind::Matrix { .. });
        all.any(|(spec, size)| matrix(spec) && device.layout(spec, size.dtype).is_some())
    }

    /// Types that its products are computed in on `backend`.
    pub(super) fn types(&self, backend: &dyn Backend) -> Vec<DType> {
        let mut types: Vec<DType> = vec![];
        for (spec, size) in self.model.plan.weights.iter().zip(&self.placement.weights.sizes) {
            let dtype = backend.runs_as(size.dtype);
            if spec.kind.is_matrix() && !size.of_adapter && !types.contains(&dtype) {
                types.push(dtype);
            }
        }
        types
    }

    /// The weights of the whole plan, as they are multiplied with.
    fn forms(&self) -> Vec<WeightForm> {
        let form = |size: &WeightSize| WeightForm {
            dtype: self.backend.runs_as(size.dtype),
            bytes: size.any_bytes(),
        };
        self.placement.weights.sizes.iter().map(form).collect()
    }

    /// The cost of all of it in memory.
    pub(super) fn whole(&self, hardware: Hardware) -> CostModel {
        let plan = self.model.plan;
        CostModel {
            hardware,
            disk: f64::INFINITY,
            works: works(plan, &self.forms(), &self.placement.limits.kv),
            extents: vec![0.0; plan.ops.len()],
            layers: layers_on_disk(plan, &self.placement.layers),
            buffers: BUFFERS,
            experts: None,
            vocab: plan.vocab,
            device: None,
        }
    }

    fn cost_model(&self, hardware: Hardware, disk: Option<&DiskForecast>) -> CostModel {
        let whole = self.whole(hardware);
        // Nothing is read where nothing is streamed.
        let disk = disk.map_or(f64::INFINITY, |d| d.rate.bytes);
        let buffers = self.options.stream.buffers.unwrap_or(BUFFERS);
        let whole = CostModel { disk, buffers, ..whole };
        let Some(offload) = &self.placement.weights.offload else { return whole };
        let (plan, forms) = (&offload.rows.cut.plan, self.forms());
        let part = |(source, rows): &(lamina_plan::WeightId, std::ops::Range<usize>)| {
            let form = forms[source.0 as usize];
            let all = self.model.plan.weight(*source).kind.shape().0.max(1);
            WeightForm { bytes: form.bytes * rows.len() as u64 / all as u64, ..form }
        };
        let forms: Vec<_> = offload.rows.cut.sources.iter().map(part).collect();
        CostModel {
            works: works(plan, &forms, &self.placement.limits.kv),
            extents: extents(plan, &offload.rows),
            layers: layers_on_disk(plan, &self.placement.layers),
            experts: self.cached(&plan.ops),
            ..whole
        }
    }

    /// Experts that `ops` read from disk as rows ask for them.
    fn cached(&self, ops: &[Op]) -> Option<CachedExperts> {
        let experts = self.placement.weights.experts()?;
        let serves = ops.iter().map(|op| experts.serves(op)).collect();
        Some(CachedExperts { hits: self.hits()?, serves })
    }

    /// How many of the experts that tokens ask for will be in memory, as far as earlier runs tell.
    fn hits(&self) -> Option<ExpertHits> {
        let experts = self.placement.weights.experts()?;
        let (lengths, chosen) = experts.lengths(self.model.plan);
        let panels = self.panels();
        let kept = panels.and_then(|p| ExpertUses::read(&p.path().join(EXPERT_USES), &lengths));
        Some(ExpertHits::new(experts.slots, &lengths, chosen, kept.as_ref()))
    }

    /// The panels of earlier loads.
    fn panels(&self) -> Option<PanelFolder> {
        let stream = &self.options.stream;
        PanelFolder::existing(&stream.panel_root(), &self.files.panel_key, stream.access())
    }

    /// Bytes that it takes beside the process.
    ///
    /// # Errors
    /// When the backend cannot tell what its machine takes.
    pub fn bytes(&self) -> Result<u64> {
        let parts = MemoryPart::of(self.model, self.placement, self.backend, self.options)?;
        Ok(parts.iter().map(|part| part.bytes).sum())
    }

    /// Where memory goes.
    fn memory(&self) -> Result<Vec<MemoryPart>> {
        let mut parts = MemoryPart::of(self.model, self.placement, self.backend, self.options)?;
        let process = MemoryPart { name: "process", bytes: self.process };
        parts.extend(self.neighbours.iter().copied().chain([process]).filter(|part| part.bytes > 0));
        Ok(parts)
    }

    fn disk(&self, speeds: &mut SpeedTable) -> Result<DiskForecast> {
        let (plan, experts) = (self.model.plan, self.placement.weights.experts());
        let (root, panels) = (self.options.stream.panel_root(), self.panels());
        let (kept, panel) = panels.as_ref().map_or((0, None), |p| (p.bytes(), p.any_file()));
        let file = panel.or_else(|| self.files.file.clone());
        let streamed = self.placement.weights.offload.as_ref().map_or(0, |o| o.rows.streamed_bytes);
        Ok(DiskForecast {
            missing_bytes: (streamed + experts.map_or(0, |e| e.bytes)).saturating_sub(kept),
            experts: experts.map(|e| (e.slots, e.count)),
            hits: self.hits().map(|hits| HitForecast::of(&hits, plan)),
            free: free_space(&root),
            folder: root,
            step_bytes: streamed,
            cache: CacheForecast::of(&self.placement.layers, plan.kv.layers.len()),
            rate: speeds.disk(file.as_deref())?,
        })
    }
}

/// Bytes of weights that one decoded token reads: all matrices, and of experts those that a token chooses.
pub fn bytes_per_token(plan: &Plan, bytes: &[u64]) -> u64 {
    let chosen = experts(plan);
    let one = |(w, bytes): (&WeightSpec, &u64)| match (w.kind, chosen) {
        (WeightKind::Matrix { .. }, _) => *bytes,
        (WeightKind::Stack { count, .. }, Some((experts, top_k))) if count == experts => {
            bytes * top_k as u64 / experts as u64
        }
        (WeightKind::Stack { .. }, _) => *bytes,
        _ => 0,
    };
    plan.weights.iter().zip(bytes).map(one).sum()
}

/// Experts of a layer, and how many of them a token takes.
fn experts(plan: &Plan) -> Option<(usize, usize)> {
    plan.ops.iter().find_map(|op| match op {
        Op::Experts(o) => Some((o.routing.experts, o.routing.top_k)),
        _ => None,
    })
}

/// Bytes that are read before each operator of the cut plan.
fn extents(plan: &Plan, placement: &RowPlacement) -> Vec<f64> {
    let first: HashMap<_, _> =
        placement.streamed.iter().filter_map(|op| Some((*op.weights.first()?, op.bytes as f64))).collect();
    let bytes = |op: &Op| op.weights().iter().find_map(|w| first.get(w)).copied().unwrap_or(0.0);
    plan.ops.iter().map(bytes).collect()
}

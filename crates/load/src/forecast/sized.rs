//! A model of which the sizes are known, and its cost model.

use super::{
    Forecast, ForecastQuestion,
    cache_forecast::CacheForecast,
    known::{DiskRate, KnownSpeeds},
    speeds,
};
use crate::{
    error::Result,
    expert_plan::ExpertPlan,
    heads::stored_types,
    kv_swap::swap_folder,
    memory::CachePlan,
    open::check_plan,
    options::LoadOptions,
    panel_key::panel_key,
    planned::{keep, planned},
    sizes::{ModelSizes, OpenedModel},
    stream::BUFFERS,
    stream_load::COUNTS,
    uploads::{WeightSize, WeightSource, bytes_per_token, weight_sizes},
};
use lamina_arch::{Family, Weights};
use lamina_base::{DType, resident_memory};
use lamina_disk::{PanelFolder, SwapBudget, cache_folder, disk_space};
use lamina_plan::{
    Backend, KvTypes, Limits, Plan, WeightKind, WeightSpec,
    op::{Op, Operands},
    whole_name,
};
use lamina_planner::{
    CachedExperts, CostModel, DeviceCost, ExpertHits, Hardware, Placement, WeightForm, layers_on_disk, works,
};
use lamina_store::Checkpoint;
use lamina_stream::{ExpertUses, LayerRoom};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Something that takes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it is.
    pub name: &'static str,
    /// Bytes.
    pub bytes: u64,
}

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
    /// Told from the uses of earlier runs; else from what is known of mixtures in general.
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
    fn of(options: &LoadOptions, token_bytes: f64) -> Option<SwapForecast> {
        let budget = options.kv_swap.budget;
        let (folder, bytes) = (swap_folder(&options.stream), budget.memory + budget.disk);
        let tokens = (bytes as f64 / token_bytes.max(1.0)) as u64;
        (!budget.is_none()).then(|| SwapForecast { budget, free: free_space(&folder), folder, tokens })
    }
}

/// Bytes that are free where `folder` is, or will be made.
fn free_space(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|p| p.exists()).and_then(disk_space).map(|(free, _)| free)
}

/// A model of which the sizes are known.
pub(crate) struct SizedModel {
    plan: Plan,
    weights: Vec<WeightSize>,
    layers: usize,
    model_context: usize,
    sizes: ModelSizes,
    limits: Limits,
    kv: Vec<KvTypes>,
    /// Bytes that the process held before anything was measured, and most that it may hold.
    process: u64,
    budget: Option<u64>,
    /// What names its panels.
    key: String,
    /// A file of it.
    file: Option<PathBuf>,
}

impl SizedModel {
    /// Reads headers, and finds all sizes. The cache is `fixed` where a part of it lies on a device.
    ///
    /// # Errors
    /// As loading has them.
    pub fn of(
        ck: &Checkpoint,
        options: &LoadOptions,
        backend: &dyn Backend,
        fixed: Option<&CachePlan>,
    ) -> Result<SizedModel> {
        let family = Family::of(ck)?;
        let spec = family.spec(ck)?;
        let tensors = Weights::new(ck, family, &spec).keeping(keep(options));
        let (plan, loras) = planned(ck, (family, &spec), &tensors, options, backend)?;
        check_plan(backend, &plan)?;
        let from = WeightSource { weights: &tensors, dtype: options.dtype };
        let opened =
            OpenedModel { plan: &plan, from: &from, loras: &loras, head: None, context: spec.context };
        let sizes = ModelSizes::of(&opened, backend, options, (0, fixed))?;
        let process = resident_memory().unwrap_or(0);
        let budget = options
            .memory_of(backend)
            .map(|m| m.free + if backend.capabilities().shares_memory { process } else { 0 });
        let (limits, weights) = (sizes.limits(&opened), weight_sizes(backend, &plan, &from, &loras)?);
        Ok(SizedModel {
            weights,
            layers: spec.layers.len(),
            model_context: spec.context,
            limits,
            kv: stored_types(backend, &plan, options.kv_dtype),
            sizes,
            process,
            budget,
            key: panel_key(ck, options.dtype),
            file: ck.files.first().map(|f| f.path().to_owned()),
            plan,
        })
    }

    /// What it takes, and how fast it is.
    ///
    /// # Errors
    /// When the machine cannot be measured.
    pub fn forecast(
        self,
        options: &LoadOptions,
        question: &ForecastQuestion,
        backend: &dyn Backend,
        known: &mut KnownSpeeds,
        device: Option<DeviceCost>,
    ) -> Result<Forecast> {
        let hardware = known.hardware(backend, &self.types(backend))?;
        let placement = self.sizes.stream.as_ref().map(|stream| stream.placement(&self.plan));
        let room = LayerRoom::of(backend, &self.plan.kv, &self.limits);
        let on_disk = placement.is_some() || !room.arrays.is_empty();
        let disk = on_disk.then(|| self.disk(options, placement.as_ref(), &room, known)).transpose()?;
        let model = self.cost_model(backend, hardware, placement.as_ref(), disk.as_ref(), options);
        let model = CostModel { device, ..model };
        let memory = self.memory(backend, options, placement.as_ref())?;
        let stored = self.weight_bytes();
        Ok(Forecast {
            problem: None,
            weights: stored.iter().sum(),
            bytes_per_token: bytes_per_token(&self.plan, &stored),
            shape: (self.layers, experts(&self.plan)),
            approximations: options.approximations(),
            budget: self.budget,
            memory,
            placement: self.sizes.homes.clone(),
            context: self.sizes.cache.context.min(self.model_context.max(options.context.unwrap_or(0))),
            disk,
            device: None,
            swap: SwapForecast::of(options, self.sizes.token_bytes()),
            ram_rate: model.hardware.ram,
            decode: speeds::decoding(&model, &self.limits, &self.plan, question),
            prefill: speeds::prompts(&model, &self.limits, question),
            jobs: speeds::jobs(&model, &self.limits, &self.plan, question),
            advice: vec![],
        })
    }

    /// The plan that steps run: cut where some rows of a matrix are read from disk and others are not.
    pub fn steps(&self) -> Plan {
        let stream = self.sizes.stream.as_ref();
        stream.map_or_else(|| self.plan.clone(), |stream| stream.placement(&self.plan).cut.plan)
    }

    /// The whole plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of its weights, wherever they are.
    pub fn weight_bytes(&self) -> Vec<u64> {
        self.weights.iter().map(WeightSize::any_bytes).collect()
    }

    /// Bytes of a weight, or of some rows of one, that a step sends to a device of `backend`.
    pub fn sent_bytes(&self, backend: &dyn Backend, spec: &WeightSpec) -> f64 {
        let whole = self.plan.weights.iter().position(|w| w.name == whole_name(&spec.name));
        whole.map_or(0.0, |i| backend.sent_bytes(spec, self.weights[i].dtype) as f64)
    }

    /// True where matrices can be sent to `device` when it multiplies with them.
    pub fn can_be_sent(&self, device: &dyn Backend) -> bool {
        let mut all = self.plan.weights.iter().zip(&self.weights);
        let matrix = |w: &WeightSpec| matches!(w.kind, WeightKind::Matrix { .. });
        all.any(|(spec, size)| matrix(spec) && device.layout(spec, size.dtype).is_some())
    }

    /// The cost of all of it in memory.
    pub fn whole(&self, backend: &dyn Backend, hardware: Hardware) -> CostModel {
        self.cost_model(backend, hardware, None, None, &LoadOptions::default())
    }

    /// Types that its products are computed in.
    pub fn types(&self, backend: &dyn Backend) -> Vec<DType> {
        let mut types: Vec<DType> = vec![];
        for (spec, size) in self.plan.weights.iter().zip(&self.weights) {
            let dtype = backend.runs_as(size.dtype);
            let multiplied = matches!(spec.kind, WeightKind::Matrix { .. } | WeightKind::Stack { .. });
            if multiplied && !size.of_adapter && !types.contains(&dtype) {
                types.push(dtype);
            }
        }
        types
    }

    fn cost_model(
        &self,
        backend: &dyn Backend,
        hardware: Hardware,
        placement: Option<&Placement>,
        disk: Option<&DiskForecast>,
        options: &LoadOptions,
    ) -> CostModel {
        let form =
            |size: &WeightSize| WeightForm { dtype: backend.runs_as(size.dtype), bytes: size.any_bytes() };
        let whole: Vec<WeightForm> = self.weights.iter().map(form).collect();
        let room = LayerRoom::of(backend, &self.plan.kv, &self.limits);
        let layers = |plan: &Plan| layers_on_disk(plan, &room);
        let (works, extents, layers) = match placement {
            None => {
                let extents = vec![0.0; self.plan.ops.len()];
                (works(&self.plan, &whole, &self.kv), extents, layers(&self.plan))
            }
            Some(placement) => {
                let plan = &placement.cut.plan;
                let part = |(source, rows): &(lamina_plan::WeightId, std::ops::Range<usize>)| {
                    let form = whole[source.0 as usize];
                    let all = self.plan.weight(*source).kind.shape().0.max(1);
                    WeightForm { bytes: form.bytes * rows.len() as u64 / all as u64, ..form }
                };
                let forms: Vec<_> = placement.cut.sources.iter().map(part).collect();
                (works(plan, &forms, &self.kv), extents(plan, placement), layers(plan))
            }
        };
        let buffers = options.stream.buffers.unwrap_or(BUFFERS);
        // Nothing is read where nothing is streamed.
        let disk = disk.map_or(f64::INFINITY, |d| d.rate.bytes);
        CostModel {
            hardware,
            disk,
            works,
            extents,
            layers,
            buffers,
            experts: placement.and_then(|placement| self.cached(&placement.cut.plan.ops, options)),
            vocab: self.plan.vocab,
            device: None,
        }
    }

    /// Experts that `ops` read from disk as rows ask for them.
    fn cached(&self, ops: &[Op], options: &LoadOptions) -> Option<CachedExperts> {
        let experts = self.sizes.stream.as_ref()?.experts.as_ref()?;
        let serves = ops.iter().map(|op| experts.serves(op)).collect();
        Some(CachedExperts { hits: self.hits(options)?, serves })
    }

    /// How many of the experts that tokens ask for will be in memory, as far as earlier runs tell.
    fn hits(&self, options: &LoadOptions) -> Option<ExpertHits> {
        let experts = self.sizes.stream.as_ref()?.experts.as_ref()?;
        let (lengths, chosen) = experts.lengths(&self.plan);
        let panels = PanelFolder::existing(&self.panel_root(options), &self.key, options.stream.access());
        let kept = panels.and_then(|p| ExpertUses::read(&p.path().join(COUNTS), &lengths));
        Some(ExpertHits::new(experts.slots, &lengths, chosen, kept.as_ref()))
    }

    /// The folder that has the panels of all models.
    fn panel_root(&self, options: &LoadOptions) -> PathBuf {
        options.stream.folder.clone().unwrap_or_else(cache_folder)
    }

    /// Where memory goes.
    fn memory(
        &self,
        backend: &dyn Backend,
        options: &LoadOptions,
        placement: Option<&Placement>,
    ) -> Result<Vec<MemoryPart>> {
        let experts = self.sizes.stream.as_ref().and_then(|s| s.experts.as_ref());
        let steps = ExpertPlan::steps(&self.plan, experts);
        let foot = backend.footprint(&steps, &self.limits)?.unwrap_or_default();
        let streamed = placement.map_or(0, |p| p.streamed_bytes);
        let largest = placement.map_or(0, |p| p.streamed.iter().map(|op| op.bytes).max().unwrap_or(0));
        let all: u64 = self.weights.iter().map(|w| w.bytes).sum();
        let part = |name, bytes| MemoryPart { name, bytes };
        let (apart, slots) = experts.map_or((0, 0), |e| (e.bytes, e.slots_bytes()));
        let parts = [
            part("weights", all - streamed - apart),
            part("experts", slots),
            part("cache", (foot.cache + foot.states) as u64),
            part("cache buffers", LayerRoom::of(backend, &self.plan.kv, &self.limits).buffer_bytes()),
            part("working memory", foot.working() as u64),
            part("logits", 4 * (self.limits.logits * self.plan.vocab) as u64),
            part("buffers", (largest * options.stream.buffers.unwrap_or(BUFFERS)) as u64),
            part("swap", options.kv_swap.budget.memory_bytes()),
            part("process", self.process),
        ];
        Ok(parts.into_iter().filter(|p| p.bytes > 0).collect())
    }

    fn disk(
        &self,
        options: &LoadOptions,
        placement: Option<&Placement>,
        room: &LayerRoom,
        known: &mut KnownSpeeds,
    ) -> Result<DiskForecast> {
        let experts = self.sizes.stream.as_ref().and_then(|s| s.experts.as_ref());
        let root = self.panel_root(options);
        let panels = PanelFolder::existing(&root, &self.key, options.stream.access());
        let (kept, panel) = panels.as_ref().map_or((0, None), |p| (p.bytes(), p.any_file()));
        let file = panel.or_else(|| self.file.clone());
        let streamed = placement.map_or(0, |p| p.streamed_bytes);
        Ok(DiskForecast {
            missing_bytes: (streamed + experts.map_or(0, |e| e.bytes)).saturating_sub(kept),
            experts: experts.map(|e| (e.slots, e.count)),
            hits: self.hits(options).map(|hits| HitForecast::of(&hits, &self.plan)),
            free: free_space(&root),
            folder: root,
            step_bytes: streamed,
            cache: CacheForecast::of(room, self.plan.kv.layers.len()),
            rate: known.disk(file.as_deref())?,
        })
    }
}

/// Experts of a layer, and how many of them a token takes.
fn experts(plan: &Plan) -> Option<(usize, usize)> {
    plan.ops.iter().find_map(|op| match op {
        Op::Experts(o) => Some((o.routing.experts, o.routing.top_k)),
        _ => None,
    })
}

/// Bytes that are read before each operator of the cut plan.
fn extents(plan: &Plan, placement: &Placement) -> Vec<f64> {
    let first: HashMap<_, _> =
        placement.streamed.iter().filter_map(|op| Some((*op.weights.first()?, op.bytes as f64))).collect();
    let bytes = |op: &Op| op.weights().iter().find_map(|w| first.get(w)).copied().unwrap_or(0.0);
    plan.ops.iter().map(bytes).collect()
}

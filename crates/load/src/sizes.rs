//! Sizes of a model on a backend, found before anything is uploaded.

use crate::{
    class_home::ClassHome,
    class_homes::class_homes,
    error::Result,
    heads::{PlannedHead, stored_types},
    info::ModelInfo,
    lora::Loras,
    memory::{CachePlan, GroupBytes, cache_memory, check_weights, fixed_cache, plan_cache, step_limits},
    options::LoadOptions,
    stream::{HeadNeeds, MemoryQuestion, StreamPlan},
    uploads::{WeightSource, weight_sizes},
};
use lamina_plan::{Backend, GroupSpec, KvDtype, KvLayout, KvTypes, Limits, Plan, Reach};
use lamina_stream::LayerRoom;

/// A model whose files were read.
pub(crate) struct OpenedModel<'a> {
    pub plan: &'a Plan,
    pub from: &'a WeightSource<'a>,
    pub loras: &'a Loras,
    /// A head that guesses its tokens.
    pub head: Option<&'a PlannedHead<'a>>,
    /// Tokens that it was made for.
    pub context: usize,
}

/// What a model takes on a backend, and what is left to its cache.
pub(crate) struct ModelSizes {
    /// Bytes of all weights, those of a head included.
    weights: u64,
    /// Rows of a step.
    rows: usize,
    kv: Vec<KvTypes>,
    groups: GroupBytes,
    /// Bytes of the cache that a token takes, wherever its layers lie.
    token: f64,
    /// The layer group that a head has as many pages as.
    paged: usize,
    pub cache: CachePlan,
    /// How weights are streamed; none where all are in memory.
    pub stream: Option<StreamPlan>,
    /// Where weights lie, those of a head apart.
    pub homes: Vec<ClassHome>,
}

impl ModelSizes {
    /// The sizes of a model beside `taken` bytes that others take. A head counts as one more layer of the model. The
    /// cache is `fixed` where a part of it lies on a device.
    ///
    /// # Errors
    /// When a weight is missing or has another shape, or memory does not suffice.
    pub fn of(
        opened: &OpenedModel<'_>,
        backend: &dyn Backend,
        options: &LoadOptions,
        (taken, fixed): (u64, Option<&CachePlan>),
    ) -> Result<ModelSizes> {
        let (plan, memory) = (opened.plan, options.memory_of(backend));
        let of_head = opened.head.map_or(Ok(0), |head| head.bytes(backend))?;
        let each = weight_sizes(backend, plan, opened.from, opened.loras)?;
        let weights = each.iter().map(|size| size.bytes).sum::<u64>() + of_head;
        let rows = step_rows(backend, plan, options, opened.context);
        let kv = stored_types(backend, plan, options.kv_dtype);
        let mut groups = group_bytes(backend, plan, &kv, rows);
        let paged = longest_group(plan);
        let head_page = opened.head.map_or(0, |head| head.page_bytes(backend, options.kv_dtype));
        groups.groups[paged].1 += head_page;
        let token = (all_page_bytes(backend, plan, &kv) + head_page) as f64 / lamina_plan::PAGE_LEN as f64;
        let context = opened.context;
        let taken = taken + options.kv_swap.budget.memory_bytes();
        let reserved = taken + of_head;
        let question = MemoryQuestion {
            plan,
            sizes: &each,
            memory,
            reserved,
            rows,
            kv: &kv,
            groups: &groups,
            context,
            fixed,
            head: opened
                .head
                .map_or(Ok(HeadNeeds::default()), |head| needs(head, opened, backend, options))?,
            options,
        };
        if let Some(stream) = question.answer(backend)? {
            let (rows, cache) = (stream.limits.rows, stream.cache.clone());
            let homes = class_homes(plan, &each, Some(&stream));
            let stream = Some(stream);
            return Ok(ModelSizes { weights, rows, kv, groups, token, paged, cache, stream, homes });
        }
        check_weights(weights + taken, memory)?;
        let working =
            machine_memory(backend, plan, (rows, &kv), &groups, options.context.unwrap_or(context))?;
        let free = memory.map(|m| m.free.saturating_sub(weights + taken + working));
        let free = cache_memory(free, options.kv_memory);
        let cache = match fixed {
            Some(fixed) => fixed_cache(fixed, &groups, free)?,
            None => plan_cache(plan, &groups, opened.context, options.context, free)?,
        };
        let homes = class_homes(plan, &each, None);
        Ok(ModelSizes { weights, rows, kv, groups, token, paged, cache, stream: None, homes })
    }

    /// Pages of a head.
    pub fn head_pages(&self) -> usize {
        self.cache.pages[self.paged]
    }

    /// Bytes of weights and cache.
    pub fn bytes(&self) -> u64 {
        self.weights + self.groups.all(&self.cache.pages) as u64
    }

    /// Bytes of the cache that a token takes, over all layer groups, in memory and on disk.
    pub fn token_bytes(&self) -> f64 {
        self.token
    }

    /// What the machine is made for.
    pub fn limits(&self, opened: &OpenedModel<'_>) -> Limits {
        if let Some(stream) = &self.stream {
            return stream.limits.clone();
        }
        let (plan, rows) = (opened.plan, self.rows);
        let limits = step_limits(plan, rows, &self.cache, self.kv.clone());
        let selects = opened.head.is_some_and(|head| head.selects(plan));
        Limits { selected: if selects { rows } else { limits.selected }, ..limits }
    }

    /// What is known of the cache beside the model.
    pub fn told(&self, info: ModelInfo, plan: &Plan, options: &LoadOptions) -> ModelInfo {
        let stored = plan.kv.groups.iter().map(|g| g.reach).zip(self.kv.iter().copied());
        ModelInfo {
            context: self.cache.context,
            kv_dtype: KvDtype::of_groups(stored).unwrap_or(options.kv_dtype),
            kv_bytes_per_token: self.token_bytes(),
            placement: self.homes.clone(),
            approximations: options.approximations(),
            kv_bytes_per_sequence: self.cache.sequence_bytes as u64,
            ..info
        }
    }
}

/// Longest text of an encoder where nobody asks for more, in tokens: its rows all stand in one step.
const WHOLE_TEXT: usize = 8192;

/// Rows of a step: what was asked for, what the backend likes, or a whole text where rows see later ones.
pub(crate) fn step_rows(backend: &dyn Backend, plan: &Plan, options: &LoadOptions, own: usize) -> usize {
    let text = options.context.unwrap_or(own.min(WHOLE_TEXT));
    let rows = if plan.looks_ahead() { text.max(backend.rows()) } else { backend.rows() };
    options.batch_rows.unwrap_or(rows).clamp(1, 1 << 16)
}

/// Bytes that a device's machine works with beside the cache. Those of a backend that has the host's memory are part of what
/// the cache leaves.
fn machine_memory(
    backend: &dyn Backend,
    plan: &Plan,
    (rows, kv): (usize, &[KvTypes]),
    groups: &GroupBytes,
    context: usize,
) -> Result<u64> {
    if backend.capabilities().shares_memory {
        return Ok(0);
    }
    let limits = step_limits(plan, rows, &CachePlan::of_one(plan, groups, context), kv.to_vec());
    Ok(backend.footprint(plan, &limits)?.map_or(0, |foot| foot.working() as u64))
}

/// What a head needs beside a model that is streamed.
fn needs(
    head: &PlannedHead<'_>,
    opened: &OpenedModel<'_>,
    backend: &dyn Backend,
    options: &LoadOptions,
) -> Result<HeadNeeds> {
    Ok(HeadNeeds {
        copies: head.copied_bytes(backend, opened.from)?,
        page_bytes: head.page_bytes(backend, options.kv_dtype),
        group: longest_group(opened.plan),
        selects: head.selects(opened.plan),
    })
}

/// The layer group that keeps the most of a sequence: a head keeps as much.
fn longest_group(plan: &Plan) -> usize {
    plan.kv.groups.iter().position(|g| g.reach == Reach::All).unwrap_or(0)
}

/// Bytes of a page of all layer groups, wherever their layers lie.
fn all_page_bytes(backend: &dyn Backend, plan: &Plan, kv: &[KvTypes]) -> usize {
    let layout = KvLayout { bound: vec![], ..plan.kv.clone() };
    (0..layout.groups.len()).map(|group| backend.page_bytes(&layout, group, kv[group])).sum()
}

/// Bytes of memory of a page of each layer group: of layers on disk that is the share of buffers which all of them are read
/// to.
fn group_bytes(backend: &dyn Backend, plan: &Plan, kv: &[KvTypes], rows: usize) -> GroupBytes {
    let buffers = |group: usize| {
        let pages = (0..plan.kv.groups.len()).map(|other| usize::from(other == group)).collect();
        let one = Limits { rows, selected: 0, logits: 0, pages, states: 0, kv: kv.to_vec() };
        LayerRoom::of(backend, &plan.kv, &one).buffer_bytes() as usize
    };
    let bytes = |(i, g): (usize, &GroupSpec)| (g.reach, backend.page_bytes(&plan.kv, i, kv[i]) + buffers(i));
    GroupBytes { groups: plan.kv.groups.iter().enumerate().map(bytes).collect(), rows }
}

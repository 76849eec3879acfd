//! Where every part of a model lies: decided here alone, for loading and for whoever asks before.

use crate::{
    cache_plan::CachePlan,
    class_home::{ClassHome, class_homes},
    device_placement::DevicePlacement,
    error::Result,
    least_memory::held,
    memory_question::MemoryQuestion,
    model::ModelHeaders,
    options::PlacementOptions,
    step_sizes::{all_page_bytes, group_bytes, longest_group, step_rows, stored_types},
    weights::WeightPlacement,
};
use lamina_plan::{Backend, KvDtype, Limits, Memory, PAGE_LEN, Plan};
use lamina_stream::LayerRoom;

/// Where the weights, the cache and the experts of a model lie, and the steps that run it.
pub struct Placement {
    /// Weights, and experts among them.
    pub weights: WeightPlacement,
    /// Sizes of the cache.
    pub cache: CachePlan,
    /// What the machine is made for: rows of a step, logits, pages and their types.
    pub limits: Limits,
    /// Layers of the cache that lie on disk.
    pub layers: LayerRoom,
    /// What lies on a device beside the host; none where one machine has all.
    pub device: Option<DevicePlacement>,
    /// Bytes of all weights and of the cache, those of a head included.
    pub bytes: u64,
    /// Bytes that the process held already, of the memory that is counted.
    pub held: u64,
    /// Most bytes that may be held, those of `held` included; none where nothing says what there is.
    pub budget: Option<u64>,
    /// Bytes of the cache that a token takes, wherever its layers lie.
    pub token_bytes: f64,
    /// Pages of a head.
    pub head_pages: usize,
}

/// What a model shares its memory with.
#[derive(Clone, Default)]
pub struct Neighbours {
    /// Bytes that others take.
    pub taken: u64,
    /// What could be had before any of them was loaded; none: what can be had now.
    pub memory: Option<Memory>,
    /// What of the model lies on a device beside the host.
    pub device: Option<DevicePlacement>,
}

impl Placement {
    /// Where a model lies on `backend` beside others. A head counts as one more layer of the model. Rows and cache are those of
    /// the device where a part of the model lies there.
    ///
    /// # Errors
    /// When a rule contradicts the model, or memory does not suffice.
    pub fn of(
        model: &ModelHeaders<'_>,
        backend: &dyn Backend,
        options: &PlacementOptions,
        Neighbours { taken, memory, device }: Neighbours,
    ) -> Result<Placement> {
        let plan = model.plan;
        let rows = device.as_ref().map_or_else(|| step_rows(backend, model, options), |d| d.rows);
        let kv = stored_types(backend, plan, options.kv_dtype);
        let mut groups = group_bytes(backend, plan, &kv, rows);
        let paged = longest_group(plan);
        groups.groups[paged].1 += model.head.page_bytes;
        let sizes = model.sizes(backend);
        let question = MemoryQuestion {
            model,
            backend,
            options,
            sizes: &sizes,
            memory: memory.or_else(|| options.memory_of(backend)),
            reserved: taken + options.swap.memory_bytes() + model.head.bytes + model.head.working,
            rows,
            kv: &kv,
            groups: &groups,
            group: paged,
            fixed: device.as_ref().map(|d| &d.cache),
        };
        let (cache, limits, offload) = question.answered().map_err(|e| question.with_way_out(e))?;
        let weights = sizes.iter().map(|size| size.bytes).sum::<u64>() + model.head.bytes;
        let page = all_page_bytes(backend, plan, &kv) + model.head.page_bytes;
        let held = held(options, backend.capabilities().shares_memory, question.memory);
        Ok(Placement {
            held,
            budget: question.memory.map(|m| m.free + held),
            layers: LayerRoom::of(backend, &plan.kv, &limits),
            bytes: weights + groups.all(&cache.pages) as u64,
            token_bytes: page as f64 / PAGE_LEN as f64,
            head_pages: cache.pages[paged],
            weights: WeightPlacement { sizes, offload },
            cache,
            limits,
            device,
        })
    }

    /// The plan that the machine runs: cut where some rows of a matrix are read from disk and others are not.
    pub fn steps<'a>(&'a self, plan: &'a Plan) -> &'a Plan {
        self.weights.offload.as_ref().map_or(plan, |offload| &offload.rows.cut.plan)
    }

    /// How much of each class of the weights of `plan` lies where.
    pub fn classes(&self, plan: &Plan) -> Vec<ClassHome> {
        class_homes(plan, &self.weights)
    }

    /// What the cache is stored in, as one writes it.
    pub fn kv_dtype(&self, plan: &Plan) -> Option<KvDtype> {
        KvDtype::of_groups(plan.kv.groups.iter().map(|g| g.reach).zip(self.limits.kv.iter().copied()))
    }
}

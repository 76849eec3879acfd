//! A checkpoint whose headers were read: the plan that is run, and what is known of its weights.

use crate::{
    error::{Error, Result},
    identity::panel_key,
    lora::Loras,
    model_plan::model_plan,
    options::LoadOptions,
    uploads::{WeightSource, weight_parts},
};
use lamina_arch::{Family, ModelSpec, Weights};
use lamina_base::DType;
use lamina_plan::{Backend, BackendError, Plan, WeightSpec};
use lamina_planner::{HeadSizes, ModelFiles, ModelHeaders, WeightHeader};
use lamina_ranks::RankPart;
use lamina_store::Checkpoint;

/// A model before any of its weights is read.
pub(crate) struct OpenedModel<'a> {
    pub ck: &'a Checkpoint,
    pub spec: &'a ModelSpec,
    pub from: WeightSource<'a>,
    /// What is run, with its adapters.
    pub plan: Plan,
    pub loras: Loras,
    stored: Vec<WeightHeader>,
}

impl<'a> OpenedModel<'a> {
    /// The model in `ck` as `backend` computes it.
    ///
    /// # Errors
    /// When it is broken, or the backend does not run it.
    pub fn new(
        ck: &'a Checkpoint,
        (family, spec): (&'static Family, &'a ModelSpec),
        weights: &'a Weights<'a>,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<OpenedModel<'a>> {
        let (plan, loras) = model_plan(ck, (family, spec), weights, options, backend)?;
        check_plan(backend, &plan)?;
        let from = WeightSource::new(weights, options.dtype);
        let reads_rows = backend.capabilities().reads_rows;
        let adapter = WeightHeader { dtype: DType::F32, held_bytes: None, of_adapter: true };
        let one = |spec: &WeightSpec| match loras.has(spec) {
            true => Ok(adapter),
            false => from.stored(spec, reads_rows),
        };
        let stored = plan.weights.iter().map(one).collect::<Result<_>>()?;
        Ok(OpenedModel { ck, spec, from, plan, loras, stored })
    }

    /// The same model, of which this machine runs `part` alone.
    pub fn running(self, part: &RankPart) -> OpenedModel<'a> {
        let (plan, stored) = (part.plan().clone(), self.stored_on(part.plan()));
        let from = match part {
            RankPart::Stage(_) => self.from,
            RankPart::Shard(shard) => WeightSource { parts: weight_parts(shard), ..self.from },
        };
        OpenedModel { plan, stored, from, ..self }
    }

    /// Its weights as a machine has them that runs `stage` alone.
    pub fn stored_on(&self, stage: &Plan) -> Vec<WeightHeader> {
        let one = |(stored, spec): (&WeightHeader, &WeightSpec)| match spec.is_elsewhere() {
            true => WeightHeader { dtype: DType::F32, held_bytes: None, of_adapter: false },
            false => *stored,
        };
        self.stored.iter().zip(&stage.weights).map(one).collect()
    }

    /// What planning needs of it, with a head of these sizes.
    pub fn headers(&self, head: HeadSizes) -> ModelHeaders<'_> {
        ModelHeaders {
            plan: &self.plan,
            weights: &self.stored,
            context: self.spec.context,
            head,
            logits: None,
        }
    }

    /// What a forecast says of it beside its plan.
    pub fn files(&self, options: &LoadOptions) -> ModelFiles {
        ModelFiles {
            layers: self.spec.layers.len(),
            panel_key: panel_key(self.ck, options.dtype),
            file: self.ck.files.first().map(|f| f.path().to_owned()),
            approximations: options.approximations(),
        }
    }
}

/// Refuses a plan that the backend does not run.
pub(crate) fn check_plan(backend: &dyn Backend, plan: &Plan) -> Result<()> {
    match backend.refusal(plan) {
        Some(what) => Err(Error::from(BackendError::Unsupported { backend: backend.name(), what })),
        None => Ok(()),
    }
}

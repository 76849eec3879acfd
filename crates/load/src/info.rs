//! What is known about a model while it runs.

use crate::error::Result;
use lamina_arch::{Family, ModelSpec, spec::ModelOutput};
use lamina_base::human_bytes;
use lamina_disk::ReaderKind;
use lamina_engine::Pooling;
use lamina_plan::{KvDtype, Plan};
use lamina_planner::{ClassHome, ExpertPlacement, OffloadReason, Placement};
use lamina_quant::MIXES;
use lamina_store::Checkpoint;
use serde_json::Value;
use std::collections::BTreeMap;

/// Sizes and names of a loaded model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// First file.
    pub path: String,
    /// Architecture as the checkpoint names it.
    pub architecture: String,
    /// Family that it belongs to.
    pub family: &'static str,
    /// Type of most weights, such as `Q4_K_M`.
    pub type_name: String,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Numbers in all tensors.
    pub params: u64,
    /// Blocks.
    pub layers: usize,
    /// Width of the residual.
    pub hidden: usize,
    /// Logits per position.
    pub vocab: usize,
    /// Longest sequence here, in tokens.
    pub context: usize,
    /// Longest sequence that the model was made for.
    pub model_context: usize,
    /// Number types of the cache, as they are stored.
    pub kv_dtype: KvDtype,
    /// Bytes of cache per token, as long as no window is full.
    pub kv_bytes_per_token: f64,
    /// Bytes of cache that one sequence of the whole context takes.
    pub kv_bytes_per_sequence: u64,
    /// Bytes of weights that a decoded token reads.
    pub bytes_per_token: u64,
    /// Host threads of the backend.
    pub threads: usize,
    /// What the backend's kernels are made for, such as an instruction set.
    pub isa: String,
    /// The device, as its backend calls it.
    pub device: String,
    /// What guesses its tokens ahead, such as `ngram + suffix`; none where nothing does.
    pub draft: Option<String>,
    /// What becomes of its last rows.
    pub output: ModelOutput,
    /// Segments that it tells apart where it reads two texts at once; 0 for none.
    pub segments: usize,
    /// How its makers make one vector of its rows; an error where that is not built.
    pub pooling: Result<Pooling>,
    /// Where its weights lie.
    pub placement: Vec<ClassHome>,
    /// What is read from disk in every step; none where all weights are in memory.
    pub stream: Option<StreamInfo>,
    /// Approximations that were asked for, each as `option value`.
    pub approximations: Vec<String>,
    /// What a user should know and no error says.
    pub notes: Vec<String>,
    /// Configuration under Hugging Face names.
    pub config: Value,
}

impl ModelInfo {
    /// What the files say; what depends on the device is empty.
    pub(crate) fn of(ck: &Checkpoint, family: &Family, spec: &ModelSpec) -> ModelInfo {
        ModelInfo {
            path: ck.files.first().map_or(ck.folder.as_path(), |f| f.path()).display().to_string(),
            architecture: ck.architecture.clone(),
            family: family.name,
            type_name: type_name(ck),
            bytes: ck.total_bytes(),
            params: ck.tensors.values().map(|t| t.elements() as u64).sum(),
            layers: spec.layers.len(),
            hidden: spec.hidden,
            vocab: spec.vocab,
            context: 0,
            model_context: spec.context,
            kv_dtype: KvDtype::default(),
            kv_bytes_per_token: 0.0,
            kv_bytes_per_sequence: 0,
            bytes_per_token: 0,
            threads: 0,
            isa: String::new(),
            device: String::new(),
            draft: None,
            output: spec.output,
            segments: spec.embed.segments,
            pooling: Ok(Pooling::Mean),
            placement: vec![],
            stream: None,
            approximations: vec![],
            notes: vec![],
            config: Value::Object(ck.config.tree().clone()),
        }
    }
}

impl ModelInfo {
    /// The same with where it lies.
    pub(crate) fn placed(self, placement: &Placement, plan: &Plan) -> ModelInfo {
        ModelInfo {
            context: placement.cache.context,
            kv_dtype: placement.kv_dtype(plan).unwrap_or(self.kv_dtype),
            kv_bytes_per_token: placement.token_bytes,
            kv_bytes_per_sequence: placement.cache.sequence_bytes as u64,
            placement: placement.classes(plan),
            ..self
        }
    }

    /// What is said at load of approximations, and of what is read from disk.
    pub(crate) fn load_notes(&self) -> Vec<String> {
        let named = self.approximations.join(", ");
        let approximate = (!named.is_empty()).then(|| format!("answers are approximate: {named}"));
        approximate.into_iter().chain(self.stream.as_ref().map(StreamInfo::note)).collect()
    }
}

/// The file's own name for its mix of types, or the type that most bytes have.
pub fn type_name(ck: &Checkpoint) -> String {
    let declared = ck.metadata.find::<u32>("general.file_type").ok().flatten();
    if let Some(mix) = declared.and_then(|id| MIXES.iter().find(|m| m.file_type == id)) {
        return mix.name.to_owned();
    }
    let mut bytes: BTreeMap<&str, usize> = BTreeMap::new();
    ck.tensors.values().for_each(|t| *bytes.entry(t.dtype.name()).or_default() += t.bytes.len());
    let most = bytes.iter().max_by_key(|(_, n)| **n).map_or("none", |(name, _)| name);
    // Q4_K with some Q6_K is how Q4_K_M is made.
    let mixed = most == "Q4_K" && bytes.contains_key("Q6_K");
    if mixed { "Q4_K_M".to_owned() } else { most.to_owned() }
}

/// What a user should know of a model that is streamed.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamInfo {
    /// Why.
    pub reason: OffloadReason,
    /// Bytes of weights in memory, of those that can be streamed.
    pub resident_bytes: u64,
    /// Bytes of weights that every step reads from disk.
    pub streamed_bytes: u64,
    /// Bytes of buffers.
    pub buffer_bytes: u64,
    /// Bytes of weights on disk, in the form of the kernels.
    pub panel_bytes: u64,
    /// Where they lie.
    pub folder: String,
    /// Reads go past the page cache.
    pub direct: bool,
    /// How it is read.
    pub reader: ReaderKind,
    /// Experts that are read as rows ask for them; none where all are in memory.
    pub experts: Option<ExpertPlacement>,
}

impl StreamInfo {
    /// What a user is told at load.
    pub fn note(&self) -> String {
        let all = self.resident_bytes + self.streamed_bytes;
        let why = match self.reason {
            OffloadReason::Memory => "do not fit into memory and are read from disk",
            OffloadReason::Asked => "are placed on disk, as asked, and read from there",
        };
        let dense = (self.streamed_bytes > 0).then(|| {
            let (some, all) = (human_bytes(self.streamed_bytes), human_bytes(all));
            format!("{some} of {all} of weights {why} in every step")
        });
        let experts = self.experts.as_ref().map(|e| {
            format!(
                "{} of {} experts are in memory, the others ({} in all) are read from disk when tokens ask for them",
                e.slots,
                e.count,
                human_bytes(e.bytes)
            )
        });
        let told: Vec<_> = dense.into_iter().chain(experts).collect();
        let faster = match self.reason {
            OffloadReason::Memory => "more memory or a smaller type is faster",
            OffloadReason::Asked => "all in memory is faster",
        };
        format!("{} ({}); {faster}", told.join("; "), self.folder)
    }
}

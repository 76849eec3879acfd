//! A trace as data: `{"format": "lamina-trace", "version": 1, "run": .., "events": ..}`.
//!
//! Unknown events and fields are skipped by older readers. A change of meaning raises the version.

use crate::{
    columns::{
        AttentionColumns, ExpertColumns, LensColumns, OpColumns, PageColumns, SequenceColumns, ShareColumns,
        StageColumns, StepColumns, StreamColumns, TextColumns, TokenColumns, WireColumns,
    },
    error::SeeError,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was recorded of some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Always [`Trace::FORMAT`].
    pub format: String,
    /// At most [`Trace::VERSION`].
    pub version: u32,
    /// Of which run.
    #[serde(default)]
    pub run: RunFacts,
    /// The operators, slots and weights.
    #[serde(default)]
    pub plan: PlanView,
    /// Texts of tokens.
    #[serde(default)]
    pub words: BTreeMap<u32, String>,
    /// Tokens that stand for no text.
    #[serde(default)]
    pub special: Vec<u32>,
    /// What was asked and answered.
    #[serde(default)]
    pub requests: Vec<TracedRequest>,
    /// What happened.
    #[serde(default)]
    pub events: TraceEvents,
}

/// Where and with what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    /// Of Lamina.
    pub version: String,
    /// How much was recorded: `steps`, `ops`, `tokens` or `inside`.
    pub detail: String,
    /// The model.
    pub model: TracedModel,
    /// The CPU's name.
    pub cpu: String,
    /// Bytes per second that the same threads read at most, measured beside the run; none where it was not measured.
    pub bandwidth: Option<f64>,
    /// Bytes of the process's memory at the end; none where the system does not tell.
    pub process_bytes: Option<u64>,
    /// Nanoseconds that were recorded.
    pub ns: u64,
    /// Nanoseconds that threads of this process were ready and had no core meanwhile; none where the system does not tell.
    pub starved_ns: Option<u64>,
    /// Nanoseconds of a second pass over the first text, which looked inside of its steps; none where there was none.
    pub inside_ns: Option<u64>,
    /// Joules that the processor's packages took meanwhile, for all programs; none where that is not told.
    pub joules: Option<f64>,
    /// Why not.
    pub no_joules: String,
    /// Joules that the GPUs of this process took meanwhile, for all programs; none where it has none, or that is not told.
    pub gpu_joules: Option<f64>,
    /// Why not; empty where it has no GPU.
    pub no_gpu_joules: String,
    /// TraceEvents that made room for newer ones.
    pub dropped: u64,
    /// Tokens of a page.
    pub page_tokens: u32,
}

/// What is known of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedModel {
    /// Its file's name, without folders.
    pub name: String,
    /// As the checkpoint names it.
    pub architecture: String,
    /// Type of most weights.
    pub r#type: String,
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
    /// Longest sequence.
    pub context: usize,
    /// Bytes of cache per token.
    pub kv_bytes_per_token: f64,
    /// Number types of the cache.
    pub kv_dtype: String,
    /// Bytes of weights that a decoded token reads.
    pub bytes_per_token: u64,
    /// Host threads.
    pub threads: usize,
    /// What kernels are made for.
    pub isa: String,
    /// The device.
    pub device: String,
}

/// The plan, for readers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanView {
    /// In order.
    pub ops: Vec<OpView>,
    /// Values between operators.
    pub slots: Vec<SlotView>,
    /// Weights.
    pub weights: Vec<WeightView>,
}

/// An operator, and what it costs at least.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpView {
    /// Name.
    pub name: String,
    /// It stands for several plain ones.
    pub fused: bool,
    /// The layer; none before the first and behind the last one.
    pub layer: Option<u32>,
    /// Slots that it reads.
    pub reads: Vec<u16>,
    /// Slots that it writes.
    pub writes: Vec<u16>,
    /// Weights, by their places in the list.
    pub weights: Vec<u32>,
    /// It runs over `all` rows, those that are `selected`, or those with `logits`.
    pub rows: String,
    /// Bytes of weights that one row needs.
    pub row_bytes: u64,
    /// Bytes of weights that any number of rows needs at most.
    pub weight_bytes: u64,
    /// Operations of one row on weights.
    pub row_flop: u64,
    /// Bytes of cache for each token of a sequence.
    pub token_bytes: f64,
    /// Operations for each token that a row sees.
    pub token_flop: u64,
    /// Nanoseconds of all calls.
    pub ns: u64,
    /// Calls.
    pub calls: u64,
}

/// A value between operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotView {
    /// What it holds.
    pub name: String,
    /// Numbers in a row.
    pub width: usize,
}

/// A weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WeightView {
    /// Name.
    pub name: String,
    /// Rows and columns.
    pub shape: Vec<usize>,
    /// Type in the file; empty where the file has no tensor of this name.
    pub r#type: String,
    /// Bytes.
    pub bytes: u64,
}

/// What was asked and answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedRequest {
    /// Its sequence; none where it was not recognized.
    pub sequence: Option<u64>,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Tokens of its first answer.
    pub answer: Vec<u32>,
    /// Text of its first answer.
    pub text: String,
    /// Why that ended.
    pub finish: String,
}

/// What happened, by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceEvents {
    /// Steps.
    pub step: StepColumns,
    /// Rows of sequences.
    pub share: ShareColumns,
    /// Operators.
    pub op: OpColumns,
    /// Operators that streamed weights.
    pub stream: StreamColumns,
    /// Moments of sequences.
    pub sequence: SequenceColumns,
    /// Pages.
    pub page: PageColumns,
    /// Chosen tokens.
    pub token: TokenColumns,
    /// What they were chosen from.
    pub stage: StageColumns,
    /// Texts that went out.
    pub text: TextColumns,
    /// What connections took and gave.
    pub wire: WireColumns,
    /// What the model would have said behind each layer.
    pub lens: LensColumns,
    /// Experts that rows went to.
    pub expert: ExpertColumns,
    /// What heads attended to.
    pub attention: AttentionColumns,
}

impl Trace {
    /// What tells a trace from other files.
    pub const FORMAT: &'static str = "lamina-trace";
    /// The newest version that is read, which is the one that is written.
    pub const VERSION: u32 = 1;

    /// As one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers, texts and lists")
    }

    /// Reads what [`Trace::json`] has written.
    ///
    /// # Errors
    /// When it is no trace, a later version, or damaged.
    pub fn from_json(text: &[u8]) -> Result<Trace, SeeError> {
        let mut trace: Trace = serde_json::from_slice(text).map_err(|e| SeeError::NoTrace(e.to_string()))?;
        if trace.format != Trace::FORMAT {
            return Err(SeeError::NoTrace(format!("its format is `{}`", trace.format)));
        }
        if trace.version > Trace::VERSION {
            return Err(SeeError::Newer(trace.version, Trace::VERSION));
        }
        let e = &mut trace.events;
        let sound = [
            (StepColumns::EVENT, e.step.complete()),
            (ShareColumns::EVENT, e.share.complete()),
            (OpColumns::EVENT, e.op.complete()),
            (StreamColumns::EVENT, e.stream.complete()),
            (SequenceColumns::EVENT, e.sequence.complete()),
            (PageColumns::EVENT, e.page.complete()),
            (TokenColumns::EVENT, e.token.complete()),
            (StageColumns::EVENT, e.stage.complete()),
            (TextColumns::EVENT, e.text.complete()),
            (WireColumns::EVENT, e.wire.complete()),
            (LensColumns::EVENT, e.lens.complete()),
            (ExpertColumns::EVENT, e.expert.complete()),
            (AttentionColumns::EVENT, e.attention.complete()),
        ];
        match sound.into_iter().find(|(_, sound)| !sound) {
            Some((event, _)) => Err(SeeError::Ragged(event)),
            None => Ok(trace),
        }
    }

    /// The text of a token as it is.
    pub fn word(&self, id: u32) -> &str {
        self.words.get(&id).map_or("", String::as_str)
    }
}

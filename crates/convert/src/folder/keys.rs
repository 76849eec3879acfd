//! The settings of the file, from the model's spec: one line for each key. What the spec has lost (bases and factors of
//! rotary embeddings) is in `rope.rs`. `verify.rs` reads the result back and compares.

use super::{Folder, rope};
use crate::error::Result;
use lamina_arch::spec::*;
use lamina_store::{Config, Metadata, PoolingMode, Value};

/// What a key is worked out from.
pub(super) struct Facts<'a> {
    pub folder: &'a Folder,
    pub config: &'a Config,
    pub spec: &'a ModelSpec,
    /// The first attention with grouped queries.
    gqa: Option<&'a Gqa>,
    mla: Option<&'a Mla>,
    delta: Option<&'a GatedDelta>,
    mamba: Option<&'a Mamba2>,
    moe: Option<&'a Moe>,
    /// Number of the pooling of an encoder.
    pooling: Option<Value>,
}

type Fact = fn(&Facts<'_>) -> Option<Value>;

/// DeepSeek's routing: all of its settings are keys.
const DEEPSEEK: &[&str] = &["deepseek2", "dots1", "glm4moe"];
/// Files that say whether the weights of chosen experts are normalized.
const RENORMS: &[&str] =
    &["deepseek2", "dots1", "glm4moe", "qwen2moe", "qwen3moe", "qwen3next", "qwen35moe", "olmoe"];
const NAMES_ROUTER: &[&str] = &["deepseek2", "dots1", "glm4moe", "minimax-m2"];
const GRANITE: &[&str] = &["granite", "granitemoe", "granitehybrid", "minicpm"];
const COHERE: &[&str] = &["command-r", "cohere2"];
/// Files whose readers know the scale of scores without a key.
const OWN_SCALE: &[&str] = &["gemma2", "gemma3"];

#[rustfmt::skip]
const KEYS: &[(&str, Fact)] = &[
    ("context_length", |f| u(f.spec.context)),
    ("embedding_length", |f| u(f.spec.hidden)),
    ("block_count", |f| u(f.spec.all_layers().count())),
    ("nextn_predict_layers", |f| u(f.spec.heads.len()).filter(|_| !f.spec.heads.is_empty())),
    ("vocab_size", |f| u(f.spec.vocab)),
    ("feed_forward_length", |f| Some(f.by_layer(|l| f.inner(l)))),
    ("pooling_type", |f| f.pooling.clone()),
    ("use_parallel_residual", |f| f.of(&["gptneox", "stablelm"]).then(|| f.parallel().into())),

    ("attention.head_count", |f| Some(f.by_layer(|_| f.heads()))),
    ("attention.head_count_kv", |f| f.attends().then(|| f.by_layer(|l| f.kv_heads(l)))),
    ("attention.key_length", |f| u_of(f.gqa.map(|g| g.dim).or(f.mla.map(|m| m.kv_rank + m.rope.dim)))),
    ("attention.value_length", |f| u_of(f.gqa.map(|g| g.dim).or(f.mla.map(|m| m.kv_rank)))),
    ("attention.key_length_mla", |f| u_of(f.mla.map(|m| m.nope + m.rope.dim))),
    ("attention.value_length_mla", |f| u_of(f.mla.map(|m| m.v_dim))),
    ("attention.q_lora_rank", |f| u_of(f.mla.and_then(|m| m.q_rank))),
    ("attention.kv_lora_rank", |f| u_of(f.mla.map(|m| m.kv_rank))),
    ("attention.layer_norm_rms_epsilon", |f| f.eps(NormKind::Rms)),
    ("attention.layer_norm_epsilon", |f| f.eps(NormKind::Layer)),
    ("attention.scale", |f| f.score_scale()),
    ("attention.causal", |f| f.folder.encodes().then(|| false.into())),
    ("attention.clamp_kqv", |f| f.gqa?.clip.map(Value::F32)),
    ("attention.max_alibi_bias", |f| f.of(&["mpt"]).then(|| f.gqa.and_then(|g| g.alibi).map_or(0.0, |a| a.largest).into())),
    ("attention.sliding_window", |f| f.window()),
    ("attention.sliding_window_pattern", |f| f.pattern()),
    ("attention.temperature_length", |f| u(f.temperature()?.floor as usize).filter(|v| *v != Value::U32(8192))),
    ("attention.temperature_scale", |f| Some(f.temperature()?.scale).filter(|s| *s != 0.1).map(Value::F32)),
    ("attention.recurrent_layers", |f| f.delta.map(|_| f.flags(|l| matches!(l.mixer, Mixer::GatedDelta(_))))),
    ("full_attention_interval", |f| f.delta.and_then(|_| period(f, |l| matches!(l.mixer, Mixer::Gqa(_)))).and_then(u)),
    ("attn_logit_softcapping", |f| f.gqa?.softcap.map(Value::F32)),
    ("final_logit_softcapping", |f| f.spec.head.softcap.map(Value::F32)),
    ("logit_scale", |f| f.logit_scale()),
    ("residual_scale", |f| f.of(GRANITE).then(|| f.spec.layers.first().map_or(1.0, |l| l.residual).into())),
    ("embedding_scale", |f| f.of(GRANITE).then(|| f.spec.embed.scale.into())),

    ("expert_count", |f| u_of(f.moe.map(|m| m.experts))),
    ("expert_used_count", |f| u_of(f.moe.map(|m| m.top_k))),
    ("expert_feed_forward_length", |f| u_of(f.moe.map(|m| m.inner))),
    ("expert_shared_count", |f| f.of(DEEPSEEK).then(|| f.shared()).and_then(|n| u(n? / f.moe?.inner.max(1)))),
    ("expert_shared_feed_forward_length", |f| (!f.of(DEEPSEEK) && !f.of(&["llama4"])).then(|| f.shared()).and_then(|n| u(n?))),
    ("expert_weights_scale", |f| Some(f.moe?.scale).filter(|s| *s != 1.0 || f.of(DEEPSEEK)).map(Value::F32)),
    ("expert_weights_norm", |f| f.of(RENORMS).then(|| f.moe.map(|m| m.renorm.into())).flatten()),
    ("expert_gating_func", |f| f.of(NAMES_ROUTER).then(|| f.moe.map(gating)).flatten()),
    ("expert_group_count", |f| f.of(DEEPSEEK).then(|| u(f.moe?.groups.map_or(1, |g| g.count))).flatten()),
    ("expert_group_used_count", |f| f.of(DEEPSEEK).then(|| u(f.moe?.groups.map_or(1, |g| g.keep))).flatten()),
    ("leading_dense_block_count", |f| f.of(DEEPSEEK).then(|| u(f.dense_first())).flatten()),
    ("interleave_moe_layer_step", |f| f.of(&["llama4"]).then(|| u(period(f, |l| matches!(l.ffn, Ffn::Moe(_))).unwrap_or(0))).flatten()),

    ("rope.scaling.finetuned", |f| f.of(&["granitehybrid"]).then(|| f.gqa.is_some_and(|g| g.rope.is_some()).into())),

    ("ssm.conv_kernel", |f| u_of(f.mamba.map(|m| m.conv).or(f.delta.map(|d| d.conv)))),
    ("ssm.inner_size", |f| u_of(f.mamba.map(|m| m.heads * m.dim).or(f.delta.map(|d| d.v_heads * d.v_dim)))),
    ("ssm.state_size", |f| u_of(f.mamba.map(|m| m.state).or(f.delta.map(|d| d.k_dim)))),
    ("ssm.time_step_rank", |f| u_of(f.mamba.map(|m| m.heads).or(f.delta.map(|d| d.v_heads)))),
    ("ssm.group_count", |f| u_of(f.mamba.map(|m| m.groups).or(f.delta.map(|d| d.k_heads)))),
];

/// Writes all keys of the architecture.
pub fn write(folder: &Folder, metadata: &mut Metadata) -> Result<()> {
    let facts = Facts::new(folder)?;
    for (key, fact) in KEYS {
        if let Some(value) = fact(&facts) {
            metadata.insert(format!("{}.{key}", folder.architecture), value);
        }
    }
    if folder.spec.embed.segments > 0 {
        metadata.insert("tokenizer.ggml.token_type_count", folder.spec.embed.segments as u32);
    }
    rope::write(folder, metadata)
}

/// Values of `pooling_type`.
fn pooling(folder: &Folder) -> Result<Option<Value>> {
    let number = match folder.spec.output {
        ModelOutput::Tokens => return Ok(None),
        ModelOutput::Classes { .. } => 4,
        ModelOutput::Rows => match PoolingMode::of_folder(&folder.ck.folder)? {
            None | Some(PoolingMode::Mean) => 1,
            Some(PoolingMode::First) => 2,
            Some(PoolingMode::Last) => 3,
        },
    };
    Ok(Some(Value::U32(number)))
}

impl<'a> Facts<'a> {
    fn new(folder: &'a Folder) -> Result<Facts<'a>> {
        let spec = &folder.spec;
        macro_rules! first {
            ($field:ident, $pattern:path) => {
                spec.layers.iter().find_map(|l| if let $pattern(x) = &l.$field { Some(x) } else { None })
            };
        }
        Ok(Facts {
            folder,
            config: &folder.ck.config,
            spec,
            gqa: first!(mixer, Mixer::Gqa),
            mla: first!(mixer, Mixer::Mla),
            delta: first!(mixer, Mixer::GatedDelta),
            mamba: first!(mixer, Mixer::Mamba2),
            moe: first!(ffn, Ffn::Moe),
            pooling: pooling(folder)?,
        })
    }

    fn of(&self, architectures: &[&str]) -> bool {
        architectures.contains(&self.folder.architecture)
    }

    /// One number for all layers where they agree, else a list.
    fn by_layer(&self, number: impl Fn(&Layer) -> usize) -> Value {
        let all: Vec<i32> = self.spec.all_layers().map(|l| number(l) as i32).collect();
        match all.first() {
            Some(&first) if all.iter().all(|&n| n == first) => Value::U32(first as u32),
            _ => all.into(),
        }
    }

    fn flags(&self, flag: impl Fn(&Layer) -> bool) -> Value {
        self.spec.all_layers().map(flag).collect::<Vec<bool>>().into()
    }

    /// Inner width of a layer's dense part. Layers of experts have none, but the key has to hold a number: the one of
    /// the dense layers, else the one of the configuration.
    fn inner(&self, layer: &Layer) -> usize {
        let dense = |l: &Layer| if let Ffn::Dense(d) = &l.ffn { Some(d.inner) } else { None };
        let said = || self.config.opt_usize("intermediate_size").ok().flatten();
        let others = || self.spec.layers.iter().find_map(dense).or_else(said);
        match &layer.ffn {
            Ffn::None => 0,
            Ffn::Dense(d) => d.inner,
            Ffn::Moe(m) => others().unwrap_or(m.inner),
        }
    }

    fn attends(&self) -> bool {
        self.gqa.is_some() || self.mla.is_some()
    }

    fn heads(&self) -> usize {
        self.gqa.map(|g| g.heads).or(self.mla.map(|m| m.heads)).unwrap_or(0)
    }

    /// Latent attention is one shared key head to its readers; Mamba layers have none, and are known by it.
    fn kv_heads(&self, layer: &Layer) -> usize {
        match &layer.mixer {
            Mixer::Gqa(g) => g.kv_heads,
            Mixer::Mla(_) => 1,
            Mixer::GatedDelta(_) => self.gqa.map_or(0, |g| g.kv_heads),
            Mixer::Mamba2(_) => 0,
        }
    }

    fn parallel(&self) -> bool {
        self.spec.layers.iter().any(|l| matches!(l.place, Place::Parallel { .. }))
    }

    fn eps(&self, kind: NormKind) -> Option<Value> {
        let norm = self.spec.layers.first()?.norm;
        (norm.kind == kind).then(|| norm.eps.into())
    }

    /// Where it is not one over the root of the head's width.
    fn score_scale(&self) -> Option<Value> {
        let g = self.gqa?;
        let usual = g.scale == (g.dim as f32).powf(-0.5);
        (self.of(GRANITE) || (!usual && !self.of(OWN_SCALE))).then(|| g.scale.into())
    }

    fn logit_scale(&self) -> Option<Value> {
        let scale = self.spec.head.scale;
        if self.of(GRANITE) {
            // The configuration divides.
            return Some((1.0 / scale).into());
        }
        (self.of(COHERE) || scale != 1.0).then(|| scale.into())
    }

    fn masks(&self) -> impl Iterator<Item = Mask> {
        self.spec.layers.iter().filter_map(|l| if let Mixer::Gqa(g) = &l.mixer { Some(g.mask) } else { None })
    }

    fn window(&self) -> Option<Value> {
        let found = self.masks().find_map(|mask| match mask {
            Mask::Causal | Mask::Strict | Mask::Full => None,
            Mask::Window(n) | Mask::Chunk(n) => u(n),
        });
        // Llama 4 without chunks says so.
        found.or_else(|| if self.of(&["llama4"]) { u(0) } else { None })
    }

    /// Which layers slide, where only some do and the reader would take others.
    fn pattern(&self) -> Option<Value> {
        let slides: Vec<bool> =
            self.masks().map(|mask| !matches!(mask, Mask::Causal | Mask::Strict)).collect();
        let every = if self.of(&["llama4"]) { Some(4) } else { self.folder.reader.full_every };
        let as_known = match every {
            Some(n) => slides.iter().enumerate().all(|(i, s)| *s != (i + 1).is_multiple_of(n)),
            None => slides.iter().all(|s| *s),
        };
        (slides.contains(&true) && !as_known).then(|| slides.into())
    }

    fn temperature(&self) -> Option<QueryScale> {
        self.spec.layers.iter().find_map(|l| if let Mixer::Gqa(g) = &l.mixer { g.temperature } else { None })
    }

    /// Width of the shared expert.
    fn shared(&self) -> Option<usize> {
        self.moe?.shared.map(|s| s.inner)
    }

    fn dense_first(&self) -> usize {
        self.spec.layers.iter().take_while(|l| !matches!(l.ffn, Ffn::Moe(_))).count()
    }
}

fn u(n: usize) -> Option<Value> {
    u32::try_from(n).ok().map(Value::U32)
}

fn u_of(n: Option<usize>) -> Option<Value> {
    n.and_then(u)
}

fn gating(moe: &Moe) -> Value {
    Value::U32(match moe.score {
        RouterScore::Softmax => 1,
        RouterScore::Sigmoid => 2,
        RouterScore::SoftmaxOfChosen => 3,
    })
}

/// `n` where exactly every n-th layer is of the kind.
fn period(f: &Facts<'_>, kind: impl Fn(&Layer) -> bool) -> Option<usize> {
    let kinds: Vec<bool> = f.spec.layers.iter().map(kind).collect();
    let n = kinds.iter().position(|k| *k)? + 1;
    kinds.iter().enumerate().all(|(i, k)| *k == (i + 1).is_multiple_of(n)).then_some(n)
}

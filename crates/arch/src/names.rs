//! Where the tensors of a canonical (GGUF) name stand in a Hugging Face checkpoint: rules as data.

use crate::{
    cut::Cut,
    head_style::HeadStyle,
    spec::{Layer, ModelSpec},
};

/// One rule: a canonical name and where its rows come from. `{i}` is the layer; with `{n}` the source is one tensor per
/// expert or head, counted from 0.
///
/// Names without a suffix stand for both `.weight` and `.bias`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Canonical name.
    pub canonical: &'static str,
    /// Name in the checkpoint; `{n}` stands for 0, 1, 2 and so on.
    pub source: &'static str,
    /// Which rows of the source, when it is fused.
    pub cut: Option<Cut>,
    /// What is done to the values.
    pub edit: Edit,
}

/// Change of values at load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// As stored.
    None,
    /// `1 + w`: norms stored as offsets (Gemma).
    PlusOne,
    /// `-exp(w)`: decay rates stored as logarithms.
    NegExp,
    /// `[.., cols, rows]` stored where `[.., rows, cols]` is wanted (GPT-2's Conv1D, batched experts).
    Transpose,
    /// The cut rows are matrices one after another, each stored transposed (keys of latent attention).
    TransposeCut,
}

impl Rule {
    /// The rule that `canonical` is `source`, as stored.
    pub const fn new(canonical: &'static str, source: &'static str) -> Rule {
        Rule { canonical, source, cut: None, edit: Edit::None }
    }

    /// Queries, keys and values of a fused `source`, one after another.
    pub const fn qkv(source: &'static str) -> [Rule; 3] {
        [
            Rule::new("blk.{i}.attn_q", source).cut(Cut::Q),
            Rule::new("blk.{i}.attn_k", source).cut(Cut::K),
            Rule::new("blk.{i}.attn_v", source).cut(Cut::V),
        ]
    }

    /// Queries, keys and values of a fused `source` that repeats them for each key head.
    pub const fn grouped_qkv(source: &'static str) -> [Rule; 3] {
        [
            Rule::new("blk.{i}.attn_q", source).cut(Cut::GroupedQ),
            Rule::new("blk.{i}.attn_k", source).cut(Cut::GroupedK),
            Rule::new("blk.{i}.attn_v", source).cut(Cut::GroupedV),
        ]
    }

    /// `gate` and `up` as the halves of a fused `source`.
    pub const fn halves(gate: &'static str, up: &'static str, source: &'static str) -> [Rule; 2] {
        [Rule::new(gate, source).cut(Cut::FirstHalf), Rule::new(up, source).cut(Cut::SecondHalf)]
    }

    /// Only these rows.
    pub const fn cut(self, cut: Cut) -> Rule {
        Rule { cut: Some(cut), ..self }
    }

    /// With this change of values.
    pub const fn edit(self, edit: Edit) -> Rule {
        Rule { edit, ..self }
    }
}

/// Rules for names that begin alike: `rules!("v.blk.{i}." "~layers.{i}."; "ln1" "norm1", ..)`, canonical name first.
macro_rules! rules {
    ($to:literal $from:literal; $($canonical:literal $source:literal),* $(,)?) => {
        [$($crate::names::Rule::new(concat!($to, $canonical), concat!($from, $source))),*]
    };
}
pub(crate) use rules;

/// Gate, up and down projection of a feed-forward part: canonical names with an ending, sources with a prefix.
macro_rules! gated {
    ($ending:literal, $prefix:literal) => {
        [
            $crate::names::Rule::new(concat!("blk.{i}.ffn_gate", $ending), concat!($prefix, ".gate_proj")),
            $crate::names::Rule::new(concat!("blk.{i}.ffn_up", $ending), concat!($prefix, ".up_proj")),
            $crate::names::Rule::new(concat!("blk.{i}.ffn_down", $ending), concat!($prefix, ".down_proj")),
        ]
    };
}
pub(crate) use gated;

/// Gate and up projection of all experts in one source, in which they take turns row by row: canonical names with a
/// suffix.
macro_rules! interleaved {
    ($suffix:literal, $source:literal, $edit:expr) => {
        [
            $crate::names::Rule::new(concat!("blk.{i}.ffn_gate_exps", $suffix), $source)
                .cut($crate::cut::Cut::ExpertEven)
                .edit($edit),
            $crate::names::Rule::new(concat!("blk.{i}.ffn_up_exps", $suffix), $source)
                .cut($crate::cut::Cut::ExpertOdd)
                .edit($edit),
        ]
    };
}
pub(crate) use interleaved;

/// Weights of all experts in one tensor each, gate above up, stored transposed: sources with a prefix.
macro_rules! transposed_experts {
    ($prefix:literal) => {
        [
            $crate::names::Rule::new("blk.{i}.ffn_gate_exps.weight", concat!($prefix, ".gate_up_proj"))
                .cut($crate::cut::Cut::ExpertFirstHalf)
                .edit($crate::names::Edit::Transpose),
            $crate::names::Rule::new("blk.{i}.ffn_up_exps.weight", concat!($prefix, ".gate_up_proj"))
                .cut($crate::cut::Cut::ExpertSecondHalf)
                .edit($crate::names::Edit::Transpose),
            $crate::names::Rule::new("blk.{i}.ffn_down_exps.weight", concat!($prefix, ".down_proj"))
                .edit($crate::names::Edit::Transpose),
        ]
    };
}
pub(crate) use transposed_experts;

/// Names that the followers of GPT-2 have in common.
pub const GPT: &[Rule] = &[
    Rule::new("token_embd", "transformer.wte"),
    Rule::new("position_embd", "transformer.wpe"),
    Rule::new("output_norm", "transformer.ln_f"),
    Rule::new("blk.{i}.attn_norm", "transformer.h.{i}.ln_1"),
    Rule::new("blk.{i}.attn_output", "transformer.h.{i}.attn.c_proj"),
    Rule::new("blk.{i}.ffn_norm", "transformer.h.{i}.ln_2"),
    Rule::new("blk.{i}.ffn_up", "transformer.h.{i}.mlp.c_fc"),
    Rule::new("blk.{i}.ffn_down", "transformer.h.{i}.mlp.c_proj"),
];

/// Names of Llama-like checkpoints; families override what differs.
pub const LLAMA: &[Rule] = &[
    Rule::new("token_embd", "model.embed_tokens"),
    Rule::new("output_norm", "model.norm"),
    Rule::new("output", "lm_head"),
    Rule::new("blk.{i}.attn_norm", "model.layers.{i}.input_layernorm"),
    Rule::new("blk.{i}.attn_q", "model.layers.{i}.self_attn.q_proj"),
    Rule::new("blk.{i}.attn_k", "model.layers.{i}.self_attn.k_proj"),
    Rule::new("blk.{i}.attn_v", "model.layers.{i}.self_attn.v_proj"),
    Rule::new("blk.{i}.attn_output", "model.layers.{i}.self_attn.o_proj"),
    Rule::new("blk.{i}.attn_q_norm", "model.layers.{i}.self_attn.q_norm"),
    Rule::new("blk.{i}.attn_k_norm", "model.layers.{i}.self_attn.k_norm"),
    Rule::new("blk.{i}.ffn_norm", "model.layers.{i}.post_attention_layernorm"),
    Rule::new("blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_proj"),
    Rule::new("blk.{i}.ffn_up", "model.layers.{i}.mlp.up_proj"),
    Rule::new("blk.{i}.ffn_down", "model.layers.{i}.mlp.down_proj"),
    Rule::new("blk.{i}.ffn_gate_inp", "model.layers.{i}.mlp.gate"),
    Rule::new("blk.{i}.exp_probs_b.bias", "model.layers.{i}.mlp.gate.e_score_correction_bias"),
    Rule::new("blk.{i}.ffn_gate_exps", "model.layers.{i}.mlp.experts.{n}.gate_proj"),
    Rule::new("blk.{i}.ffn_up_exps", "model.layers.{i}.mlp.experts.{n}.up_proj"),
    Rule::new("blk.{i}.ffn_down_exps", "model.layers.{i}.mlp.experts.{n}.down_proj"),
    Rule::new("blk.{i}.ffn_gate_exps.weight", "model.layers.{i}.mlp.experts.gate_up_proj")
        .cut(Cut::ExpertFirstHalf),
    Rule::new("blk.{i}.ffn_up_exps.weight", "model.layers.{i}.mlp.experts.gate_up_proj")
        .cut(Cut::ExpertSecondHalf),
    Rule::new("blk.{i}.ffn_down_exps.weight", "model.layers.{i}.mlp.experts.down_proj"),
    Rule::new("blk.{i}.ffn_gate_shexp", "model.layers.{i}.mlp.shared_expert.gate_proj"),
    Rule::new("blk.{i}.ffn_up_shexp", "model.layers.{i}.mlp.shared_expert.up_proj"),
    Rule::new("blk.{i}.ffn_down_shexp", "model.layers.{i}.mlp.shared_expert.down_proj"),
    Rule::new("blk.{i}.ffn_gate_inp_shexp", "model.layers.{i}.mlp.shared_expert_gate"),
    Rule::new("blk.{i}.nextn.eh_proj", "model.layers.{i}.eh_proj"),
    Rule::new("blk.{i}.nextn.enorm", "model.layers.{i}.enorm"),
    Rule::new("blk.{i}.nextn.hnorm", "model.layers.{i}.hnorm"),
    Rule::new("blk.{i}.nextn.embed_tokens", "model.layers.{i}.embed_tokens"),
    Rule::new("blk.{i}.nextn.shared_head_norm", "model.layers.{i}.shared_head.norm"),
    Rule::new("blk.{i}.nextn.shared_head_head", "model.layers.{i}.shared_head.head"),
];

/// Rules that GGUF files need: names are canonical there, but some files fuse what the plan wants apart.
pub const GGUF: &[Rule] = &[
    Rule::new("blk.{i}.attn_q", "blk.{i}.attn_qkv").cut(Cut::Q),
    Rule::new("blk.{i}.attn_k", "blk.{i}.attn_qkv").cut(Cut::K),
    Rule::new("blk.{i}.attn_v", "blk.{i}.attn_qkv").cut(Cut::V),
    Rule::new("blk.{i}.attn_k_b", "blk.{i}.attn_kv_b").cut(Cut::UpK).edit(Edit::TransposeCut),
    Rule::new("blk.{i}.attn_v_b", "blk.{i}.attn_kv_b").cut(Cut::UpV),
    Rule::new("cls.output", "cls"),
    Rule::new("blk.{i}.ffn_gate_exps", "blk.{i}.ffn_gate_up_exps").cut(Cut::ExpertFirstHalf),
    Rule::new("blk.{i}.ffn_up_exps", "blk.{i}.ffn_gate_up_exps").cut(Cut::ExpertSecondHalf),
];

/// A canonical name taken apart: `blk.7.attn_q.weight`.
pub(crate) struct Canonical<'a> {
    /// Layer, if the name has one.
    pub layer: Option<usize>,
    /// `blk.{i}.attn_q`.
    pub base: String,
    /// `.weight`, `.bias` or empty.
    pub suffix: &'a str,
}

impl<'a> Canonical<'a> {
    pub fn parse(name: &'a str) -> Self {
        let (stem, suffix) = [".weight", ".bias"]
            .iter()
            .find_map(|s| name.strip_suffix(s).map(|stem| (stem, &name[stem.len()..])))
            .unwrap_or((name, ""));
        let layered = stem.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        match layered.and_then(|(i, rest)| Some((i.parse().ok()?, rest))) {
            Some((i, rest)) => Canonical { layer: Some(i), base: format!("blk.{{i}}.{rest}"), suffix },
            None => Canonical { layer: None, base: stem.to_owned(), suffix },
        }
    }

    /// The layer's spec, if the name has one that exists.
    pub fn spec<'s>(&self, spec: &'s ModelSpec) -> Option<&'s Layer> {
        spec.layer(self.layer?)
    }

    /// The source name of `rule` for this tensor, if the rule speaks of it; `{n}` is still open.
    ///
    /// Layers of heads, behind the model's `layers` own ones, stand where `heads` says.
    pub fn source(&self, rule: &Rule, layers: usize, heads: &HeadStyle) -> Option<String> {
        let source = if rule.canonical == self.base {
            format!("{}{}", rule.source, self.suffix)
        } else if rule.canonical == format!("{}{}", self.base, self.suffix) {
            rule.source.to_owned()
        } else {
            return None;
        };
        let Some(i) = self.layer else { return Some(source) };
        let source = match i.checked_sub(layers) {
            Some(h) => source.replace(HeadStyle::LAYERS, heads.layers).replace("{h}", &h.to_string()),
            None => source,
        };
        Some(source.replace("{i}", &i.to_string()))
    }
}

//! What vision transformers have in common: blocks of one shape, positions of patches, names of their tensors.

pub(super) use super::channels::*;
use super::{PatchPlaces, RotaryPairs, VisionEncoder};
use crate::{
    cut::Cut,
    error::{ArchError, Result},
    names::{Rule, rules},
    spec::{Act, Dense, Ffn, Gqa, Layer, Mask, Mixer, Norm, NormKind, Pairs, Place, Rope},
};
use lamina_store::Config;
use std::collections::BTreeMap;

/// Sizes of a vision transformer of equal blocks.
pub(crate) struct Vit {
    pub hidden: usize,
    pub heads: usize,
    pub inner: usize,
    pub layers: usize,
    pub norm: Norm,
    pub act: Act,
    pub gated: bool,
}

pub(super) const fn rms(eps: f32) -> Norm {
    Norm { kind: NormKind::Rms, eps }
}

pub(crate) const fn layer_norm(eps: f32) -> Norm {
    Norm { kind: NormKind::Layer, eps }
}

impl Vit {
    /// Its sizes under the usual names, with blocks of two matrices.
    pub fn of(c: &Config, norm: Norm, act: Act) -> Result<Vit> {
        let either = |usual: &str, other: &str| match c.opt_usize(usual)? {
            Some(n) => Ok::<usize, ArchError>(n),
            None => Ok(c.usize(other)?),
        };
        Ok(Vit {
            hidden: c.usize("hidden_size")?,
            heads: either("num_attention_heads", "num_heads")?,
            inner: c.usize("intermediate_size")?,
            layers: either("num_hidden_layers", "depth")?,
            norm,
            act: activation(c)?.unwrap_or(act),
            gated: false,
        })
    }

    /// An encoder of such blocks, without anything around them.
    pub fn encoder(self) -> Result<VisionEncoder> {
        if self.heads == 0 || !self.hidden.is_multiple_of(self.heads) {
            let want = format!("a divisor of the width {}", self.hidden);
            return Err(ArchError::value("num_attention_heads", self.heads, want));
        }
        let dim = self.hidden / self.heads;
        let layer = Layer {
            mixer: Mixer::Gqa(Gqa {
                heads: self.heads,
                kv_heads: self.heads,
                dim,
                qk_norm: None,
                v_norm: None,
                rope: None,
                alibi: None,
                scale: (dim as f32).powf(-0.5),
                softcap: None,
                mask: Mask::Full,
                sinks: false,
                gated: false,
                clip: None,
                temperature: None,
            }),
            ffn: Ffn::Dense(Dense { inner: self.inner, act: self.act, gated: self.gated }),
            place: Place::Pre,
            norm: self.norm,
            residual: 1.0,
            scale: 1.0,
        };
        Ok(VisionEncoder {
            hidden: self.hidden,
            patch_norm: None,
            class: None,
            places: PatchPlaces::None,
            first_place: 0,
            pre_norm: None,
            layers: vec![layer; self.layers],
            pairs: RotaryPairs::Half,
            windows: None,
            merger: None,
            post_norm: None,
            deep: vec![],
            clips: BTreeMap::new(),
        })
    }
}

impl VisionEncoder {
    /// With what `change` makes of the attention of each block.
    pub(super) fn each(mut self, change: impl Fn(&mut Gqa)) -> VisionEncoder {
        for layer in &mut self.layers {
            if let Mixer::Gqa(g) = &mut layer.mixer {
                change(g);
            }
        }
        self
    }

    /// With rotary pairs that turn by `angles`, each of an axis: 1 for the row, 2 for the column.
    pub(super) fn turned(self, angles: &[(f32, u8)]) -> VisionEncoder {
        let rope = Rope {
            dim: 2 * angles.len(),
            pairs: Pairs::Half,
            freqs: angles.iter().map(|a| a.0).collect(),
            long: None,
            magnitude: 1.0,
            axes: angles.iter().map(|a| a.1).collect(),
        };
        self.each(|g| g.rope = Some(rope.clone()))
    }

    /// Width of a head.
    pub(super) fn head_dim(&self) -> usize {
        self.layers.first().map_or(0, |l| if let Mixer::Gqa(g) = &l.mixer { g.dim } else { 0 })
    }
}

/// `theta^(-2 i / dim)` for `count` pairs.
pub(super) fn angles(theta: f32, dim: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| f64::from(theta).powf(-((2 * i) as f64) / dim as f64) as f32).collect()
}

/// Half of the pairs turn by the row, the other half by the column, each with all frequencies (Qwen-VL, GLM-V).
pub(super) fn by_halves(theta: f32, dim: usize, axes: [u8; 2]) -> Vec<(f32, u8)> {
    let freqs = angles(theta, dim / 2, dim / 4);
    axes.iter().flat_map(|&axis| freqs.iter().map(move |&f| (f, axis)).collect::<Vec<_>>()).collect()
}

/// The base of a rotary embedding, in either spelling; `usual` where the settings do not say it.
pub(super) fn theta(c: &Config, usual: f32) -> Result<f32> {
    c.ignore(&["rope_parameters.rope_type"]);
    let nested = c.opt_f32("rope_parameters.rope_theta")?;
    Ok(nested.or(c.opt_f32("rope_theta")?).unwrap_or(usual))
}

/// The nonlinearity that the settings name.
pub(super) fn activation(c: &Config) -> Result<Option<Act>> {
    let name = match c.opt_str("hidden_act")? {
        None => c.opt_str("hidden_activation")?,
        name => name,
    };
    let Some(name) = name else { return Ok(None) };
    Ok(Some(match name {
        "quick_gelu" => Act::GeluQuick,
        "gelu" => Act::Gelu,
        "gelu_pytorch_tanh" | "gelu_new" => Act::GeluTanh,
        "silu" => Act::Silu,
        other => return Err(ArchError::value("hidden_act", other, "quick_gelu gelu gelu_pytorch_tanh silu")),
    }))
}

/// Names of CLIP and SigLIP.
pub(super) const SIGLIP: &[Rule] = &rules!("v." "~";
    "patch_embd" "embeddings.patch_embedding", "class_embd" "embeddings.class_embedding",
    "position_embd" "embeddings.position_embedding", "pre_ln" "pre_layrnorm", "post_ln" "post_layernorm");

/// Names of their blocks.
pub(super) const SIGLIP_BLOCKS: &[Rule] = &rules!("v.blk.{i}." "~encoder.layers.{i}.";
    "ln1" "layer_norm1", "ln2" "layer_norm2", "attn_q" "self_attn.q_proj", "attn_k" "self_attn.k_proj",
    "attn_v" "self_attn.v_proj", "attn_out" "self_attn.out_proj", "ffn_up" "mlp.fc1", "ffn_down" "mlp.fc2");

/// Names of the encoders of Qwen-VL and GLM-V.
pub(super) const VISUAL: &[Rule] = &[
    Rule::new("v.patch_embd", "~patch_embed.proj"),
    Rule::new("v.position_embd", "~pos_embed"),
    Rule::new("v.blk.{i}.ln1", "~blocks.{i}.norm1"),
    Rule::new("v.blk.{i}.ln2", "~blocks.{i}.norm2"),
    Rule::new("v.blk.{i}.attn_q", "~blocks.{i}.attn.qkv").cut(Cut::Q),
    Rule::new("v.blk.{i}.attn_k", "~blocks.{i}.attn.qkv").cut(Cut::K),
    Rule::new("v.blk.{i}.attn_v", "~blocks.{i}.attn.qkv").cut(Cut::V),
    Rule::new("v.blk.{i}.attn_out", "~blocks.{i}.attn.proj"),
    Rule::new("v.blk.{i}.ffn_gate", "~blocks.{i}.mlp.gate_proj"),
    Rule::new("v.blk.{i}.ffn_up", "~blocks.{i}.mlp.up_proj"),
    Rule::new("v.blk.{i}.ffn_down", "~blocks.{i}.mlp.down_proj"),
    Rule::new("v.blk.{i}.ffn_up", "~blocks.{i}.mlp.fc1"),
    Rule::new("v.blk.{i}.ffn_down", "~blocks.{i}.mlp.fc2"),
    Rule::new("v.blk.{i}.ffn_up", "~blocks.{i}.mlp.linear_fc1"),
    Rule::new("v.blk.{i}.ffn_down", "~blocks.{i}.mlp.linear_fc2"),
];

/// Fused queries, keys and values of mmproj files.
pub(super) const FUSED: &[Rule] = &[
    Rule::new("v.blk.{i}.attn_q", "v.blk.{i}.attn_qkv").cut(Cut::Q),
    Rule::new("v.blk.{i}.attn_k", "v.blk.{i}.attn_qkv").cut(Cut::K),
    Rule::new("v.blk.{i}.attn_v", "v.blk.{i}.attn_qkv").cut(Cut::V),
];

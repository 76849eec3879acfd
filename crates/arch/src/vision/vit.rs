//! What vision transformers have in common: blocks of one shape, positions of patches, names of their tensors.

use super::{PatchPlaces, PixelScaling, Projector, ProjectorStep, RotaryPairs, VisionEncoder, VisionSource};
use crate::{
    cut::Cut,
    error::{ArchError, Result},
    names::Rule,
    spec::{Act, Dense, Ffn, Gqa, Layer, Mask, Mixer, Norm, NormKind, Pairs, Place, Rope},
};
use lamina_image::Filter;
use lamina_store::Config;

/// Sizes of a vision transformer of equal blocks.
pub(super) struct Vit {
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

pub(super) const fn layer_norm(eps: f32) -> Norm {
    Norm { kind: NormKind::Layer, eps }
}

impl Vit {
    /// Its sizes under the usual names, with blocks of two matrices.
    pub fn of(c: &Config, norm: Norm, act: Act) -> Result<Vit> {
        Ok(Vit {
            hidden: c.usize("hidden_size")?,
            heads: c.usize("num_attention_heads")?,
            inner: c.usize("intermediate_size")?,
            layers: c.usize("num_hidden_layers")?,
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

impl Projector {
    /// Steps without deep rows.
    pub(super) fn plain(out: usize, steps: Vec<ProjectorStep>) -> Projector {
        Projector { steps, deep: vec![], out }
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

/// The base of a rotary embedding, in either spelling.
pub(super) fn theta(c: &Config) -> Result<f32> {
    c.ignore(&["rope_parameters.rope_type"]);
    let nested = c.opt_f32("rope_parameters.rope_theta")?;
    Ok(nested.or(c.opt_f32("rope_theta")?).unwrap_or(10_000.0))
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

/// A number that some write as a pair of equal ones.
pub(super) fn side(c: &Config, key: &str) -> Result<Option<usize>> {
    if c.value(key).is_some_and(|v| v.is_array()) {
        let both = c.opt_usize_list(key)?.unwrap_or_default();
        return match both[..] {
            [a, b] if a == b => Ok(Some(a)),
            _ => Err(ArchError::value(key, format!("{both:?}"), "two equal numbers")),
        };
    }
    if c.value(key).is_some_and(|v| v.is_object()) {
        return Ok(c.opt_usize(&format!("{key}.height"))?);
    }
    Ok(c.opt_usize(key)?)
}

/// [`side`] of what has to be there.
pub(super) fn need_side(c: &Config, key: &str) -> Result<usize> {
    side(c, key)?.filter(|&n| n > 0).ok_or_else(|| ArchError::value(key, "missing", "a number above 0"))
}

/// How the processor scales samples, and what it says of resampling.
pub(super) fn scaling(source: &VisionSource, means: ([f32; 3], [f32; 3])) -> Result<PixelScaling> {
    let c = &source.processor;
    let three = |key: &str, default: [f32; 3]| -> Result<[f32; 3]> {
        let Some(list) = c.opt_f32_list(key)? else { return Ok(default) };
        let found = format!("{list:?}");
        list.try_into().map_err(|_| ArchError::value(key, found, "three numbers"))
    };
    let rescale = c.value("rescale_factor").and_then(serde_json::Value::as_f64).unwrap_or(1.0 / 255.0);
    Ok(PixelScaling {
        rescale,
        mean: three("image_mean", means.0)?,
        deviation: three("image_std", means.1)?,
        bfloat16: false,
    })
}

/// The filter that the processor names by Pillow's number, or the family's own.
pub(super) fn filter(source: &VisionSource, own: Filter) -> Result<Filter> {
    Ok(match source.processor.opt_usize("resample")? {
        None => own,
        Some(1) => Filter::Lanczos,
        Some(2) => Filter::Bilinear,
        Some(3) => Filter::Bicubic,
        Some(other) => {
            return Err(ArchError::value("resample", other, "1 (Lanczos), 2 (bilinear) or 3 (bicubic)"));
        }
    })
}

/// Means and deviations of CLIP, of those who halve, and of ImageNet.
pub(super) const CLIP: ([f32; 3], [f32; 3]) =
    ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_6, 0.275_777_1]);
pub(super) const HALF: ([f32; 3], [f32; 3]) = ([0.5; 3], [0.5; 3]);
pub(super) const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

/// Names of CLIP and SigLIP.
pub(super) const SIGLIP: &[Rule] = &[
    Rule::new("v.patch_embd", "~embeddings.patch_embedding"),
    Rule::new("v.class_embd", "~embeddings.class_embedding"),
    Rule::new("v.position_embd", "~embeddings.position_embedding"),
    Rule::new("v.pre_ln", "~pre_layrnorm"),
    Rule::new("v.post_ln", "~post_layernorm"),
    Rule::new("v.blk.{i}.ln1", "~encoder.layers.{i}.layer_norm1"),
    Rule::new("v.blk.{i}.ln2", "~encoder.layers.{i}.layer_norm2"),
    Rule::new("v.blk.{i}.attn_q", "~encoder.layers.{i}.self_attn.q_proj"),
    Rule::new("v.blk.{i}.attn_k", "~encoder.layers.{i}.self_attn.k_proj"),
    Rule::new("v.blk.{i}.attn_v", "~encoder.layers.{i}.self_attn.v_proj"),
    Rule::new("v.blk.{i}.attn_out", "~encoder.layers.{i}.self_attn.out_proj"),
    Rule::new("v.blk.{i}.ffn_up", "~encoder.layers.{i}.mlp.fc1"),
    Rule::new("v.blk.{i}.ffn_down", "~encoder.layers.{i}.mlp.fc2"),
];

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

//! Rotary settings: the spec holds finished tables, so bases and factors come from the configuration.

use super::Folder;
use crate::{draft::Planned, error::Result};
use lamina_arch::{
    plain_rope,
    spec::{Mask, Mixer, Rope},
};
use lamina_base::HostTensor;
use lamina_store::{Metadata, Value};

/// Rotary settings of one kind of layers.
struct Section<'a> {
    folder: &'a Folder,
    /// `rope_parameters` or a section of it.
    path: &'static str,
    rope: &'a Rope,
    /// Of sliding layers, in a model that has others too.
    sliding: bool,
}

const FULL: &str = "rope_parameters.full_attention";
const SLIDING: &str = "rope_parameters.sliding_attention";
const ALL: &str = "rope_parameters";

/// GGUF key behind `rope.scaling.`, and its name in the configuration.
const YARN: &[(&str, &str)] = &[
    ("yarn_beta_fast", "beta_fast"),
    ("yarn_beta_slow", "beta_slow"),
    ("yarn_attn_factor", "attention_factor"),
];

/// Writes the keys of `rope`.
pub fn write(folder: &Folder, metadata: &mut Metadata) -> Result<()> {
    let Some(main) = main(folder) else { return Ok(()) };
    let mut set = |key: &str, value: Value| {
        metadata.insert(format!("{}.rope.{key}", folder.architecture), value);
    };
    set("dimension_count", Value::U32(main.rope.dim as u32));
    set("freq_base", Value::F32(main.base()?));
    if let Some(sections) = sections(folder)? {
        set("dimension_sections", sections);
    }
    for (key, value) in main.scaling()? {
        set(&format!("scaling.{key}"), value);
    }
    if let Some(sliding) = sliding(folder) {
        set("freq_base_swa", Value::F32(sliding.base()?));
    }
    Ok(())
}

/// Factors that files keep as tensors: those of Llama 3.1 divide the plain frequencies, LongRoPE has two lists.
pub fn tensors(folder: &Folder) -> Result<Vec<Planned>> {
    let Some(main) = main(folder) else { return Ok(vec![]) };
    let factors =
        |name: &str, values: &[f32]| Planned::stored(HostTensor::from_f32(name, vec![values.len()], values));
    let plain = plain_rope(main.rope.dim, main.base()?, main.rope.pairs).freqs;
    let divide = |freqs: &[f32]| -> Vec<f32> { plain.iter().zip(freqs).map(|(p, f)| p / f).collect() };
    Ok(match (main.kind()?, &main.rope.long) {
        ("llama3", _) => vec![factors("rope_freqs.weight", &divide(&main.rope.freqs))],
        ("longrope" | "su", Some(long)) => {
            let list = |key: &str, freqs: &[f32]| -> Result<Vec<f32>> {
                Ok(folder.ck.config.opt_f32_list(&format!("{}.{key}", main.path))?.unwrap_or(divide(freqs)))
            };
            let (short, long) = (list("short_factor", &main.rope.freqs)?, list("long_factor", &long.freqs)?);
            vec![factors("rope_factors_long.weight", &long), factors("rope_factors_short.weight", &short)]
        }
        _ => vec![],
    })
}

/// How many pairs turn with each of the three positions of images; a text's positions are all equal.
fn sections(folder: &Folder) -> Result<Option<Value>> {
    if !folder.architecture.starts_with("qwen35") {
        return Ok(None);
    }
    let said = folder.ck.config.opt_usize_list("rope_parameters.mrope_section")?;
    let mut list: Vec<i32> = said.unwrap_or(vec![11, 11, 10]).into_iter().map(|n| n as i32).collect();
    list.resize(4, 0);
    Ok(Some(list.into()))
}

/// Every rotary table with its mask.
fn tables(folder: &Folder) -> impl Iterator<Item = (&Rope, Mask)> {
    folder.spec.layers.iter().filter_map(|l| match &l.mixer {
        Mixer::Gqa(g) => Some((g.rope.as_ref()?, g.mask)),
        Mixer::Mla(m) => Some((&m.rope, Mask::Causal)),
        _ => None,
    })
}

/// The settings of the full layers; of all layers where there are no full ones that turn.
fn main(folder: &Folder) -> Option<Section<'_>> {
    let full = tables(folder).find(|(_, mask)| matches!(mask, Mask::Causal | Mask::Strict));
    let (rope, mask) = full.or_else(|| tables(folder).next())?;
    let config = &folder.ck.config;
    let path = match mask {
        Mask::Window(_) if config.has(SLIDING) => SLIDING,
        _ if config.has(FULL) => FULL,
        _ => ALL,
    };
    Some(Section { folder, path, rope, sliding: false })
}

/// The settings of the sliding layers, where the full ones turn too and in another way.
fn sliding(folder: &Folder) -> Option<Section<'_>> {
    let main = main(folder)?;
    let (rope, _) = tables(folder).find(|(_, mask)| matches!(mask, Mask::Window(_)))?;
    let path = if folder.ck.config.has(SLIDING) { SLIDING } else { ALL };
    (rope != main.rope).then_some(Section { folder, path, rope, sliding: true })
}

impl Section<'_> {
    fn f32(&self, key: &str) -> Result<Option<f32>> {
        Ok(self.folder.ck.config.opt_f32(&format!("{}.{key}", self.path))?)
    }

    fn kind(&self) -> Result<&str> {
        Ok(self.folder.ck.config.opt_str(&format!("{}.rope_type", self.path))?.unwrap_or("default"))
    }

    /// The base of the powers, with Hunyuan's fixed stretch in it.
    fn base(&self) -> Result<f32> {
        let known = self.folder.family.default("rope_theta").filter(|_| !self.sliding || self.path == ALL);
        let theta = self.f32("rope_theta")?.unwrap_or(known.unwrap_or(10_000.0) as f32);
        let dim = self.rope.dim as f32;
        Ok(theta * self.f32("alpha")?.unwrap_or(1.0).powf(dim / (dim - 2.0).max(1.0)))
    }

    /// Keys behind `rope.scaling.`.
    fn scaling(&self) -> Result<Vec<(&'static str, Value)>> {
        let number = |key| -> Result<Option<Value>> { Ok(self.f32(key)?.map(Value::F32)) };
        let original = || -> Result<Option<Value>> {
            let path = format!("{}.original_max_position_embeddings", self.path);
            let said = self.folder.ck.config.opt_usize(&path)?;
            Ok(said.and_then(|n| u32::try_from(n).ok()).map(Value::U32))
        };
        let mut out = vec![];
        match self.kind()? {
            "linear" => {
                out.push(("type", Some("linear".into())));
                out.push(("factor", number("factor")?));
            }
            "yarn" => {
                out.push(("type", Some("yarn".into())));
                out.push(("factor", number("factor")?));
                out.push(("original_context_length", original()?.or(self.context())));
                for (key, name) in YARN {
                    out.push((key, number(name)?));
                }
                self.magnitude(&mut out)?;
            }
            "longrope" | "su" => {
                out.push(("type", Some("longrope".into())));
                out.push(("original_context_length", original()?.or(self.context())));
                out.push(("attn_factor", Some(self.rope.magnitude.into())));
            }
            _ => {}
        }
        Ok(out.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
    }

    fn context(&self) -> Option<Value> {
        u32::try_from(self.folder.spec.context).ok().map(Value::U32)
    }

    /// DeepSeek's second way to say how large scaled angles count. Readers take both of its numbers for the same; where
    /// they are not, the factor on cosine and sine has a key of its own.
    fn magnitude(&self, out: &mut Vec<(&'static str, Option<Value>)>) -> Result<()> {
        let (Some(all), Some(one)) = (self.f32("mscale_all_dim")?, self.f32("mscale")?) else {
            return Ok(());
        };
        out.push(("yarn_log_multiplier", Some((0.1 * all).into())));
        if all != one && self.f32("attention_factor")?.is_none() {
            out.push(("yarn_attn_factor", Some(self.rope.magnitude.into())));
        }
        Ok(())
    }
}

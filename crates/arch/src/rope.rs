//! Rotary frequencies from a model's configuration: every scaling that checkpoints name.

use crate::{
    error::{ArchError, Result},
    family::Family,
    spec::{LongRope, Pairs, QueryScale, Rope},
};
use lamina_store::{Checkpoint, Config};
use std::f32::consts::PI;

/// Reads the rotary embedding of a head of `head_dim`, of which a `partial_rotary_factor` may turn only a part.
///
/// `layer_type` picks one of several sets (`full_attention`, `sliding_attention`), where a model has them.
///
/// # Errors
/// A missing or unknown key of the configuration, or factors of the wrong length.
pub fn rope(ck: &Checkpoint, family: &Family, head_dim: usize, layer_type: Option<&str>) -> Result<Rope> {
    let (keys, pairs) = (Keys::new(&ck.config, layer_type), family.pairs_in(ck));
    let dim = rotary_dim(&keys, head_dim)?;
    let default = family.default("rope_theta").filter(|_| layer_type != Some("sliding_attention"));
    let theta = keys.f32("rope_theta")?.unwrap_or(default.unwrap_or(10_000.0) as f32);
    // A fixed stretch of the base (Hunyuan), under the name of the one that grows with the text.
    let theta = theta * keys.f32("alpha")?.unwrap_or(1.0).powf(dim as f32 / (dim as f32 - 2.0).max(1.0));
    let base = base(dim, theta);
    let axes = axes(&keys, family, dim / 2)?;
    let plain = |freqs| Rope { dim, pairs, freqs, long: None, magnitude: 1.0, axes: axes.clone() };
    let kind = keys.text("rope_type")?.unwrap_or("default");
    let factor = keys.f32("factor")?.unwrap_or(1.0);
    match kind {
        "default" | "none" | "mrope" => {
            // Factors are those of the layers that see all where the others have heads of another size (Gemma 4).
            let sliding = layer_type == Some("sliding_attention");
            let unfit = |t: &lamina_base::HostTensor| sliding && t.elements() != base.len();
            let name = "rope_freqs.weight";
            let base =
                if ck.tensors.get(name).is_some_and(unfit) { base } else { with_factors(ck, name, base)? };
            Ok(plain(base))
        }
        // Frequencies of the whole head, of which only the first turn.
        "proportional" => {
            let mut freqs = self::base(head_dim, theta);
            freqs.iter_mut().for_each(|f| *f /= factor);
            freqs[dim / 2..].fill(0.0);
            Ok(Rope { dim: head_dim, ..plain(freqs) })
        }
        "linear" => Ok(plain(base.iter().map(|f| f / factor).collect())),
        "llama3" => Ok(plain(llama3(&keys, &base)?)),
        "yarn" => Ok(Rope {
            freqs: yarn(&keys, family, &base, theta)?,
            magnitude: yarn_magnitude(&keys)?,
            ..plain(vec![])
        }),
        "longrope" | "su" => longrope(ck, &keys, &base, plain(vec![])),
        // Dynamic NTK stretches with the running length; within the trained context it is the plain table, and beyond
        // it a model is refused ([`grows_with_the_text`]).
        "dynamic" => Ok(plain(base)),
        other => Err(ArchError::value(
            "rope_parameters.rope_type",
            other,
            "default linear llama3 yarn longrope dynamic proportional",
        )),
    }
}

/// Whether the rotary frequencies depend on how long the text is at each moment (dynamic NTK). Within the context that
/// the model was made for they do not.
pub fn grows_with_the_text(config: &Config) -> bool {
    // With an alpha the stretch is fixed (Hunyuan).
    let dynamic = |value: &serde_json::Value| {
        value.get("rope_type").is_some_and(|kind| kind == "dynamic") && value.get("alpha").is_none()
    };
    config
        .value("rope_parameters")
        .is_some_and(|all| dynamic(all) || all.as_object().is_some_and(|map| map.values().any(dynamic)))
}

/// Which layers have a rotary embedding: those marked 1, else all but every n-th.
///
/// # Errors
/// A value of another type.
pub fn rotary_layers(c: &Config) -> Result<impl Fn(usize) -> bool> {
    let marks = c.opt_bool_list("no_rope_layers")?.unwrap_or_default();
    let every = c.opt_usize("no_rope_layer_interval")?.unwrap_or(4).max(1);
    Ok(move |i: usize| marks.get(i).copied().unwrap_or(!(i + 1).is_multiple_of(every)))
}

/// Scaling of queries by position: on unless switched off; older configurations hold a number instead of `true`.
///
/// # Errors
/// A value of another type.
pub fn temperature(c: &Config) -> Result<Option<QueryScale>> {
    let switch = c.value("attn_temperature_tuning");
    let off = switch.is_some_and(|v| v.as_bool() == Some(false) || v.as_f64() == Some(0.0));
    let scale = c.opt_f32("attn_scale")?.unwrap_or(0.1);
    let floor = c.opt_f32("floor_scale")?.unwrap_or(8192.0);
    Ok((!off).then_some(QueryScale { scale, floor, offset: 1.0 }))
}

/// A rotary embedding without any scaling.
pub fn plain_rope(dim: usize, theta: f32, pairs: Pairs) -> Rope {
    Rope { dim, pairs, freqs: base(dim, theta), long: None, magnitude: 1.0, axes: vec![] }
}

/// `theta^(-2i / dim)`, rounded once: the models' code raises in single precision, which differs by a last bit.
fn base(dim: usize, theta: f32) -> Vec<f32> {
    let power = |i: usize| f64::from(theta).powf(-((2 * i) as f64) / dim as f64) as f32;
    (0..dim / 2).map(power).collect()
}

/// Where the keys of a rotary set stand: `rope_parameters`, or inside it under the layer's type.
struct Keys<'a> {
    config: &'a Config,
    prefix: String,
}

impl<'a> Keys<'a> {
    fn new(config: &'a Config, layer_type: Option<&str>) -> Self {
        let nested = layer_type.map(|t| format!("rope_parameters.{t}"));
        let prefix = nested.filter(|p| config.has(p)).unwrap_or_else(|| "rope_parameters".into());
        Keys { config, prefix }
    }

    fn f32(&self, key: &str) -> Result<Option<f32>> {
        Ok(self.config.opt_f32(&format!("{}.{key}", self.prefix))?)
    }

    fn need(&self, key: &str) -> Result<f32> {
        Ok(self.config.f32(&format!("{}.{key}", self.prefix))?)
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        Ok(self.config.opt_str(&format!("{}.{key}", self.prefix))?)
    }

    fn list(&self, key: &str) -> Result<Option<Vec<f32>>> {
        Ok(self.config.opt_f32_list(&format!("{}.{key}", self.prefix))?)
    }

    /// Length that the scaling starts from.
    fn original_context(&self) -> Result<f32> {
        match self.f32("original_max_position_embeddings")? {
            Some(n) => Ok(n),
            None => Ok(self.config.usize("max_position_embeddings")? as f32),
        }
    }
}

fn rotary_dim(keys: &Keys<'_>, head_dim: usize) -> Result<usize> {
    let layers = keys.config.opt_usize("num_hidden_layers")?.unwrap_or(1);
    crate::validate::rotary(head_dim, layers)?;
    let by_count = match keys.config.opt_usize("rope_dimension_count")? {
        None => keys.config.opt_usize("rotary_dim")?,
        count => count,
    };
    let by_factor = keys.f32("partial_rotary_factor")?.map(|f| (head_dim as f32 * f) as usize);
    let dim = by_factor.or(by_count).unwrap_or(head_dim);
    if dim == 0 || dim > head_dim || dim % 2 == 1 {
        return Err(ArchError::value("rope dimension", dim, "an even number up to the head's width"));
    }
    Ok(dim)
}

/// Axis of each of `pairs` pairs, where `mrope_section` shares them out: one section after the other, or in turn
/// (Qwen 3.5) as long as the sections of height and width reach.
fn axes(keys: &Keys<'_>, family: &Family, pairs: usize) -> Result<Vec<u8>> {
    let Some(sections) = keys.config.opt_usize_list(&format!("{}.mrope_section", keys.prefix))? else {
        return Ok(vec![]);
    };
    let said = keys.config.opt_bool(&format!("{}.mrope_interleaved", keys.prefix))?;
    let section = |axis: usize| sections.get(axis).map_or(0, |&n| n.min(pairs));
    Ok(if said.unwrap_or(family.name.starts_with("qwen3_5")) {
        (0..pairs).map(|i| if i / 3 < section(i % 3) { (i % 3) as u8 } else { 0 }).collect()
    } else {
        (0..3u8).flat_map(|axis| std::iter::repeat_n(axis, section(axis.into()))).take(pairs).collect()
    })
}

/// Divides by the factors that a GGUF keeps as a tensor, if it has them.
fn with_factors(ck: &Checkpoint, name: &str, base: Vec<f32>) -> Result<Vec<f32>> {
    let Some(tensor) = ck.tensors.get(name) else { return Ok(base) };
    let factors = lamina_quant::to_f32(tensor)?;
    divide(name, &base, &factors)
}

fn divide(name: &str, base: &[f32], factors: &[f32]) -> Result<Vec<f32>> {
    if factors.len() != base.len() {
        return Err(ArchError::value(name, format!("{} factors", factors.len()), format!("{}", base.len())));
    }
    Ok(base.iter().zip(factors).map(|(b, f)| b / f).collect())
}

/// Llama 3.1: long waves are stretched by `factor`, short ones kept, those between blended.
fn llama3(keys: &Keys<'_>, base: &[f32]) -> Result<Vec<f32>> {
    let (factor, context) = (keys.need("factor")?, keys.original_context()?);
    let (low, high) =
        (keys.f32("low_freq_factor")?.unwrap_or(1.0), keys.f32("high_freq_factor")?.unwrap_or(4.0));
    let stretch = |&f: &f32| {
        let wave = 2.0 * PI / f;
        let blend = ((context / wave - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 - blend) * f / factor + blend * f
    };
    Ok(base.iter().map(stretch).collect())
}

/// YaRN (arXiv 2309.00071): interpolation for slow dimensions, extrapolation for fast ones, a ramp between.
fn yarn(keys: &Keys<'_>, family: &Family, base: &[f32], theta: f32) -> Result<Vec<f32>> {
    let (factor, context) = (keys.need("factor")?, keys.original_context()?);
    let (fast, slow) = (keys.f32("beta_fast")?.unwrap_or(32.0), keys.f32("beta_slow")?.unwrap_or(1.0));
    let whole = keys.config.opt_bool(&format!("{}.truncate", keys.prefix))?;
    let whole = whole.unwrap_or(family.default("truncate") != Some(0.0));
    let dim = 2 * base.len();
    let turns = |n: f32| dim as f32 * (context / (n * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (turns(fast), turns(slow));
    if whole {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim as f32 - 1.0));
    let span = if high == low { 0.001 } else { high - low };
    let blend = |(i, &f): (usize, &f32)| {
        let ramp = ((i as f32 - low) / span).clamp(0.0, 1.0);
        f / factor * ramp + f * (1.0 - ramp)
    };
    Ok(base.iter().enumerate().map(blend).collect())
}

/// `0.1 m ln(s) + 1`: the paper's temperature for stretched contexts.
pub fn yarn_mscale(scale: f32, mscale: f32) -> f32 {
    if scale <= 1.0 { 1.0 } else { 0.1 * mscale * scale.ln() + 1.0 }
}

fn yarn_magnitude(keys: &Keys<'_>) -> Result<f32> {
    if let Some(f) = keys.f32("attention_factor")? {
        return Ok(f);
    }
    let factor = keys.need("factor")?;
    Ok(match (keys.f32("mscale")?, keys.f32("mscale_all_dim")?) {
        (Some(m), Some(all)) if m != 0.0 && all != 0.0 => yarn_mscale(factor, m) / yarn_mscale(factor, all),
        _ => yarn_mscale(factor, 1.0),
    })
}

/// LongRoPE (arXiv 2402.13753): one list of divisors up to the original context and one beyond.
fn longrope(ck: &Checkpoint, keys: &Keys<'_>, base: &[f32], rope: Rope) -> Result<Rope> {
    let factors = |key: &str, tensor: &str| -> Result<Vec<f32>> {
        match (keys.list(key)?, ck.tensors.get(tensor)) {
            (Some(list), _) => Ok(list),
            (None, Some(t)) => Ok(lamina_quant::to_f32(t)?),
            (None, None) => Err(ArchError::value(key, "missing", "a list of factors")),
        }
    };
    let (short, long) = (
        factors("short_factor", "rope_factors_short.weight")?,
        factors("long_factor", "rope_factors_long.weight")?,
    );
    let original = keys.original_context()?;
    let context = ck.config.usize("max_position_embeddings")? as f32;
    let stretch = keys.f32("factor")?.unwrap_or(context / original);
    let magnitude = match keys.f32("attention_factor")? {
        Some(f) => f,
        None if stretch <= 1.0 => 1.0,
        None => (1.0 + stretch.ln() / original.ln()).sqrt(),
    };
    let long = LongRope { freqs: divide("long_factor", base, &long)?, original_context: original as usize };
    Ok(Rope { freqs: divide("short_factor", base, &short)?, long: Some(long), magnitude, ..rope })
}

//! Checkpoints whose weights are several tensors: codes with scales and zero points beside them.
//!
//! A method is one file: how its parts are named, how they lie, and what codes mean ([`Form::open`]). One line in
//! [`METHODS`] makes it known. All methods end in one form, [`codes::Coded`]: `value = (meaning[code] - zero) * scale`.
//! From there [`keep`] chooses the type of the tensor that the rest of Lamina sees. Methods that compute with quantized
//! activations are run with float ones; scales of activations are not used.
//!
//! | what a file has | what it becomes |
//! |---|---|
//! | whole steps from -8 to 7 (4 bit with the zero point in the middle, 2 and 3 bit), groups of 32 or a multiple | Q4_0 |
//! | whole steps from -16 to 15 (4 bit with any zero point), same groups | Q5_0 |
//! | whole steps from -128 to 127 (8 bit with the zero point in the middle), same groups | Q8_0 |
//! | 4-bit floats with a power of two per 32 (MXFP4) | MXFP4 |
//! | 8-bit floats (e4m3) with scale 1 | F8_E4M3 |
//! | everything else: other float scales of 8-bit floats, groups that wind through the columns (act-order) or span fewer than 32, fractional zero points, tables (NF4) | F16, or BF16 where that is closer |
//!
//! The rows of the first five lines are exact, but for scales in float32 or bfloat16, which become float16 there.
//!
//! Why float16: an 8-bit float times a float32 scale fits no type of two bytes. On the random models of
//! `tests/make_packed.py` float16 moves logits by 8e-4 of their length, float32 by nothing at twice the size. Bfloat16,
//! which other engines take, has eight times float16's step. [`Keep::Exact`] gives float32 to whoever wants it.

mod awq;
mod bits;
mod bitsandbytes;
mod blocks;
mod codes;
mod compressed;
mod fp8;
mod gptq;
mod groups;
mod hqq;
mod int8;
mod keep;
mod label;
mod mxfp4;
mod nvfp4;
mod parts;

pub use keep::Keep;
pub(crate) use keep::PackedStack;

use crate::error::{ArchError, Result};
use lamina_base::DType;
use lamina_store::{Checkpoint, Config, Kind, Tensors};
use parts::Form;
pub(crate) use parts::Parts;

/// A way to pack the weights of a checkpoint.
struct Method {
    /// Name in reports: the usual `quant_method`.
    name: &'static str,
    /// Other values of `quant_method` for the same.
    aliases: &'static [&'static str],
    /// How weights can be packed.
    forms: &'static [&'static Form],
    /// Endings of tensors that are there and not needed.
    ignored: &'static [&'static str],
}

static METHODS: &[&Method] = &[
    &awq::METHOD,
    &bitsandbytes::METHOD,
    &compressed::METHOD,
    &fp8::METHOD,
    &gptq::METHOD,
    &hqq::METHOD,
    &mxfp4::METHOD,
    &nvfp4::METHOD,
];

/// Names of every way to pack weights, each with the other names that configurations give it.
pub fn packings() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    METHODS.iter().map(|m| (m.name, m.aliases))
}

/// Where configurations keep the settings of a method.
const SECTIONS: &[&str] = &["quantization_config", "compression_config"];

/// Scales of activations and of the cache.
const ACTIVATIONS: &[&str] = &[
    "input_scale",
    "input_global_scale",
    "input_zero_point",
    "activation_scale",
    "output_scale",
    "k_scale",
    "v_scale",
    "q_scale",
    "prob_scale",
];

/// Settings of a method, where the configuration has any.
#[derive(Clone, Debug)]
pub(crate) struct Settings(Option<Config>);

impl Settings {
    fn of(ck: &Checkpoint) -> Settings {
        // What it says beside the method (which layers, which calibration) the tensors say better.
        ck.config.ignore(SECTIONS);
        Settings(SECTIONS.iter().find_map(|s| ck.config.section(s)))
    }

    /// A text, if it is there.
    fn text(&self, key: &str) -> Option<String> {
        let value = self.0.as_ref()?.value(key)?;
        value.as_str().map(str::to_lowercase)
    }

    /// A whole number, if it is there.
    fn number(&self, key: &str) -> Option<usize> {
        usize::try_from(self.0.as_ref()?.value(key)?.as_u64()?).ok()
    }

    /// Numbers in a list.
    fn numbers(&self, key: &str) -> Vec<usize> {
        let list = self.0.as_ref().and_then(|c| c.value(key)?.as_array());
        list.into_iter().flatten().filter_map(|v| v.as_u64()?.try_into().ok()).collect()
    }

    /// True when the key holds `true`.
    fn flag(&self, key: &str) -> bool {
        self.0.as_ref().and_then(|c| c.value(key)?.as_bool()).unwrap_or(false)
    }
}

/// How the weights of one checkpoint are packed.
pub(crate) struct Packing {
    method: &'static Method,
    settings: Settings,
    /// What weights are unpacked to.
    pub keep: Keep,
}

impl Packing {
    /// The method that the configuration names, or that the tensors show; none for plain weights.
    ///
    /// # Errors
    /// When the configuration names a method that nobody knows.
    pub fn of(ck: &Checkpoint) -> Result<Option<Packing>> {
        if ck.kind == Kind::Gguf {
            return Ok(None);
        }
        let settings = Settings::of(ck);
        if settings.0.is_none() {
            return Ok(by_tensors(&ck.tensors).map(|method| Packing { method, settings, keep: Keep::Small }));
        }
        let name = named(&settings);
        let known = |m: &&&Method| m.name == name || m.aliases.contains(&name.as_str());
        let Some(method) = METHODS.iter().find(known) else {
            let known = METHODS.iter().flat_map(|m| [&m.name].into_iter().chain(m.aliases)).copied();
            return Err(ArchError::UnknownPacking {
                method: name,
                known: known.collect::<Vec<_>>().join(" "),
            });
        };
        Ok(Some(Packing { method, settings, keep: Keep::Small }))
    }

    /// Name of the method.
    pub fn name(&self) -> &'static str {
        self.method.name
    }

    /// The weight `name`, if it is there in packed form.
    pub fn find(&self, ck: &Checkpoint, name: &str) -> Option<Parts> {
        Parts::find(self.method.forms, ck, name)
    }

    /// The packed weights `parts`, one below the other.
    ///
    /// # Errors
    /// When a part is missing or does not fit the others.
    pub fn open(&self, parts: &[Parts]) -> Result<PackedStack> {
        PackedStack::new(parts.iter().map(|p| p.open(&self.settings)).collect::<Result<_>>()?, self.keep)
    }

    /// True for a tensor that the method leaves beside the weights and that is not needed.
    pub fn ignores(&self, name: &str) -> bool {
        ACTIVATIONS.iter().chain(self.method.ignored).any(|end| name.ends_with(end))
    }
}

/// The method's name, also where it is said in other words.
fn named(settings: &Settings) -> String {
    let said = settings.text("quant_method");
    match said.as_deref() {
        // AutoRound writes in the layouts of others.
        Some("auto-round" | "autoround" | "auto_round") => {
            let layout = settings.text("packing_format").unwrap_or_default();
            let known = ["awq", "gptq"].iter().find(|m| layout.contains(**m));
            known.map_or_else(|| format!("auto-round ({layout})"), |m| (*m).to_owned())
        }
        Some(name) => name.to_owned(),
        None if settings.flag("load_in_4bit") || settings.flag("load_in_8bit") => "bitsandbytes".into(),
        None if settings.text("quant_algo").is_some() => "modelopt".into(),
        None => {
            settings.text("format").map_or_else(|| "(unnamed)".into(), |_| compressed::METHOD.name.into())
        }
    }
}

/// Endings of names that only one method has.
const MARKS: &[(&str, &Method)] = &[
    (".weight_scale_2", &nvfp4::METHOD),
    (".weight_packed", &compressed::METHOD),
    (".weight.absmax", &bitsandbytes::METHOD),
    (".W_q", &hqq::METHOD),
    (".g_idx", &gptq::METHOD),
];

/// The method of a checkpoint whose configuration is silent: some makers put their settings in a file of its own.
fn by_tensors(tensors: &Tensors) -> Option<&'static Method> {
    let marked = |end: &str| tensors.keys().any(|name| name.ends_with(end));
    let has = |name: String| tensors.contains_key(&name);
    let scaled = |name: &str| has(format!("{name}_scale")) || has(format!("{name}_scale_inv"));
    let fp8 = || tensors.iter().any(|(name, t)| t.dtype == DType::F8_E4M3 && scaled(name));
    let mark = MARKS.iter().find(|(end, _)| marked(end)).map(|(_, method)| *method);
    mark.or_else(|| fp8().then_some(&fp8::METHOD))
}

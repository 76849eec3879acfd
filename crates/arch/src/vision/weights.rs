//! Finds the tensors of canonical names of an encoder and its projector, and brings them to the form that plans want.

use super::{ClipBounds, RotaryPairs, VisionEncoder, VisionFamily, VisionSource, VisionSpec};
use crate::{
    edit::{edited, transpose},
    error::{ArchError, Result},
    names::{Edit, Rule},
    spec::Mixer,
    tensor::Tensor,
};
use lamina_base::{DType, HostTensor};
use lamina_image::Patches;
use lamina_store::Kind;
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// What the names of encoders begin with in folders; rules write `~` for it.
const TOWERS: &[&str] = &[
    "model.vision_tower.",
    "model.vision_tower.vision_model.",
    "vision_tower.",
    "vision_tower.vision_model.",
    "model.visual.",
    "visual.",
    "model.vision_model.",
    "vision_model.",
    "vision_encoder.",
    "vpm.",
];

/// The same of encoders of sound.
const EARS: &[&str] = &["model.audio_tower.", "audio_tower."];

/// What the names of projectors begin with.
const PREFIXES: &[&str] = &["", "model."];

/// What a family calls its tensors.
pub(crate) struct TensorNames {
    /// The family.
    pub name: &'static str,
    /// In folders.
    pub folders: &'static [&'static [Rule]],
    /// In mmproj files.
    pub mmproj: &'static [&'static [Rule]],
}

/// A source seen through a family's names.
pub struct VisionWeights<'a> {
    pub(super) source: &'a VisionSource,
    /// Name of the family.
    pub(super) family: &'static str,
    pub(super) rules: &'static [&'static [Rule]],
    pub(super) gguf_rules: &'static [&'static [Rule]],
    pub(super) encoder: &'a VisionEncoder,
    /// None where it hears.
    pub(super) cut: Option<Patches>,
    towers: &'static [&'static str],
    used: Mutex<BTreeSet<String>>,
}

impl<'a> VisionWeights<'a> {
    /// The tensors of `source` under the names of `family`.
    pub fn new(source: &'a VisionSource, family: &VisionFamily, spec: &'a VisionSpec) -> VisionWeights<'a> {
        VisionWeights {
            source,
            family: family.name,
            rules: family.rules,
            gguf_rules: family.gguf_rules,
            encoder: &spec.encoder,
            cut: Some(spec.pixels.patches),
            towers: TOWERS,
            used: Mutex::default(),
        }
    }

    /// The tensors of an encoder of sound.
    pub(crate) fn of_sound(
        source: &'a VisionSource,
        family: TensorNames,
        encoder: &'a VisionEncoder,
    ) -> VisionWeights<'a> {
        VisionWeights {
            source,
            family: family.name,
            rules: family.folders,
            gguf_rules: family.mmproj,
            encoder,
            cut: None,
            towers: EARS,
            used: Mutex::default(),
        }
    }

    /// True when the source has the canonical tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The tensor of canonical `name` as `rows x cols`; vectors are one row.
    ///
    /// # Errors
    /// When it is missing, has another shape, or cannot be read.
    pub fn get(&self, name: &str, rows: usize, cols: usize) -> Result<Tensor> {
        if name == "v.patch_embd.weight" {
            return self.patches(rows, cols);
        }
        let (stored, rule) = self.find(name).ok_or_else(|| missing(name))?;
        let stored = if rule.edit == Edit::Transpose { transpose(&stored)? } else { stored };
        let numbers: usize = stored.shape.iter().product();
        let vector = rows == 1;
        let width = if vector { 1 } else { cols };
        if !numbers.is_multiple_of(width.max(1)) {
            return Err(shape(&stored, rows, cols));
        }
        let stored = HostTensor { shape: vec![numbers / width.max(1), width], ..stored };
        let whole = Tensor::new(vec![stored.clone()]);
        let cut = match (rule.cut, self.layer(name)) {
            (Some(cut), Some(i)) => {
                let order = cut.rows(&self.encoder.layers[i], whole.rows());
                whole.reordered(order.ok_or_else(|| shape(&stored, rows, cols))?)
            }
            _ => whole,
        };
        let tensor = edited(self.paired(name, cut), rule.edit)?;
        if tensor.rows() * tensor.cols != rows * cols {
            return Err(shape(&stored, rows, cols));
        }
        let tensor = if vector { Tensor::from_f32(name, 1, cols, &tensor.to_f32()?) } else { tensor };
        self.scaled(name, tensor)
    }

    /// The type of [`VisionWeights::get`], from headers alone.
    ///
    /// # Errors
    /// When it is missing.
    pub fn stored(&self, name: &str, rows: usize) -> Result<DType> {
        let (stored, _) = self.find(name).ok_or_else(|| missing(name))?;
        let scale = |part: &str, scale: &str| {
            let layer = self.layer(name).filter(|_| name.contains(part));
            layer.is_some_and(|i| self.has(&format!("v.blk.{i}.{scale}.weight")))
        };
        let made = rows == 1
            || name == "v.patch_embd.weight"
            || scale(".attn_out.", "ls1")
            || scale(".ffn_down.", "ls2");
        Ok(if made { DType::F32 } else { stored.dtype })
    }

    /// All numbers of a tensor, in the order in which they are stored; none where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.find(name).map(|(stored, _)| self.values(stored)).transpose()
    }

    pub(super) fn values(&self, stored: HostTensor) -> Result<Vec<f32>> {
        let len = stored.shape.iter().product();
        Tensor::new(vec![HostTensor { shape: vec![1, len], ..stored }]).to_f32()
    }

    /// Names of stored tensors of the encoder and the projector that nothing asked for.
    pub fn unused(&self) -> Vec<String> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = |name: &str| {
            self.towers.iter().any(|t| name.starts_with(t))
                || ["v.", "a."].iter().any(|t| name.starts_with(t))
        };
        // Bounds are a part of the spec.
        let bound = |name: &str| ClipBounds::ENDINGS.iter().any(|ending| name.ends_with(ending));
        let unused = |name: &&String| mine(name) && !bound(name) && !used.contains(*name);
        self.source.tensors.keys().filter(unused).cloned().collect()
    }

    /// The patch embedding as a matrix over `[channel][frame][row][column]`, always in float32: it is small, and its
    /// inputs are pixels. A second frame stands in a tensor of its own in GGUF files.
    pub(super) fn patches(&self, rows: usize, cols: usize) -> Result<Tensor> {
        let found = self.find("v.patch_embd.weight").zip(self.cut);
        let ((first, rule), cut) = found.ok_or_else(|| missing("v.patch_embd.weight"))?;
        let numbers = |t: HostTensor| {
            let len = t.shape.iter().product();
            Tensor::new(vec![HostTensor { shape: vec![1, len], ..t }]).to_f32()
        };
        let wrong = shape(&first, rows, cols);
        let mut all = numbers(first)?;
        if let Some((second, _)) = self.find("v.patch_embd.weight.1") {
            let second = numbers(second)?;
            let plane = (cut.side * cut.side) as usize;
            let planes = all.chunks_exact(plane).zip(second.chunks_exact(plane));
            all = planes.flat_map(|(a, b)| [a, b].concat()).collect();
        }
        if all.len() != rows * cols || cut.frames == 0 {
            return Err(wrong);
        }
        if rule.edit == Edit::TransposeCut {
            // Row, column, channel as stored (Gemma 4).
            let channel_first = |patch: &[f32]| {
                (0..3)
                    .flat_map(|c| patch[c..].iter().step_by(3).copied().collect::<Vec<_>>())
                    .collect::<Vec<f32>>()
            };
            all = all.chunks_exact(cols).flat_map(channel_first).collect();
        }
        Ok(Tensor::from_f32("v.patch_embd.weight", rows, cols, &all))
    }

    /// The block that a name belongs to.
    pub(super) fn layer(&self, name: &str) -> Option<usize> {
        let i = name.strip_prefix("v.blk.")?.split('.').next()?.parse().ok()?;
        (i < self.encoder.layers.len()).then_some(i)
    }

    /// Rows of queries and keys in the order of halves.
    fn paired(&self, name: &str, tensor: Tensor) -> Tensor {
        let Some(Mixer::Gqa(g)) = self.layer(name).map(|i| &self.encoder.layers[i].mixer) else {
            return tensor;
        };
        let turned =
            ["attn_q.", "attn_k.", "attn_q_norm.", "attn_k_norm."].iter().any(|part| name.contains(part));
        if !turned || g.rope.is_none() || self.encoder.pairs == RotaryPairs::Half {
            return tensor;
        }
        let heads = tensor.rows() / g.dim;
        let (half, quarter) = (g.dim / 2, g.dim / 4);
        let from = |d: usize| match self.encoder.pairs {
            RotaryPairs::Half => d,
            RotaryPairs::Adjacent => 2 * (d % half) + d / half,
            // Pairs of the first half come first, then those of the second.
            RotaryPairs::HalfOfEach => (d % half) / quarter * half + d / half * quarter + d % half % quarter,
        };
        tensor.reordered(
            (0..heads).flat_map(|h| (0..g.dim).map(move |d| (h * g.dim + from(d)) as u32)).collect(),
        )
    }

    /// The last matrices of a block with its layer scale in them, where it has one.
    fn scaled(&self, name: &str, tensor: Tensor) -> Result<Tensor> {
        let Some(i) = self.layer(name) else { return Ok(tensor) };
        let scale = if name.contains(".attn_out.") {
            self.numbers(&format!("v.blk.{i}.ls1.weight"))?
        } else if name.contains(".ffn_down.") {
            self.numbers(&format!("v.blk.{i}.ls2.weight"))?
        } else {
            None
        };
        let Some(scale) = scale else { return Ok(tensor) };
        let (rows, cols) = (tensor.rows(), tensor.cols);
        let width = if rows == 1 { 1 } else { cols };
        let mut values = tensor.to_f32()?;
        values.chunks_exact_mut(width).zip(&scale).for_each(|(row, s)| row.iter_mut().for_each(|v| *v *= s));
        Ok(Tensor::from_f32(name, rows, cols, &values))
    }

    pub(super) fn find(&self, name: &str) -> Option<(HostTensor, Rule)> {
        let rules = match self.source.kind {
            Kind::HuggingFace => self.rules,
            Kind::Gguf => self.gguf_rules,
        };
        let parts = Named::parse(name, &self.encoder.deep);
        let by_rule = rules.iter().copied().flatten().find_map(|rule| {
            let source = parts.source(rule)?;
            let full: Vec<String> = match source.strip_prefix('~') {
                Some(rest) => self.towers.iter().map(|tower| format!("{tower}{rest}")).collect(),
                None => PREFIXES.iter().map(|prefix| format!("{prefix}{source}")).collect(),
            };
            full.iter().find_map(|name| Some((self.source.tensors.get(name)?.clone(), *rule)))
        });
        let itself = || {
            let stored = self.source.tensors.get(name).filter(|_| self.source.kind == Kind::Gguf)?;
            Some((stored.clone(), Rule::new("", "")))
        };
        let found = by_rule.or_else(itself)?;
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(found.0.name.clone());
        Some(found)
    }
}

/// A canonical name taken apart: `v.blk.7.attn_q.weight`.
struct Named<'a> {
    /// `v.blk.{i}.attn_q`.
    base: String,
    suffix: &'a str,
    /// The number in it.
    number: Option<usize>,
    /// Which of the deep rows that is.
    deep: Option<usize>,
}

impl<'a> Named<'a> {
    fn parse(name: &'a str, deep: &[usize]) -> Named<'a> {
        let split = |end: &'static str| name.strip_suffix(end).map(|stem| (stem, &name[stem.len()..]));
        let (stem, suffix) = [".weight", ".bias"].into_iter().find_map(split).unwrap_or((name, ""));
        let numbered = ["v.blk.", "v.deepstack."].iter().find_map(|start| {
            let (i, rest) = stem.strip_prefix(start)?.split_once('.')?;
            Some((i.parse().ok()?, format!("{start}{{i}}.{rest}")))
        });
        match numbered {
            Some((i, base)) => {
                Named { base, suffix, number: Some(i), deep: deep.iter().position(|&d| d == i) }
            }
            None => Named { base: stem.to_owned(), suffix, number: None, deep: None },
        }
    }

    /// What the rule says of it, if anything.
    fn source(&self, rule: &Rule) -> Option<String> {
        let source = if rule.canonical == self.base {
            format!("{}{}", rule.source, self.suffix)
        } else if rule.canonical == format!("{}{}", self.base, self.suffix) {
            rule.source.to_owned()
        } else {
            return None;
        };
        let number = |n: Option<usize>| n.map(|n| n.to_string()).unwrap_or_default();
        Some(source.replace("{i}", &number(self.number)).replace("{d}", &number(self.deep)))
    }
}

fn missing(name: &str) -> ArchError {
    ArchError::MissingTensor { name: name.to_owned(), tried: String::new() }
}

fn shape(stored: &HostTensor, rows: usize, cols: usize) -> ArchError {
    let found = format!("{:?}", stored.shape);
    ArchError::Shape { name: stored.name.clone(), found, want: format!("{rows} x {cols}") }
}

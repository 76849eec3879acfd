//! Finds the tensors of canonical names in a checkpoint, cuts, stacks and edits them.

pub use crate::tensor::Tensor;
use crate::{
    error::{ArchError, Result},
    family::Family,
    names::{Canonical, Edit, GGUF, LLAMA, Rule},
    pairing,
    spec::{Mixer, ModelSpec, Pairs},
};
use lamina_base::{DType, HostTensor};
use lamina_store::{Checkpoint, Kind};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Stored names end in these where a wrapper model surrounds the language model, or where the wrapper is missing.
const PREFIXES: &[(&str, &str)] = &[
    ("", ""),
    ("model.", "language_model.model."),
    ("model.", "model.language_model."),
    ("lm_head", "language_model.lm_head"),
    ("model.", ""),
    ("transformer.", ""),
    ("model.decoder.", "decoder."),
    ("backbone.", "model.backbone."),
    ("gpt_neox.", ""),
];

/// Tensors that old checkpoints carry and no model needs.
const IGNORED: &[&str] = &[
    "rotary_emb.inv_freq",
    ".attn.bias",
    "masked_bias",
    "rope_freqs",
    "rope_factors",
    "num_batches_tracked",
];

/// A checkpoint seen through a family's names.
pub struct Weights<'a> {
    checkpoint: &'a Checkpoint,
    family: &'a Family,
    spec: &'a ModelSpec,
    used: Mutex<BTreeSet<String>>,
}

/// What a checkpoint holds for a canonical name.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Type of the stored values, before any edit.
    pub dtype: DType,
    /// Rows and columns; a vector is one row.
    pub shape: [usize; 2],
    /// All of the stored tensors belongs to this name.
    pub whole: bool,
    /// Names in the checkpoint.
    pub parts: Vec<String>,
}

/// A rule with the stored tensors that it leads to.
struct Found {
    parts: Vec<HostTensor>,
    rule: Rule,
}

impl Found {
    /// Biases and norms are vectors, whatever shape they are stored in.
    fn is_vector(&self, canonical: &Canonical<'_>) -> bool {
        let named = canonical.suffix == ".bias" || canonical.base.ends_with("_norm");
        named || self.parts.iter().all(|p| p.shape.len() <= 1)
    }
}

impl<'a> Weights<'a> {
    /// The tensors of `checkpoint` under the names of `family`.
    pub fn new(checkpoint: &'a Checkpoint, family: &'a Family, spec: &'a ModelSpec) -> Self {
        Weights { checkpoint, family, spec, used: Mutex::default() }
    }

    /// True when the checkpoint holds the canonical tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.find(name, &mut vec![]).is_some()
    }

    /// The tensor of canonical `name` as `rows x cols`.
    ///
    /// # Errors
    /// When it is missing, or its shape is another one.
    pub fn get(&self, name: &str, rows: usize, cols: usize) -> Result<Tensor> {
        let mut tried = vec![];
        let missing =
            |tried: &[String]| ArchError::MissingTensor { name: name.into(), tried: tried.join(", ") };
        let found = self.find(name, &mut tried).ok_or_else(|| missing(&tried))?;
        self.note(&found);
        let canonical = Canonical::parse(name);
        let tensor = self.cut(&canonical, found, rows, cols)?;
        check(&tensor, name, rows, cols)?;
        self.paired(&canonical, tensor, Pairs::Half)
    }

    /// The tensor of canonical `name` in the shape that it is stored in, vectors (norms and biases) as one row, with rotary pairs in the
    /// order `pairs`; none when there is none. For conversions, which know no plan.
    ///
    /// # Errors
    /// When stored pieces do not fit together.
    pub fn stored_as(&self, name: &str, pairs: Pairs) -> Result<Option<Tensor>> {
        let Some(found) = self.find(name, &mut vec![]) else { return Ok(None) };
        self.note(&found);
        let canonical = Canonical::parse(name);
        let rows = if found.is_vector(&canonical) { 1 } else { 0 };
        let tensor = self.cut(&canonical, found, rows, self.key_cols(&canonical))?;
        self.paired(&canonical, tensor, pairs).map(Some)
    }

    /// What [`Weights::stored_as`] gives, without touching a value; counts as a use of it.
    pub fn stored(&self, name: &str) -> Option<Stored> {
        let found = self.find(name, &mut vec![])?;
        self.note(&found);
        let canonical = Canonical::parse(name);
        let (mut rows, mut cols) = (0, found.parts[0].cols());
        for part in &found.parts {
            match (found.rule.edit, &part.shape[..]) {
                (Edit::Transpose, [.., r, _]) => (rows, cols) = (rows + part.elements() / r.max(&1), *r),
                _ => rows += part.rows(),
            }
        }
        let vector = found.is_vector(&canonical);
        if vector {
            (rows, cols) = (rows * cols, 1);
        }
        if let (Some(cut), Some(layer)) = (found.rule.cut, canonical.spec(self.spec)) {
            rows = cut.rows(layer, rows)?.len();
        }
        let shape = match (vector, found.rule.edit, self.key_cols(&canonical)) {
            (true, ..) => [1, rows],
            (_, Edit::TransposeCut, n) if n > 0 => [rows / n * cols, n],
            _ => [rows, cols],
        };
        let (dtype, whole) = (found.parts[0].dtype, found.rule.cut.is_none());
        Some(Stored { dtype, shape, whole, parts: found.parts.into_iter().map(|p| p.name).collect() })
    }

    /// Width of a row of the transposed key matrices of latent attention.
    fn key_cols(&self, canonical: &Canonical<'_>) -> usize {
        match canonical.spec(self.spec).map(|l| &l.mixer) {
            Some(Mixer::Mla(m)) => m.nope,
            _ => 0,
        }
    }

    fn note(&self, found: &Found) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.extend(found.parts.iter().map(|p| p.name.clone()));
    }

    fn paired(&self, canonical: &Canonical<'_>, tensor: Tensor, to: Pairs) -> Result<Tensor> {
        Ok(match pairing::order(canonical, self.spec, tensor.rows() * tensor.cols, to) {
            Some(order) if tensor.rows() == 1 => pairing::reorder_columns(&tensor, &order)?,
            Some(order) => tensor.reordered(order),
            None => tensor,
        })
    }

    /// Names of stored tensors that nothing asked for; a family that forgets a tensor shows up here.
    ///
    /// Not counted are a head that the configuration ties to the embedding, layers after the last one (they predict
    /// further tokens), and what the family ignores on purpose.
    pub fn unused(&self) -> Vec<String> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |n: &str| {
            let named = |list: &[&str]| list.iter().any(|i| n.contains(i));
            named(IGNORED)
                || named(self.family.ignored)
                || self.beyond(n)
                || (self.spec.head.tied && is_head(n))
        };
        self.checkpoint.tensors.keys().filter(|n| !used.contains(*n) && !known(n)).cloned().collect()
    }

    /// True for a tensor of a layer that the model does not have.
    fn beyond(&self, name: &str) -> bool {
        let after = ["blk.", "layers."].iter().find_map(|p| Some(&name[name.find(p)? + p.len()..]));
        let layer = after.and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        layer.is_some_and(|i| i >= self.spec.layers.len())
    }

    /// Rules to try in order: the family's own, then - in GGUF files - the canonical name itself, then the common ones.
    fn rules(&self) -> (&'a [&'a [Rule]], &'static [&'static [Rule]]) {
        match self.checkpoint.kind {
            Kind::Gguf => (self.family.gguf_rules, &[GGUF]),
            Kind::HuggingFace => (self.family.rules, &[LLAMA]),
        }
    }

    fn find(&self, name: &str, tried: &mut Vec<String>) -> Option<Found> {
        let canonical = Canonical::parse(name);
        let (own, common) = self.rules();
        let mut by = |rules: &[&[Rule]]| {
            rules.iter().copied().flatten().find_map(|rule| {
                let parts = self.parts(&canonical.source(rule)?, tried)?;
                Some(Found { parts, rule: *rule })
            })
        };
        let itself = || {
            let stored = self.checkpoint.tensors.get(name).filter(|_| self.checkpoint.kind == Kind::Gguf)?;
            Some(Found { parts: vec![stored.clone()], rule: Rule::new("", "") })
        };
        by(own).or_else(itself).or_else(|| by(common))
    }

    /// The stored tensors of `source`: one, or as many as there are when the name has `{n}`.
    fn parts(&self, source: &str, tried: &mut Vec<String>) -> Option<Vec<HostTensor>> {
        let index = &self.checkpoint.tensors;
        PREFIXES.iter().find_map(|(from, to)| {
            let name = format!("{to}{}", source.strip_prefix(from)?);
            tried.push(name.replace("{n}", "0"));
            if !name.contains("{n}") {
                return index.get(&name).map(|t| vec![t.clone()]);
            }
            let parts: Vec<_> =
                (0..).map_while(|n| index.get(&name.replace("{n}", &n.to_string())).cloned()).collect();
            (!parts.is_empty()).then_some(parts)
        })
    }

    fn cut(&self, canonical: &Canonical<'_>, found: Found, rows: usize, cols: usize) -> Result<Tensor> {
        let Found { parts, rule } = found;
        let parts = match rule.edit {
            Edit::Transpose => transposed(&parts)?,
            _ => parts,
        };
        alike(&parts)?;
        let vector = rows == 1;
        let tensor =
            Tensor::new(if vector { parts.iter().map(as_column).collect::<Result<_>>()? } else { parts });
        let tensor = match (rule.cut, canonical.spec(self.spec)) {
            (Some(cut), Some(layer)) => {
                let stored = tensor.rows();
                let order = cut.rows(layer, stored);
                let order = order
                    .ok_or_else(|| shape_error(&tensor, format!("rows for {cut:?} of {}", rule.canonical)))?;
                tensor.reordered(order)
            }
            _ => tensor,
        };
        let tensor = if vector { as_row(&tensor)? } else { tensor };
        if rule.edit == Edit::TransposeCut {
            transposed_blocks(&tensor, cols)
        } else {
            edited(tensor, rule.edit)
        }
    }
}

/// True for the name of an output matrix.
pub(crate) fn is_head(name: &str) -> bool {
    ["lm_head.weight", "embed_out.weight", "output.weight"].iter().any(|h| {
        name.strip_suffix(h)
            .is_some_and(|before| before.is_empty() || before == "model." || before == "language_model.")
    })
}

fn alike(parts: &[HostTensor]) -> Result<()> {
    let first = &parts[0];
    match parts.iter().find(|p| p.dtype != first.dtype || p.cols() != first.cols()) {
        None => Ok(()),
        Some(p) => Err(ArchError::Shape {
            name: p.name.clone(),
            found: format!("{} {:?}", p.dtype, p.shape),
            want: format!("{} {:?} as `{}`", first.dtype, first.shape, first.name),
        }),
    }
}

fn check(tensor: &Tensor, name: &str, rows: usize, cols: usize) -> Result<()> {
    if (tensor.rows(), tensor.cols) == (rows, cols) {
        return Ok(());
    }
    Err(shape_error(tensor, format!("{rows} x {cols} for `{name}`")))
}

fn shape_error(tensor: &Tensor, want: String) -> ArchError {
    ArchError::Shape {
        name: tensor.name.clone(),
        found: format!("{} x {}", tensor.rows(), tensor.cols),
        want,
    }
}

/// A vector as a float32 column, so that cuts of rows apply to biases and norms as to matrices.
fn as_column(t: &HostTensor) -> Result<HostTensor> {
    let values = lamina_quant::to_f32(t)?;
    Ok(HostTensor::from_f32(t.name.clone(), vec![values.len(), 1], &values))
}

fn as_row(t: &Tensor) -> Result<Tensor> {
    let values = t.to_f32()?;
    Ok(Tensor::from_f32(&t.name, 1, values.len(), &values))
}

/// Each matrix with its two inner extents exchanged, as float32 unless the type is plain and can be moved as bytes.
fn transposed(parts: &[HostTensor]) -> Result<Vec<HostTensor>> {
    parts.iter().map(transpose).collect()
}

fn transpose(t: &HostTensor) -> Result<HostTensor> {
    let [.., rows, cols] = t.shape[..] else { return Ok(t.clone()) };
    if t.elements() == 0 {
        return Ok(t.clone());
    }
    let (size, dtype, bytes) = if t.dtype.is_quantized() {
        let values = lamina_quant::to_f32(t)?;
        (4, lamina_base::DType::F32, bytemuck::cast_slice(&values).to_vec())
    } else {
        (t.dtype.block_bytes(), t.dtype, t.bytes.to_vec())
    };
    let mut out = vec![0u8; bytes.len()];
    for (from, to) in bytes.chunks_exact(rows * cols * size).zip(out.chunks_exact_mut(rows * cols * size)) {
        for (i, value) in from.chunks_exact(size).enumerate() {
            let at = (i % cols * rows + i / cols) * size;
            to[at..at + size].copy_from_slice(value);
        }
    }
    let mut shape = t.shape.clone();
    let n = shape.len();
    shape.swap(n - 2, n - 1);
    Ok(HostTensor { name: t.name.clone(), dtype, shape, bytes: out.into() })
}

/// Every `rows` rows of `t` as a matrix of their own, transposed.
fn transposed_blocks(t: &Tensor, rows: usize) -> Result<Tensor> {
    let blocks = t.rows() / rows.max(1);
    let (dtype, bytes) = if t.dtype.is_quantized() {
        (DType::F32, bytemuck::cast_slice(&t.to_f32()?).to_vec())
    } else {
        (t.dtype, (0..t.rows()).flat_map(|i| t.row(i)).copied().collect())
    };
    let shape = vec![blocks, rows, t.cols];
    let stored = HostTensor::new(t.name.clone(), dtype, shape, bytes.into())
        .map_err(|_| shape_error(t, format!("whole blocks of {rows} rows")))?;
    Ok(Tensor::new(vec![transpose(&stored)?]))
}

fn edited(tensor: Tensor, edit: Edit) -> Result<Tensor> {
    let change: fn(f32) -> f32 = match edit {
        Edit::None | Edit::Transpose | Edit::TransposeCut => return Ok(tensor),
        Edit::PlusOne => |w| 1.0 + w,
        Edit::NegExp => |w| -w.exp(),
    };
    let values: Vec<f32> = tensor.to_f32()?.into_iter().map(change).collect();
    Ok(Tensor::from_f32(&tensor.name, tensor.rows(), tensor.cols, &values))
}

//! Finds the tensors of canonical names in a checkpoint, cuts, stacks and edits them.

mod source;

pub use crate::tensor::Tensor;
use crate::{
    edit::{edited, transpose, transpose_all, transposed_blocks},
    error::{ArchError, Result},
    family::Family,
    head_style::HeadStyle,
    names::{Canonical, Edit, GGUF, LLAMA, Rule},
    packed::{Keep, Packing},
    pairing,
    spec::{Mixer, ModelSpec, Pairs},
};
use lamina_base::{DType, HostTensor};
use lamina_store::{Checkpoint, Kind};
use source::{Found, Source};
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
    ("output.", "language_model.output."),
    ("model.", "model.text_model."),
    ("model.", "text_model.model."),
    ("lm_head", "text_model.lm_head"),
    ("model.", "llm.model."),
    ("lm_head", "llm.lm_head"),
    ("model.", "language_model."),
    ("model.", ""),
    ("transformer.", ""),
    ("model.decoder.", "decoder."),
    ("backbone.", "model.backbone."),
    ("gpt_neox.", ""),
    ("bert.", ""),
    ("bert.", "roberta."),
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
    packing: Option<Packing>,
    used: Mutex<BTreeSet<String>>,
}

/// What a checkpoint holds for a canonical name.
#[derive(Clone, Debug)]
pub struct StoredWeight {
    /// Type of the stored values, before any edit; of packed weights the one that they are unpacked to, where float16
    /// stands for bfloat16 too.
    pub dtype: DType,
    /// Rows and columns; a vector is one row.
    pub shape: [usize; 2],
    /// All of the stored tensors belongs to this name.
    pub whole: bool,
    /// Names in the checkpoint.
    pub parts: Vec<String>,
}

impl<'a> Weights<'a> {
    /// The tensors of `checkpoint` under the names of `family`.
    pub fn new(checkpoint: &'a Checkpoint, family: &'a Family, spec: &'a ModelSpec) -> Self {
        // There is no spec for weights that are packed in an unknown way.
        let packing = Packing::of(checkpoint).ok().flatten();
        Weights { checkpoint, family, spec, packing, used: Mutex::default() }
    }

    /// The same, with packed weights unpacked as `keep` says.
    pub fn keeping(mut self, keep: Keep) -> Self {
        self.packing.iter_mut().for_each(|p| p.keep = keep);
        self
    }

    /// How the weights are quantized in the checkpoint, where a weight is several tensors: `gptq`, `awq`, `fp8`..
    ///
    /// [`Weights::get`] gives such weights as one tensor of a type that holds them.
    pub fn packed(&self) -> Option<&'static str> {
        Some(self.packing.as_ref()?.name())
    }

    /// True when the checkpoint holds the canonical tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.find(name, &mut vec![]).is_some()
    }

    /// The tensor of canonical `name` as `rows x cols`. Packed weights are unpacked here, on all cores, each time.
    ///
    /// # Errors
    /// When it is missing, its shape is another one, or the parts of a packed weight do not fit together.
    pub fn get(&self, name: &str, rows: usize, cols: usize) -> Result<Tensor> {
        let mut tried = vec![];
        let found = self.find(name, &mut tried).ok_or_else(|| missing(name, &tried))?;
        self.note(&found);
        let canonical = Canonical::parse(name);
        let tensor = self.cut(&canonical, found, rows, cols)?;
        check(&tensor, name, rows, cols)?;
        self.paired(&canonical, tensor, Pairs::Half)
    }

    /// What [`Weights::get`] would say, without touching a weight; gives the type of the stored values.
    ///
    /// # Errors
    /// As for [`Weights::get`].
    pub fn check(&self, name: &str, rows: usize, cols: usize) -> Result<DType> {
        let mut tried = vec![];
        let found = self.find(name, &mut tried).ok_or_else(|| missing(name, &tried))?;
        self.note(&found);
        let vector = rows == 1;
        match &found.source {
            Source::Packed(packing, parts) => drop(packing.open(parts)?),
            Source::Plain(parts) if !vector => alike(parts)?,
            Source::Plain(_) => {}
        }
        let title = found.source.names().swap_remove(0);
        let wrong = |found: String| ArchError::Shape {
            name: title.clone(),
            found,
            want: format!("{rows} x {cols} for `{name}`"),
        };
        let (dtype, have) = self
            .measured(&found, &Canonical::parse(name), vector)
            .ok_or_else(|| wrong("another number of rows".into()))?;
        match have == [rows, cols] {
            true => Ok(dtype),
            false => Err(wrong(format!("{} x {}", have[0], have[1]))),
        }
    }

    /// The tensor of canonical `name` in the shape that it is stored in, vectors (norms and biases) as one row, with
    /// rotary pairs in the order `pairs`; none when there is none. For conversions, which know no plan.
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
    pub fn stored(&self, name: &str) -> Option<StoredWeight> {
        let found = self.find(name, &mut vec![])?;
        self.note(&found);
        let canonical = Canonical::parse(name);
        let (dtype, shape) = self.measured(&found, &canonical, found.is_vector(&canonical))?;
        Some(StoredWeight { dtype, shape, whole: found.rule.cut.is_none(), parts: found.source.names() })
    }

    /// Type and shape of the rows that the rule asks for; none when what is stored has too few.
    fn measured(
        &self,
        found: &Found<'_>,
        canonical: &Canonical<'_>,
        vector: bool,
    ) -> Option<(DType, [usize; 2])> {
        let (dtype, mut rows, mut cols) = found.layout()?;
        if vector {
            (rows, cols) = (rows * cols, 1);
        }
        if let (Some(cut), Some(layer)) = (found.rule.cut, canonical.spec(self.spec)) {
            rows = cut.rows(layer, rows)?.len();
        }
        let shape = match (vector, found.rule.edit, self.key_cols(canonical)) {
            (true, ..) => [1, rows],
            (_, Edit::TransposeCut, n) if n > 0 => [rows / n * cols, n],
            _ => [rows, cols],
        };
        Some((dtype, shape))
    }

    /// Width of a row of the transposed key matrices of latent attention.
    fn key_cols(&self, canonical: &Canonical<'_>) -> usize {
        match canonical.spec(self.spec).map(|l| &l.mixer) {
            Some(Mixer::Mla(m)) => m.nope,
            _ => 0,
        }
    }

    fn note(&self, found: &Found<'_>) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.extend(found.source.names());
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
                || crate::senses::is_sense(n)
                || named(self.family.ignored)
                || self.packing.as_ref().is_some_and(|p| p.ignores(n))
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

    fn find(&self, name: &str, tried: &mut Vec<String>) -> Option<Found<'_>> {
        let canonical = Canonical::parse(name);
        let layers = self.spec.layers.len();
        // Some names of heads have no number: the model's own layers do not have them.
        if canonical.base.starts_with(HeadStyle::TENSORS) && canonical.layer < Some(layers) {
            return None;
        }
        let (own, common) = self.rules();
        let mut by = |rules: &[&[Rule]]| {
            rules.iter().copied().flatten().find_map(|rule| {
                let source = self.source(&canonical.source(rule, layers, &self.family.head)?, tried)?;
                Some(Found { source, rule: *rule })
            })
        };
        let itself = || {
            let stored = self.checkpoint.tensors.get(name).filter(|_| self.checkpoint.kind == Kind::Gguf)?;
            Some(Found { source: Source::Plain(vec![stored.clone()]), rule: Rule::new("", "") })
        };
        by(own).or_else(itself).or_else(|| by(common))
    }

    /// The stored tensors of `source`: one, or as many as there are when the name has `{n}`.
    fn source(&self, source: &str, tried: &mut Vec<String>) -> Option<Source<'_>> {
        let tensors = &self.checkpoint.tensors;
        PREFIXES.iter().find_map(|(from, to)| {
            let name = format!("{to}{}", source.strip_prefix(from)?);
            tried.push(name.replace("{n}", "0"));
            let packed = self.packing.as_ref().and_then(|packing| {
                Some(Source::Packed(packing, all(&name, |name| packing.find(self.checkpoint, name))?))
            });
            packed.or_else(|| all(&name, |name| tensors.get(name).cloned()).map(Source::Plain))
        })
    }

    fn cut(&self, canonical: &Canonical<'_>, found: Found<'_>, rows: usize, cols: usize) -> Result<Tensor> {
        let Found { source, rule } = found;
        let (parts, is_cut) = self.parts(canonical, source, &rule)?;
        alike(&parts)?;
        let vector = rows == 1;
        let tensor =
            Tensor::new(if vector { parts.iter().map(as_column).collect::<Result<_>>()? } else { parts });
        let order = if is_cut { None } else { self.order(canonical, &rule, &tensor.name, tensor.rows())? };
        let tensor = order.into_iter().fold(tensor, Tensor::reordered);
        let tensor = if vector { as_row(&tensor)? } else { tensor };
        if rule.edit == Edit::TransposeCut {
            transposed_blocks(&tensor, cols)
        } else {
            edited(tensor, rule.edit)
        }
    }

    /// Matrices to stack, and whether the rule's cut is done: of packed weights only the wanted rows are unpacked.
    fn parts(
        &self,
        canonical: &Canonical<'_>,
        source: Source<'_>,
        rule: &Rule,
    ) -> Result<(Vec<HostTensor>, bool)> {
        let transposed = rule.edit == Edit::Transpose;
        let (packing, parts) = match source {
            Source::Plain(plain) if transposed => {
                let whole = plain.iter().map(|t| Ok(t.fetched()?)).collect::<Result<Vec<_>>>()?;
                return Ok((transpose_all(&whole)?, false));
            }
            Source::Plain(plain) => return Ok((plain, false)),
            Source::Packed(packing, parts) => (packing, parts),
        };
        let parts = parts.into_iter().map(|p| p.fetched()).collect::<Result<Vec<_>>>()?;
        let stack = packing.open(&parts)?;
        let order =
            if transposed { None } else { self.order(canonical, rule, &parts[0].label.name, stack.rows())? };
        let tensor = order.as_ref().map_or_else(|| stack.whole(), |order| stack.select(order))?;
        let tensor = if transposed { transpose(&tensor)? } else { tensor };
        Ok((vec![tensor], order.is_some()))
    }

    /// Which of `stored` rows the rule asks for, in which order; none without a cut.
    fn order(
        &self,
        canonical: &Canonical<'_>,
        rule: &Rule,
        name: &str,
        stored: usize,
    ) -> Result<Option<Vec<u32>>> {
        let (Some(cut), Some(layer)) = (rule.cut, canonical.spec(self.spec)) else { return Ok(None) };
        let unfit = || ArchError::Shape {
            name: name.to_owned(),
            found: format!("{stored} rows"),
            want: format!("rows for {cut:?} of {}", rule.canonical),
        };
        cut.rows(layer, stored).map(Some).ok_or_else(unfit)
    }
}

fn missing(name: &str, tried: &[String]) -> ArchError {
    ArchError::MissingTensor { name: name.into(), tried: tried.join(", ") }
}

/// What `find` gives for `name`, or for each of 0, 1, 2.. in the place of `{n}` until one is missing.
fn all<T>(name: &str, find: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if !name.contains("{n}") {
        return find(name).map(|one| vec![one]);
    }
    let all: Vec<T> = (0..).map_while(|n| find(&name.replace("{n}", &n.to_string()))).collect();
    (!all.is_empty()).then_some(all)
}

/// True for the name of an output matrix, or of its codes where it is packed.
pub(crate) fn is_head(name: &str) -> bool {
    let names = ["lm_head.weight", "embed_out.weight", "output.weight"];
    let packed = ["lm_head.qweight", "lm_head.weight_packed", "lm_head.W_q"];
    names.iter().chain(&packed).any(|h| {
        name.strip_suffix(h)
            .is_some_and(|before| ["", "model.", "language_model.", "text_model.", "llm."].contains(&before))
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
    Err(tensor.shape_error(format!("{rows} x {cols} for `{name}`")))
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

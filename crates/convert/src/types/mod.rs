//! Which type each tensor gets.

mod rules;

pub use lamina_quant::{MIXES, Mix};

use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
};
use lamina_base::DType;
use regex::Regex;
use rules::{MatrixPart, PartCounters};
use std::collections::BTreeMap;

/// What a file's tensors become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Types {
    /// Each tensor keeps the type that it comes in.
    Keep,
    /// The 16-bit float that loses least: F16 for a model stored in it, else BF16.
    Auto,
    /// One of [`MIXES`].
    Mix(&'static Mix),
}

impl std::str::FromStr for Types {
    type Err = ConvertError;

    /// Reads `keep`, `auto` or the name of a mix, in any letter case. `Q4_K` and the like mean their `_M` form.
    fn from_str(name: &str) -> Result<Types> {
        match name.to_ascii_lowercase().as_str() {
            "keep" | "copy" => return Ok(Types::Keep),
            "auto" => return Ok(Types::Auto),
            _ => {}
        }
        let mix = MIXES.iter().find(|m| m.names().any(|n| n.eq_ignore_ascii_case(name)));
        mix.map(Types::Mix).ok_or_else(|| ConvertError::UnknownType {
            name: name.to_owned(),
            known: ["keep", "auto"]
                .into_iter()
                .chain(MIXES.iter().map(|m| m.name))
                .collect::<Vec<_>>()
                .join(" "),
        })
    }
}

/// The type of a single tensor by its name, in any letter case.
///
/// # Errors
/// When there is no such type, or it can only be read.
pub fn weight_type(name: &str) -> Result<DType> {
    let formats = || lamina_quant::FORMATS.iter().map(|f| f.dtype());
    formats().find(|t| t.name().eq_ignore_ascii_case(name)).ok_or_else(|| ConvertError::UnknownType {
        name: name.to_owned(),
        known: formats().map(DType::name).collect::<Vec<_>>().join(" "),
    })
}

/// A type for the tensors whose names match.
#[derive(Clone, Debug)]
pub struct Override {
    pattern: Regex,
    dtype: DType,
}

impl std::str::FromStr for Override {
    type Err = ConvertError;

    /// Reads `PATTERN=TYPE`; the pattern is a regular expression that is looked for anywhere in the name.
    fn from_str(text: &str) -> Result<Override> {
        let bad = |problem: String| ConvertError::invalid(format!("override `{text}`"), problem);
        let (pattern, dtype) = text.rsplit_once('=').ok_or_else(|| bad("is not PATTERN=TYPE".into()))?;
        let dtype = weight_type(dtype).map_err(|e| bad(format!("names an {e}")))?;
        let pattern = Regex::new(pattern).map_err(|e| bad(e.to_string()))?;
        Ok(Override { pattern, dtype })
    }
}

/// All choices about types.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What the file becomes.
    pub types: Types,
    /// Types of single tensors; the first that matches wins. They move only tensors that may be quantized at all.
    pub overrides: Vec<Override>,
    /// Type of the output matrix, whatever the mix says.
    pub output: Option<DType>,
    /// Type of the token embedding, whatever the mix says.
    pub embedding: Option<DType>,
    /// No exceptions: everything that may be quantized gets the mix's own type.
    pub pure: bool,
    /// Encoders of pictures get types below Q8_0 too.
    pub coarse_encoders: bool,
    /// Types of single tensors by their whole names; they win over all others.
    pub exact: BTreeMap<String, DType>,
}

impl Choice {
    /// The types of `types` without exceptions of one's own.
    pub fn new(types: Types) -> Choice {
        Choice {
            types,
            overrides: vec![],
            output: None,
            embedding: None,
            pure: false,
            coarse_encoders: false,
            exact: BTreeMap::new(),
        }
    }

    /// The mix that a draft becomes; none where every tensor keeps its type.
    pub(crate) fn mix(&self, draft: &Draft) -> Option<&'static Mix> {
        match self.types {
            Types::Keep => None,
            Types::Mix(mix) => Some(mix),
            Types::Auto => {
                let half = draft.tensors.iter().find(|t| is_matrix(t)).is_some_and(|t| t.dtype == DType::F16);
                Mix::plain(if half { DType::F16 } else { DType::BF16 })
            }
        }
    }

    /// The new type of every tensor, in the order of the draft. `imatrix`: whether there is an importance matrix.
    ///
    /// # Errors
    /// When a type is so coarse that it needs an importance matrix, and there is none.
    pub fn plan(&self, draft: &Draft, imatrix: bool) -> Result<Vec<DType>> {
        let wanted = self.wanted(draft, imatrix)?;
        Ok(wanted.into_iter().zip(&draft.tensors).map(|(dtype, t)| fitting(dtype, t.cols())).collect())
    }

    /// A sentence for each type that some tensors cannot have because their rows are no whole blocks of it.
    ///
    /// # Errors
    /// As for [`Choice::plan`].
    pub fn odd_widths(&self, draft: &Draft, imatrix: bool) -> Result<Vec<String>> {
        let mut odd: BTreeMap<(DType, usize), usize> = BTreeMap::new();
        for (dtype, tensor) in self.wanted(draft, imatrix)?.into_iter().zip(&draft.tensors) {
            if fitting(dtype, tensor.cols()) != dtype {
                *odd.entry((dtype, tensor.cols())).or_default() += 1;
            }
        }
        let sentence = |((dtype, cols), count): ((DType, usize), usize)| {
            format!(
                "{count} tensors have rows of {cols} numbers, which are no whole blocks of {} ({dtype}): they \
                 become {}",
                dtype.block_len(),
                fitting(dtype, cols)
            )
        };
        Ok(odd.into_iter().map(sentence).collect())
    }

    /// [`Choice::plan`] for rows of any length.
    fn wanted(&self, draft: &Draft, imatrix: bool) -> Result<Vec<DType>> {
        let wanted = self.by_parts(draft, imatrix)?;
        let coarse = |(tensor, dtype): &(&Planned, &DType)| {
            dtype.is_quantized() && dtype.bits() < DType::Q8_0.bits() && tensor.dtype != **dtype
        };
        let guarded = draft.architecture == ENCODER && !self.coarse_encoders;
        match draft.tensors.iter().zip(&wanted).find(coarse).filter(|_| guarded) {
            Some((tensor, &dtype)) => Err(ConvertError::CoarseEncoder { tensor: tensor.name.clone(), dtype }),
            None => Ok(wanted),
        }
    }

    fn by_parts(&self, draft: &Draft, imatrix: bool) -> Result<Vec<DType>> {
        let Some(mix) = self.mix(draft) else {
            return Ok(draft.tensors.iter().map(|t| self.exception(t).unwrap_or(t.dtype)).collect());
        };
        let mut counters = PartCounters::new(draft, imatrix);
        let mut types = vec![DType::F32; draft.tensors.len()];
        for i in counting_order(draft) {
            let tensor = &draft.tensors[i];
            types[i] = self.one(mix, tensor, &mut counters);
            let dtype = fitting(types[i], tensor.cols());
            if !imatrix && needs_imatrix(mix, tensor, dtype) && tensor.dtype != dtype {
                return Err(ConvertError::NeedsImatrix { tensor: tensor.name.clone(), dtype });
            }
        }
        Ok(types)
    }

    fn one(&self, mix: &'static Mix, tensor: &Planned, counters: &mut PartCounters) -> DType {
        if !is_float(tensor.dtype) {
            return tensor.dtype;
        }
        if !is_quantizable(tensor) {
            return DType::F32;
        }
        if let Some(dtype) = self.exception(tensor) {
            return dtype;
        }
        if !mix.dtype.is_quantized() {
            return mix.dtype;
        }
        if tensor.name == TURNED {
            return DType::F16;
        }
        let part = MatrixPart::of(&tensor.name);
        let chosen = self.overrides.iter().find(|o| o.pattern.is_match(&tensor.name)).map(|o| o.dtype);
        match chosen {
            Some(dtype) => dtype,
            None if self.pure => mix.dtype,
            None => counters.choose(mix, tensor, part),
        }
    }

    /// A type that was asked for by name.
    fn exception(&self, tensor: &Planned) -> Option<DType> {
        if let Some(dtype) = self.exact.get(&tensor.name) {
            return Some(*dtype);
        }
        match MatrixPart::of(&tensor.name) {
            MatrixPart::Output => self.output,
            MatrixPart::Embedding => self.embedding,
            _ if self.types == Types::Keep && is_matrix(tensor) => {
                let chosen = self.overrides.iter().find(|o| o.pattern.is_match(&tensor.name))?;
                Some(chosen.dtype)
            }
            _ => None,
        }
    }
}

/// Layer by layer and by name inside one, whatever the order of the file: some choices count tensors.
fn counting_order(draft: &Draft) -> Vec<usize> {
    let layer = |name: &str| -> i64 {
        let number = name.strip_prefix("blk.").and_then(|r| r.split('.').next()?.parse().ok());
        number.unwrap_or(-1)
    };
    let mut order: Vec<usize> = (0..draft.tensors.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&draft.tensors[a].name, &draft.tensors[b].name);
        layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
    });
    order
}

/// At least two extents that are more than one.
fn is_matrix(tensor: &Planned) -> bool {
    tensor.shape.len() > 1 && tensor.rows() > 1
}

/// Tables of whole numbers stay what they are.
fn is_float(dtype: DType) -> bool {
    lamina_quant::format(dtype).is_some() || dtype == DType::F64
}

/// `general.architecture` of encoders of pictures.
const ENCODER: &str = "clip";

/// Parts of names of matrices that are small and sensitive.
const NEVER: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "position_embd.weight",
    "token_types.weight",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "time_mix_",
    "attn_rel_b.weight",
    ".patch_embd",
];

/// A matrix of encoders that is stored with its inputs as rows: blocks would lie across them.
pub(crate) const TURNED: &str = "mm.input_projection.weight";

/// True for matrices of numbers that are worth fewer bits.
pub(crate) fn is_quantizable(tensor: &Planned) -> bool {
    is_float(tensor.dtype) && is_matrix(tensor) && may_be_quantized(&tensor.name)
}

fn may_be_quantized(name: &str) -> bool {
    name.ends_with("weight") && !NEVER.iter().any(|part| name.contains(part))
}

/// The type that rows of this length can have: smaller blocks of about as many bits, and F16 where nothing fits.
pub(crate) fn fitting(dtype: DType, cols: usize) -> DType {
    use DType::*;
    if cols.is_multiple_of(dtype.block_len()) {
        return dtype;
    }
    let smaller = match dtype {
        IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS | IQ3_S | IQ4_XS => IQ4_NL,
        Q2_K | Q3_K | TQ1_0 | TQ2_0 | Q1_0 => Q4_0,
        Q4_K => Q5_0,
        Q5_K => Q5_1,
        Q6_K => Q8_0,
        NVFP4 => MXFP4,
        _ => F16,
    };
    if cols.is_multiple_of(smaller.block_len()) { smaller } else { F16 }
}

/// About two bits a weight and less is noise unless the search knows which weights matter.
fn needs_imatrix(mix: &Mix, tensor: &Planned, dtype: DType) -> bool {
    use DType::*;
    if matches!(MatrixPart::of(&tensor.name), MatrixPart::Output | MatrixPart::Embedding) {
        return false;
    }
    match dtype {
        IQ3_XXS | IQ2_XXS | IQ2_XS | IQ2_S | IQ1_M | IQ1_S => true,
        Q2_K => mix.name == "Q2_K_S",
        _ => false,
    }
}

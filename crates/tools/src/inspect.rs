//! What a model file holds, without loading its weights.

use crate::{
    sound::HearingInspection,
    support::{FileSupport, file_support},
};
use lamina::{DType, Result, checkpoint, type_name};
use lamina_arch::vision::{VisionFamily, VisionSource};
use lamina_store::{Checkpoint, Kind, gguf};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A tensor in a report.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// Name in the file.
    pub name: String,
    /// Type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Bytes.
    pub bytes: usize,
}

/// What a file holds, without loading its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// Architecture as the file names it.
    pub architecture: String,
    /// What of it can be run, and what not.
    pub support: FileSupport,
    /// Type of most weights.
    pub type_name: String,
    /// Metadata or configuration.
    pub metadata: Map<String, Value>,
    /// Tensors in the order of the file.
    pub tensors: Vec<TensorInfo>,
    /// What it does with pictures: of an mmproj file, and of a folder that has an encoder which is known.
    pub vision: Option<VisionInspection>,
    /// What it does with sounds: of a folder that has an encoder which is known.
    pub hearing: Option<HearingInspection>,
}

/// What an encoder of pictures is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisionInspection {
    /// Its family.
    pub family: &'static str,
    /// As its settings name it.
    pub projector: String,
    /// Blocks.
    pub blocks: usize,
    /// Width of its rows, and of those that it gives the language model.
    pub widths: (usize, usize),
    /// Pixels on a side of a patch.
    pub patch: u32,
    /// How the tokens of a picture follow from its size.
    pub token_rule: String,
    /// Most tokens of a picture.
    pub max_tokens: usize,
    /// What stands for a picture in the text of a prompt.
    pub marker: &'static str,
}

/// The encoder in `ck`; none where there is none that can be used.
fn vision(ck: &Checkpoint) -> Option<VisionInspection> {
    let source = match VisionSource::is_mmproj(ck) {
        true => VisionSource::of_mmproj(ck).ok()?,
        false => VisionSource::of_folder(ck).ok()??,
    };
    let family = VisionFamily::of(&source).ok()?;
    let spec = family.spec(&source).ok()?;
    Some(VisionInspection {
        family: family.name,
        projector: source.name.clone(),
        blocks: spec.encoder.layers.len(),
        widths: (spec.encoder.hidden, spec.projector.out),
        patch: spec.pixels.patches.side,
        token_rule: spec.token_rule(),
        max_tokens: spec.max_rows(),
        marker: spec.prompt.marker,
    })
}

/// Reads headers only and says whether the model is supported.
///
/// # Errors
/// When there is no model at `path`, or its files are broken.
pub fn inspect(path: Option<&Path>) -> Result<Inspection> {
    let ck = checkpoint(path)?;
    let tensor = |t: &lamina_base::HostTensor| TensorInfo {
        name: t.name.clone(),
        dtype: t.dtype,
        shape: t.shape.clone(),
        bytes: t.bytes.len(),
    };
    let metadata = match ck.kind {
        Kind::Gguf => ck.metadata.iter().map(|(k, v)| (k.to_owned(), value(v))).collect(),
        Kind::HuggingFace => ck.config.tree().clone(),
    };
    Ok(Inspection {
        architecture: ck.architecture.clone(),
        support: file_support(&ck),
        type_name: type_name(&ck),
        metadata,
        tensors: ck.tensors.values().map(tensor).collect(),
        vision: vision(&ck),
        hearing: HearingInspection::of(&ck),
    })
}

impl Inspection {
    /// The report as one JSON object.
    pub fn json(&self) -> Value {
        let tensor = |t: &TensorInfo| json!({"name": t.name, "type": t.dtype.name(), "shape": t.shape, "bytes": t.bytes});
        json!({
            "architecture": self.architecture,
            "supported": self.support.problems.is_empty(),
            "problem": self.support.problems.first(),
            "type": self.type_name,
            "vision": self.vision.as_ref().map(VisionInspection::json),
            "hearing": self.hearing.as_ref().map(HearingInspection::json),
            "metadata": self.metadata,
            "tensors": self.tensors.iter().map(tensor).collect::<Vec<_>>(),
        })
    }
}

impl VisionInspection {
    /// As an object.
    fn json(&self) -> Value {
        json!({
            "family": self.family,
            "projector": self.projector,
            "blocks": self.blocks,
            "width": self.widths.0,
            "model_width": self.widths.1,
            "patch": self.patch,
            "token_rule": self.token_rule,
            "max_tokens": self.max_tokens,
            "marker": self.marker,
        })
    }
}

/// A metadata value for a report; long lists are cut.
fn value(v: &gguf::Value) -> Value {
    const SHOWN: usize = 16;
    match v {
        gguf::Value::Str(s) => json!(s),
        gguf::Value::Bool(b) => json!(b),
        // The digits that float32 has; as float64 it would have those of its rounding, too.
        gguf::Value::F32(f) => json!(f.to_string().parse::<f64>().ok()),
        gguf::Value::Array(gguf::Array::Str(list)) => {
            let texts = list.iter().take(SHOWN).map(|t| json!(String::from_utf8_lossy(t)));
            cut(texts.collect(), list.len())
        }
        gguf::Value::Array(list) => cut(list.iter().take(SHOWN).map(|v| value(&v)).collect(), list.len()),
        number => match number.as_int() {
            Some(i) => i64::try_from(i).map_or_else(|_| json!(i.to_string()), |i| json!(i)),
            None => json!(number.as_float()),
        },
    }
}

fn cut(mut shown: Vec<Value>, len: usize) -> Value {
    if len > shown.len() {
        shown.push(json!(format!("... {len} in all")));
    }
    Value::Array(shown)
}

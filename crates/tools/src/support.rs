//! What Lamina can run: in general, from its own lists, and of one file.

use lamina::{DEVICES, DType, Device, Result, backend_on};
use lamina_arch::{
    Family, Weights, families, packings,
    sound::SoundFamily,
    vision::{VisionFamily, VisionSource},
};
use lamina_plan::{Backend, emit};
use lamina_store::Checkpoint;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Everything that Lamina knows how to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Support {
    /// Model families.
    pub families: Vec<FamilySupport>,
    /// Encoders of pictures and of sound beside them.
    pub encoders: Vec<EncoderSupport>,
    /// Types of weights.
    pub types: Vec<TypeSupport>,
    /// Ways in which Hugging Face folders pack weights: the usual name, and others for the same.
    pub packings: Vec<(&'static str, &'static [&'static str])>,
    /// Where models run.
    pub backends: Vec<&'static str>,
}

/// A model family.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilySupport {
    /// Name in reports.
    pub name: &'static str,
    /// Architectures of Hugging Face folders.
    pub folders: &'static [&'static str],
    /// Architectures of GGUF files that are read as this family.
    pub gguf: &'static [&'static str],
    /// Architecture of the GGUF file that a folder becomes; some families share that of a relative, some have none.
    pub becomes: Option<&'static str>,
}

/// A family of encoders beside language models.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderSupport {
    /// Name in reports.
    pub name: &'static str,
    /// What it takes: `pictures`, or `sound`.
    pub takes: &'static str,
    /// `model_type` of Hugging Face folders.
    pub folders: &'static [&'static str],
    /// Types of projectors in mmproj files.
    pub mmproj: &'static [&'static str],
}

/// Encoders of pictures, then those of sound.
fn encoders() -> Vec<EncoderSupport> {
    let sees = |f: &&'static VisionFamily| EncoderSupport {
        name: f.name,
        takes: "pictures",
        folders: f.models,
        mmproj: f.projectors,
    };
    let hears = |f: &&'static SoundFamily| EncoderSupport {
        name: f.name,
        takes: "sound",
        folders: f.models,
        mmproj: f.projectors,
    };
    VisionFamily::all().iter().map(sees).chain(SoundFamily::all().iter().map(hears)).collect()
}

/// A type of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeSupport {
    /// The type.
    pub dtype: DType,
    /// GGUF files can hold it.
    pub gguf: bool,
    /// The quantizer can make it.
    pub written: bool,
    /// The type that each backend multiplies it in: the same where it has kernels of its own.
    pub runs_as: Vec<DType>,
}

/// What of one file can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSupport {
    /// The family, if it is known.
    pub family: Option<&'static str>,
    /// How its weights are packed, where they are.
    pub packing: Option<&'static str>,
    /// Why it cannot be run; none for a model that can.
    pub problems: Vec<String>,
    /// Types of the matrices that rows are multiplied with.
    pub types: Vec<TypeUse>,
    /// Tensors that nothing uses.
    pub unused: Vec<String>,
    /// Settings that nothing reads.
    pub unread: Vec<String>,
    /// Whether it has a tokenizer; without, it takes token ids only.
    pub tokenizer: bool,
}

/// A type that matrices of a file have.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeUse {
    /// The type; of packed weights the one that they are unpacked to.
    pub dtype: DType,
    /// Matrices.
    pub matrices: usize,
    /// The type that they are multiplied in.
    pub runs_as: DType,
}

/// Families, types, packings and backends of this build.
///
/// # Errors
/// When a backend cannot be used at all, such as with a `LAMINA_ISA` that is not there.
pub fn support() -> Result<Support> {
    let family = |f: &&'static Family| FamilySupport {
        name: f.name,
        folders: f.hf,
        gguf: f.gguf,
        becomes: f.in_gguf().map(|(name, _)| name),
    };
    // A GPU that cannot be used here has nothing to say; what is wrong with the processor is wrong for everybody.
    let open = |device: &Device| match backend_on(*device, Some(1)) {
        Err(_) if *device != Device::Cpu => None,
        opened => Some(opened),
    };
    let backends: Vec<Box<dyn Backend>> = DEVICES.iter().filter_map(open).collect::<Result<_>>()?;
    let weights = DType::ALL.iter().filter(|t| is_weight(**t, &backends));
    Ok(Support {
        families: families::ALL.iter().map(family).collect(),
        encoders: encoders(),
        types: weights.map(|t| type_support(*t, &backends)).collect(),
        packings: packings().collect(),
        backends: backends.iter().map(|b| b.name()).collect(),
    })
}

/// Types with a format or kernels of their own; all others are numbers for other things.
fn is_weight(dtype: DType, backends: &[Box<dyn Backend>]) -> bool {
    lamina_quant::format(dtype).is_some() || backends.iter().any(|b| b.runs_as(dtype) == dtype)
}

fn type_support(dtype: DType, backends: &[Box<dyn Backend>]) -> TypeSupport {
    TypeSupport {
        dtype,
        gguf: dtype.gguf_id().is_some(),
        written: lamina_quant::format(dtype).is_some() && dtype.gguf_id().is_some(),
        runs_as: backends.iter().map(|b| b.runs_as(dtype)).collect(),
    }
}

/// Goes through all that loading would do, without touching a weight.
pub fn file_support(ck: &Checkpoint) -> FileSupport {
    let mut found = FileSupport {
        family: Family::of(ck).ok().map(|f| f.name),
        packing: None,
        problems: vec![],
        types: vec![],
        unused: vec![],
        unread: vec![],
        tokenizer: false,
    };
    match lamina::tokenizer_of(ck) {
        Ok(tokenizer) => found.tokenizer = tokenizer.is_some(),
        Err(e) => found.problems.push(e.to_string()),
    }
    // Behind its problem, everything else is but a guess.
    if let Err(e) = found.model(ck) {
        found.problems.insert(0, e.to_string());
    }
    found
}

impl FileSupport {
    /// An mmproj file: the encoder's family, and whether its settings make an encoder.
    fn encoder(&mut self, ck: &Checkpoint) -> Result<()> {
        if let Some(source) = VisionSource::of_sound_mmproj(ck)? {
            let family = SoundFamily::of(&source)?;
            self.family = Some(family.name);
            family.spec(&source)?;
            if !VisionSource::sees(ck)? {
                return Ok(());
            }
        }
        let source = VisionSource::of_mmproj(ck)?;
        let family = VisionFamily::of(&source)?;
        self.family = Some(family.name);
        family.spec(&source)?;
        Ok(())
    }

    fn model(&mut self, ck: &Checkpoint) -> Result<()> {
        if VisionSource::is_mmproj(ck) {
            return self.encoder(ck);
        }
        let family = Family::of(ck)?;
        let spec = family.spec(ck)?;
        let weights = Weights::new(ck, family, &spec);
        self.packing = weights.packed();
        let mut types: BTreeMap<DType, usize> = BTreeMap::new();
        let mut missing = vec![];
        let plan = emit(&spec, &|name| weights.has(name));
        for weight in &plan.weights {
            let (rows, cols) = weight.kind.shape();
            // Tables and vectors are read in any type.
            match weights.check(&weight.name, rows, cols) {
                Ok(dtype) if weight.kind.is_matrix() => *types.entry(dtype).or_default() += 1,
                Ok(_) => {}
                Err(e) => missing.push(e.to_string()),
            }
        }
        let backend = backend_on(Device::Auto, Some(1))?;
        missing.extend(backend.refusal(&plan).map(|what| format!("{} cannot run {what}", backend.name())));
        self.problems.splice(0..0, missing);
        let used = |(dtype, matrices)| TypeUse { dtype, matrices, runs_as: backend.runs_as(dtype) };
        self.types = types.into_iter().map(used).collect();
        (self.unused, self.unread) = (weights.unused(), ck.config.unread());
        Ok(())
    }

    /// The report as one JSON object.
    pub fn json(&self) -> Value {
        let used = |t: &TypeUse| {
            json!({
                "type": t.dtype.name(),
                "matrices": t.matrices,
                "native": t.dtype == t.runs_as,
                "runs_as": t.runs_as.name(),
            })
        };
        json!({
            "supported": self.problems.is_empty(),
            "family": self.family,
            "packing": self.packing,
            "problems": self.problems,
            "types": self.types.iter().map(used).collect::<Vec<_>>(),
            "unused_tensors": self.unused,
            "unread_settings": self.unread,
            "tokenizer": self.tokenizer,
        })
    }
}

impl Support {
    /// The table as one JSON object.
    pub fn json(&self) -> Value {
        let family = |f: &FamilySupport| {
            let backends: serde_json::Map<_, _> =
                self.backends.iter().map(|b| ((*b).to_owned(), json!(true))).collect();
            json!({
                "name": f.name,
                "folders": f.folders,
                "gguf": f.gguf,
                "becomes": f.becomes,
                "backends": backends,
            })
        };
        let dtype = |t: &TypeSupport| {
            let runs = self.backends.iter().zip(&t.runs_as);
            let runs: serde_json::Map<_, _> =
                runs.map(|(b, as_)| ((*b).to_owned(), json!(as_.name()))).collect();
            json!({
                "name": t.dtype.name(),
                "bits": t.dtype.bits(),
                "gguf": t.gguf,
                "written": t.written,
                "runs_as": runs,
            })
        };
        let encoder = |e: &EncoderSupport| json!({"name": e.name, "takes": e.takes, "folders": e.folders, "mmproj": e.mmproj});
        let packing = |(name, others): &(&str, &[&str])| json!({"name": name, "other_names": others});
        json!({
            "families": self.families.iter().map(family).collect::<Vec<_>>(),
            "encoders": self.encoders.iter().map(encoder).collect::<Vec<_>>(),
            "types": self.types.iter().map(dtype).collect::<Vec<_>>(),
            "packings": self.packings.iter().map(packing).collect::<Vec<_>>(),
            "backends": self.backends,
        })
    }
}

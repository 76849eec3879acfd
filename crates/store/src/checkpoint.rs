//! A model as it lies on disk, whatever its format: settings, tensors, and what came beside them.

use crate::{
    Config, FormatError, Metadata, ModelFile, Tensors,
    config::architecture,
    error::{At, FilePart, Result, quoted},
    folder::{self, WeightFiles},
    gguf::{self, Gguf},
    json,
    safetensors::{self, Safetensors},
};
use lamina_base::{HostTensor, files::open_regular};
use serde_json::{Map, Value};
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The format of a checkpoint: decides the names of its tensors, and where its tokenizer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One GGUF file or a split one; tensors have llama.cpp's names, the tokenizer is in the metadata.
    Gguf,
    /// A folder with `config.json` and safetensors; the tokenizer lies in files beside them.
    HuggingFace,
}

/// An opened model. Opening reads the headers of its files; weights are read when they are used.
#[derive(Debug)]
pub struct Checkpoint {
    /// The format.
    pub kind: Kind,
    /// GGUF: `general.architecture` (`llama`). Hugging Face: the first of `architectures` (`LlamaForCausalLM`), or the
    /// `model_type` where that is missing.
    pub architecture: String,
    /// The settings, under Hugging Face names.
    pub config: Config,
    /// All tensors, in file order, under the names of the format.
    pub tensors: Tensors,
    /// GGUF metadata as it stands in the file; empty for a Hugging Face folder.
    pub metadata: Metadata,
    /// The folder that the model lies in.
    pub folder: PathBuf,
    /// The open files, in order.
    pub files: Vec<Arc<ModelFile>>,
    /// `generation_config.json` of a Hugging Face folder.
    pub generation_config: Option<Value>,
    /// `tokenizer_config.json` of a Hugging Face folder.
    pub tokenizer_config: Option<Value>,
}

impl Checkpoint {
    /// Opens the model at `path`: a GGUF file or any shard of one, a Hugging Face folder, or a folder with one GGUF.
    ///
    /// # Errors
    /// When there is no model at `path`, with what to do about it; when a file of it is broken.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        let meta = std::fs::metadata(path).map_err(|e| not_there(path, e))?;
        if meta.is_dir() {
            return match folder::weights(path)? {
                WeightFiles::Gguf(file) => Self::open_gguf(&file),
                WeightFiles::Index(index) => Self::open_folder(path, safetensors::open_sharded(index)?),
                WeightFiles::Safetensors(files) => Self::open_folder(path, open_all(&files)?),
            };
        }
        if meta.is_file() {
            refuse_others(path)?;
        }
        Self::open_gguf(path)
    }

    /// A checkpoint with the settings of this one and other tensors, which have the names of `kind`.
    pub fn with_tensors(&self, kind: Kind, tensors: Vec<HostTensor>) -> Checkpoint {
        Checkpoint {
            kind,
            architecture: self.architecture.clone(),
            config: self.config.clone(),
            tensors: tensors.into_iter().map(|t| (t.name.clone(), t)).collect::<Tensors>(),
            metadata: Metadata::default(),
            folder: self.folder.clone(),
            files: vec![],
            generation_config: None,
            tokenizer_config: None,
        }
    }

    fn open_gguf(path: &Path) -> Result<Checkpoint> {
        Self::from_gguf(Gguf::open(path)?)
    }

    /// A checkpoint of an opened GGUF file.
    ///
    /// # Errors
    /// When the metadata does not name an architecture, or its settings are impossible.
    pub fn from_gguf(gguf: Gguf) -> Result<Checkpoint> {
        let folder = gguf.metadata.file().parent().unwrap_or(Path::new("")).to_owned();
        Ok(Checkpoint {
            kind: Kind::Gguf,
            architecture: architecture(&gguf.metadata)?.to_owned(),
            config: Config::from_gguf(&gguf)?,
            tensors: gguf.tensors,
            metadata: gguf.metadata,
            folder,
            files: gguf.files,
            generation_config: None,
            tokenizer_config: None,
        })
    }

    fn open_folder(folder: &Path, weights: Safetensors) -> Result<Checkpoint> {
        let path = folder.join("config.json");
        if !path.exists() {
            let advice = "put the config.json of the model beside the weights";
            return Err(FormatError::not_a_model(folder, "has safetensors, but no config.json", advice));
        }
        let beside = |name: &str| {
            let path = folder.join(name);
            if path.exists() {
                json::read_object(&path).map(|map| Some(Value::Object(map)))
            } else {
                Ok(None)
            }
        };
        Ok(Checkpoint {
            generation_config: beside("generation_config.json")?,
            tokenizer_config: beside("tokenizer_config.json")?,
            ..Self::of_folder(&path, json::read_object(&path)?, weights)?
        })
    }

    /// The model that `config`, which stands at `path`, and the tensors beside it are.
    pub(crate) fn of_folder(
        path: &Path,
        config: Map<String, Value>,
        weights: Safetensors,
    ) -> Result<Checkpoint> {
        Ok(Checkpoint {
            kind: Kind::HuggingFace,
            architecture: hf_architecture(path, &config)?,
            config: Config::from_hf(path, config)?,
            tensors: weights.tensors,
            metadata: Metadata::new(path),
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            files: weights.files,
            generation_config: None,
            tokenizer_config: None,
        })
    }

    /// The tensor `name`.
    ///
    /// # Errors
    /// When the checkpoint has none of that name.
    pub fn tensor(&self, name: &str) -> Result<&HostTensor> {
        self.tensors.get(name).ok_or_else(|| FormatError::Missing {
            file: self.files.first().map_or_else(|| self.folder.clone(), |f| f.path().to_owned()),
            what: format!("tensor {}", quoted(name)),
            hint: String::new(),
        })
    }

    /// Bytes of all tensors together.
    pub fn total_bytes(&self) -> u64 {
        self.tensors.values().map(|t| t.bytes.len() as u64).sum()
    }
}

fn not_there(path: &Path, e: std::io::Error) -> FormatError {
    if e.kind() == std::io::ErrorKind::NotFound {
        let advice = "give the path of a GGUF file or of a Hugging Face folder";
        return FormatError::not_a_model(path, "there is no such file or folder", advice);
    }
    FormatError::io("open", path, e)
}

/// Refuses a file that is a known other thing, with what to do; whatever is left is read as GGUF.
fn refuse_others(path: &Path) -> Result<()> {
    let mut start = [0; 4];
    let readable = open_regular(path).and_then(|mut f| f.read_exact(&mut start)).is_ok();
    if readable && start == gguf::MAGIC {
        return Ok(());
    }
    if let Some(error) = folder::pickle(path) {
        return Err(error);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".safetensors") || name.ends_with(".json") {
        let advice = "give its folder, with config.json and the weights in it";
        return Err(FormatError::not_a_model(path, "is one file of a Hugging Face model", advice));
    }
    if readable && start.starts_with(b"PK") {
        let advice = "unpack it, or convert the model to safetensors or GGUF";
        return Err(FormatError::not_a_model(path, "is a zip archive (perhaps a PyTorch pickle)", advice));
    }
    Ok(())
}

fn open_all(files: &[PathBuf]) -> Result<Safetensors> {
    let Some((first, rest)) = files.split_first() else {
        return Ok(Safetensors { tensors: Tensors::new(), metadata: Default::default(), files: Vec::new() });
    };
    let mut whole = Safetensors::open(first)?;
    for path in rest {
        safetensors::join(&mut whole, Safetensors::open(path)?, path)?;
    }
    Ok(whole)
}

fn hf_architecture(path: &Path, config: &Map<String, Value>) -> Result<String> {
    let first = config.get("architectures").and_then(|a| a.get(0));
    let name = first.or_else(|| config.get("model_type")).filter(|v| !v.is_null());
    match name {
        // The folders of Medusa's heads name neither.
        None if config.contains_key("medusa_num_heads") => Ok("medusa".to_owned()),
        Some(Value::String(name)) => Ok(name.clone()),
        Some(other) => {
            let problem = format!("should be text, but is {}", json::describe(other));
            Err(At::new(path, FilePart::Key("architectures")).corrupt("value", problem))
        }
        None => Err(FormatError::Missing {
            file: path.to_owned(),
            what: "key `architectures`".to_owned(),
            hint: ", and `model_type` too; take the config.json of the original model".to_owned(),
        }),
    }
}

//! What lies in a model folder, found by names alone.

use crate::{
    error::{FormatError, Result},
    gguf::ShardName,
};
use std::path::{Path, PathBuf};

/// The weights of a folder.
pub(crate) enum WeightFiles {
    /// One GGUF file, or the first shard of a split one.
    Gguf(PathBuf),
    /// A safetensors index.
    Index(PathBuf),
    /// One or more safetensors files without an index.
    Safetensors(Vec<PathBuf>),
}

/// Endings of PyTorch's pickle files.
const PICKLES: &[&str] = &["bin", "pth", "pt", "ckpt", "pkl"];

const CONVERT: &str = "such files can run code when they are loaded; convert the model to safetensors (transformers: \
    `model.save_pretrained(folder, safe_serialization=True)`) or to GGUF";

/// The error for a pickle, when `path` is one by its ending.
pub(crate) fn pickle(path: &Path) -> Option<FormatError> {
    let is_pickle = PICKLES.iter().any(|e| path.extension().is_some_and(|x| x.eq_ignore_ascii_case(e)));
    is_pickle.then(|| FormatError::not_a_model(path, "is a PyTorch pickle", CONVERT))
}

/// Finds the weights of `folder`. A `config.json` makes it a Hugging Face folder whose safetensors come first; a GGUF
/// counts where there are none.
pub(crate) fn weights(folder: &Path) -> Result<WeightFiles> {
    let names = list(folder)?;
    let named = |name: &str| names.iter().find(|p| p.file_name().is_some_and(|n| n == name)).cloned();
    let ending = |e: &str| -> Vec<PathBuf> {
        names.iter().filter(|p| p.extension().is_some_and(|x| x == e)).cloned().collect()
    };
    if let Some(index) = named("model.safetensors.index.json") {
        return Ok(WeightFiles::Index(index));
    }
    if let Some(model) = named("model.safetensors") {
        return Ok(WeightFiles::Safetensors(vec![model]));
    }
    // Some repositories carry the same weights a second time in their maker's own layout.
    let mut safetensors = ending("safetensors");
    safetensors.retain(|p| !starts_with(p, "consolidated") && !starts_with(p, "adapter_model"));
    if !safetensors.is_empty() && named("config.json").is_some() {
        return Ok(WeightFiles::Safetensors(safetensors));
    }
    if let Some(gguf) = one_gguf(folder, ending("gguf"))? {
        return Ok(WeightFiles::Gguf(gguf));
    }
    Err(nothing(folder, &names, safetensors.is_empty()))
}

/// Names in the folder, sorted, so that nothing depends on the order in which the system lists them.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| FormatError::io("list", folder, e);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut names = entries.map(|e| e.map(|e| e.path()).map_err(failed)).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn starts_with(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix))
}

/// The folder's only GGUF model: projectors of multimodal models aside, and a split one counted once.
fn one_gguf(folder: &Path, mut files: Vec<PathBuf>) -> Result<Option<PathBuf>> {
    files.retain(|p| !starts_with(p, "mmproj"));
    let mut models: Vec<PathBuf> =
        files.iter().map(|p| ShardName::parse(p).map_or_else(|| p.clone(), |name| name.path(0))).collect();
    models.sort();
    models.dedup();
    if models.len() > 1 {
        let names: Vec<String> = models
            .iter()
            .filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned()))
            .take(8)
            .collect();
        let advice = format!("give the path of one of them: {}", names.join(", "));
        return Err(FormatError::not_a_model(folder, format!("holds {} GGUF models", models.len()), advice));
    }
    Ok(models.pop())
}

fn nothing(folder: &Path, names: &[PathBuf], no_safetensors: bool) -> FormatError {
    if let Some(pickle) = names.iter().find(|p| pickle(p).is_some()) {
        let name = pickle.file_name().unwrap_or_default().to_string_lossy();
        return FormatError::not_a_model(
            folder,
            format!("its weights are PyTorch pickles ({name})"),
            CONVERT,
        );
    }
    if !no_safetensors {
        let advice = "put the config.json of the model beside the weights";
        return FormatError::not_a_model(folder, "has safetensors, but no config.json", advice);
    }
    let problem = if names.is_empty() { "the folder is empty" } else { "the folder holds no weights" };
    let advice = "give a GGUF file, or a folder with config.json and *.safetensors or with one GGUF file";
    FormatError::not_a_model(folder, problem, advice)
}

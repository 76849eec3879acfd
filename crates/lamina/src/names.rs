//! Models by name: `hf:org/repo:Q4_K_M` and its like stand wherever a path does.

use crate::{Error, Result, open::memory_fit};
use lamina_arch::Family;
use lamina_hub::{
    BegunFile, BegunModel, FitAnswer, Hub, HubError, ModelName, ModelPreview, PullProgress, PullWatch,
};
use lamina_load::{DraftSource, LoadOptions, MmprojChoice};
use lamina_store::{
    BegunCheckpoint, Checkpoint, Config, FileBeginning, FormatError, Kind, Metadata, Tensors,
};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The path of the model that a person names, which is fetched where it is not here yet and `options` allow it; they
/// also decide whether it fits into memory. Paths are themselves; none stays
/// none, unless `LAMINA_MODEL` is a name.
///
/// # Errors
/// When a name leads to no model, to one that cannot be run, or `watch` gives up; when a path is none and looks like a
/// repository.
pub fn locate(path: Option<&Path>, options: &LoadOptions, watch: &dyn PullWatch) -> Result<Option<PathBuf>> {
    let named = || std::env::var("LAMINA_MODEL").ok().filter(|name| is_name(name)).map(PathBuf::from);
    let Some(path) = path.map(Path::to_owned).or_else(named) else { return Ok(None) };
    if let Some(meant) = meant(&path) {
        let text = format!("{} is no path here: did you mean {meant}?", path.display());
        return Err(Error::Model(text));
    }
    found(&path, &hub_for(options), &ModelJudge { watch, options }).map(Some)
}

/// Options whose draft model, adapters and encoder are on this machine; where they say so, nothing is fetched.
///
/// # Errors
/// As for [`locate`].
pub fn locate_parts(options: &LoadOptions, watch: &dyn PullWatch) -> Result<LoadOptions> {
    let (mut options, hub) = (options.clone(), hub_for(options).with_encoders(false));
    if let Some(DraftSource::Model(path)) = &mut options.draft {
        *path = found(path, &hub, watch)?;
    }
    if let MmprojChoice::File(path) = &mut options.mmproj {
        *path = found(path, &hub, watch)?;
    }
    options.loras.iter_mut().try_for_each(|(_, path)| found(path, &hub, watch).map(|here| *path = here))?;
    Ok(options)
}

/// The hub as the environment and these options have it.
pub fn hub_for(options: &LoadOptions) -> Hub {
    // One that is named is taken in the place of the one beside the model.
    Hub::of_the_environment().offline(options.offline).with_encoders(options.mmproj == MmprojChoice::Auto)
}

/// The name of the hub that is likely meant by what is no path here: `org/name`.
pub fn meant(path: &Path) -> Option<ModelName> {
    ModelName::meant(path.to_str()?).filter(|_| !path.exists())
}

/// True for a text that can only be the name of a model.
pub fn is_name(text: &str) -> bool {
    let sound = !text.contains(char::is_whitespace);
    match ModelName::parse(text) {
        Ok(Some(ModelName::Url(url))) => sound && url.ends_with(".gguf"),
        Ok(name) => sound && name.is_some(),
        Err(_) => false,
    }
}

/// What went wrong with a name, for users.
pub fn name_error(e: HubError) -> Error {
    match e {
        HubError::Unfit { .. } => Error::Unsupported(e.to_string()),
        HubError::Name { .. } => Error::InvalidRequest(e.to_string()),
        HubError::Cancelled => Error::Runtime(e.to_string()),
        e => Error::Model(e.to_string()),
    }
}

fn found(path: &Path, hub: &Hub, watch: &dyn PullWatch) -> Result<PathBuf> {
    let name = path.to_str().map_or(Ok(None), ModelName::parse).map_err(name_error)?;
    name.map_or_else(|| Ok(path.to_owned()), |name| hub.locate(&name, watch).map_err(name_error))
}

/// Refuses models of families that nobody knows here before they are fetched, and says whether others fit into memory.
pub struct ModelJudge<'a> {
    /// Hears of it.
    pub watch: &'a dyn PullWatch,
    /// How it will be loaded.
    pub options: &'a LoadOptions,
}

impl PullWatch for ModelJudge<'_> {
    fn say(&self, line: &str) {
        self.watch.say(line);
    }

    fn judge(&self, preview: &ModelPreview<'_>) -> std::result::Result<(), String> {
        self.watch.judge(preview)?;
        match architecture(preview) {
            Some((kind, name, config)) => known(kind, name, config),
            // Loading tells what is wrong with it.
            None => Ok(()),
        }
    }

    fn at(&self, progress: &PullProgress) -> bool {
        self.watch.at(progress)
    }

    fn fits(&self, begun: &BegunModel) -> FitAnswer {
        match begun_checkpoint(begun) {
            Ok(BegunCheckpoint::Wants { file, bytes }) => FitAnswer::Wants { file, bytes: bytes as u64 },
            Ok(BegunCheckpoint::Known(ck)) => memory_fit(&ck, self.options)
                .map_or(FitAnswer::Unknown, |fit| FitAnswer::Told(fit.to_string())),
            // Loading tells what is wrong with it.
            Err(_) => FitAnswer::Unknown,
        }
    }
}

fn begun_checkpoint(begun: &BegunModel) -> std::result::Result<BegunCheckpoint, FormatError> {
    let beginning = |file: &BegunFile| FileBeginning {
        path: file.path.clone().into(),
        bytes: file.bytes.clone().into(),
        len: usize::try_from(file.size).unwrap_or(usize::MAX),
    };
    let files: Vec<_> = begun.files.iter().map(beginning).collect();
    match &begun.config {
        Some(config) => Checkpoint::of_folder_beginnings(config, &files),
        None => Checkpoint::of_gguf_beginnings(&files),
    }
}

/// What a model's beginning says that it is.
fn architecture(preview: &ModelPreview<'_>) -> Option<(Kind, String, Map<String, Value>)> {
    match preview {
        ModelPreview::Gguf(bytes) => Some((Kind::Gguf, gguf_architecture(bytes)?, Map::new())),
        ModelPreview::Config(text) => {
            let config: Map<String, Value> = serde_json::from_str(text).ok()?;
            let first = config.get("architectures").and_then(|list| list[0].as_str());
            let name = first.or_else(|| config.get("model_type")?.as_str())?.to_owned();
            Some((Kind::HuggingFace, name, config))
        }
    }
}

/// The value of `general.architecture`, which stands near the beginning of a file: a header may be longer than what is known
/// of it.
fn gguf_architecture(bytes: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"general.architecture\x08\0\0\0";
    let at = bytes.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let (len, rest) = bytes[at..].split_first_chunk()?;
    let name = rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    String::from_utf8(name.to_owned()).ok()
}

fn known(kind: Kind, architecture: String, config: Map<String, Value>) -> std::result::Result<(), String> {
    let config = Config::from_hf("config.json", config).map_err(|e| e.to_string())?;
    let ck = Checkpoint {
        kind,
        architecture,
        config,
        tensors: Tensors::new(),
        metadata: Metadata::default(),
        folder: PathBuf::new(),
        files: vec![],
        generation_config: None,
        tokenizer_config: None,
    };
    Family::of(&ck).map(drop).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gguf(architecture: &str) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0........".to_vec();
        for text in ["general.architecture", architecture] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
            bytes.extend(8u32.to_le_bytes().iter().filter(|_| text.starts_with("general")));
        }
        bytes
    }

    #[test]
    fn unknown_architectures_are_refused_by_their_beginning() {
        let options = LoadOptions::default();
        let judge = |preview: &ModelPreview<'_>| ModelJudge { watch: &(), options: &options }.judge(preview);
        assert_eq!(judge(&ModelPreview::Gguf(&gguf("llama"))), Ok(()));
        assert!(judge(&ModelPreview::Gguf(&gguf("nobody"))).unwrap_err().contains("nobody"));
        assert_eq!(judge(&ModelPreview::Gguf(b"GGUF")), Ok(()), "loading tells");
        assert_eq!(judge(&ModelPreview::Config(r#"{"architectures": ["LlamaForCausalLM"]}"#)), Ok(()));
        let unknown = judge(&ModelPreview::Config(r#"{"architectures": ["NobodyForCausalLM"]}"#));
        assert!(unknown.unwrap_err().contains("NobodyForCausalLM"));
        assert_eq!(judge(&ModelPreview::Config(r#"{"r": 8}"#)), Ok(()), "an adapter");
    }

    #[test]
    fn paths_are_themselves_and_repositories_are_asked_back() {
        let path = |text: &str| {
            locate(Some(Path::new(text)), &LoadOptions { offline: true, ..LoadOptions::default() }, &())
        };
        assert_eq!(path("/no/such/file").unwrap(), Some("/no/such/file".into()));
        assert!(path("org/name").unwrap_err().to_string().contains("did you mean hf:org/name?"));
        assert!(path("hf:../x").is_err());
        assert!(is_name("hf:org/name") && is_name("https://x.test/a.gguf"));
        assert!(!is_name("hf:org/name is a name") && !is_name("https://x.test/a") && !is_name("a b"));
    }
}

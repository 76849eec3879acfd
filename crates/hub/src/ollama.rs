//! Ollama's store, read only: `manifests/<host>/<namespace>/<name>/<tag>` is JSON whose layer of a model names a blob.

use crate::{
    error::{HubError, Result},
    settings::home,
    store::{ModelStore, StoredModel},
};
use lamina_base::files::read_regular;
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Where names without a host are from.
const REGISTRY: &str = "registry.ollama.ai";
/// The namespace of names without one.
const LIBRARY: &str = "library";
/// The layer that is a GGUF file.
const MODEL: &str = "application/vnd.ollama.image.model";
/// Folders of manifests: of old stores, and of those whose manifests are links into the blobs.
const MANIFESTS: &[&str] = &["manifests", "manifests-v2", "manifest-v2"];
/// Most bytes of a manifest.
const MOST_MANIFEST: u64 = 1 << 20;

/// Stores of Ollama on this machine.
#[derive(Debug, Clone)]
pub struct OllamaStore {
    roots: Vec<PathBuf>,
}

impl OllamaStore {
    /// `$OLLAMA_MODELS`, or the places where Ollama keeps models if nobody names one.
    pub fn of_the_environment() -> OllamaStore {
        let named = |name: &str| env::var_os(name).filter(|v| !v.is_empty());
        if let Some(root) = named("OLLAMA_MODELS") {
            return OllamaStore::at([root.into()]);
        }
        let own = home(named).map(|home| home.join(".ollama/models"));
        let shared = ["/usr/share/ollama/.ollama/models", "/var/lib/ollama", "/var/lib/ollama/models"];
        OllamaStore::at(own.into_iter().chain(shared.map(PathBuf::from)))
    }

    /// Stores in these folders.
    pub fn at(roots: impl IntoIterator<Item = PathBuf>) -> OllamaStore {
        OllamaStore { roots: roots.into_iter().collect() }
    }

    /// The GGUF file of a name.
    ///
    /// # Errors
    /// When no store has it, or a store is broken.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        let inside = manifest_path(name);
        let places = self.roots.iter().flat_map(|root| MANIFESTS.iter().map(move |m| (root, root.join(m))));
        let wrong = |problem: String| HubError::Store { name: format!("ollama:{name}"), problem };
        for (root, manifests) in places {
            if let Ok(bytes) = read_regular(&manifests.join(&inside), MOST_MANIFEST) {
                return model_of(root, &bytes).map_err(wrong);
            }
        }
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        Err(wrong(format!("no such model in {}; `ollama pull` it, or set OLLAMA_MODELS", roots.join(" "))))
    }

    /// All models of all stores.
    pub fn list(&self) -> Vec<StoredModel> {
        let mut found = vec![];
        for root in &self.roots {
            for manifests in MANIFESTS {
                walk(root, &root.join(manifests), &mut vec![], &mut found);
            }
        }
        found.sort_by(|a: &StoredModel, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        found
    }
}

/// Where the manifest of a name lies: `host/namespace/name/tag`.
fn manifest_path(name: &str) -> PathBuf {
    let split = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
    let (path, tag) = split.unwrap_or((name, "latest"));
    let words: Vec<&str> = path.split('/').collect();
    let usual = [REGISTRY, LIBRARY];
    let before = usual.iter().take(3usize.saturating_sub(words.len())).copied();
    before.chain(words.iter().copied()).chain([tag]).collect()
}

/// The model's file by its manifest.
fn model_of(root: &Path, manifest: &[u8]) -> std::result::Result<PathBuf, String> {
    let manifest: Value =
        serde_json::from_slice(manifest).map_err(|e| format!("its manifest is broken: {e}"))?;
    let layers = manifest["layers"].as_array().into_iter().flatten();
    let mut models = layers.filter(|layer| layer["mediaType"] == MODEL);
    let digest = models.next().and_then(|layer| layer["digest"].as_str());
    let digest = digest.ok_or("it has no GGUF file: it runs in Ollama alone, or elsewhere")?;
    let hex = digest.strip_prefix("sha256:").filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let file = root.join("blobs").join(format!("sha256-{}", hex.ok_or("its digest is no sha256")?));
    if file.is_file() {
        Ok(file)
    } else {
        Err(format!("{} is missing: `ollama pull` it again", file.display()))
    }
}

fn walk(root: &Path, folder: &Path, words: &mut Vec<String>, found: &mut Vec<StoredModel>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        words.push(name);
        if words.len() < 4 && entry.path().is_dir() {
            walk(root, &entry.path(), words, found);
        } else if words.len() == 4
            && let Ok(bytes) = read_regular(&entry.path(), MOST_MANIFEST)
            && let Ok(path) = model_of(root, &bytes)
        {
            found.extend(StoredModel::of_file(short_name(words), ModelStore::Ollama, path));
        }
        words.pop();
    }
}

/// The shortest name that leads to a manifest.
fn short_name(words: &[String]) -> String {
    let usual = [REGISTRY, LIBRARY];
    let spared = words.iter().zip(usual).take_while(|(word, usual)| *word == usual).count();
    let path = words[spared..words.len() - 1].join("/");
    format!("ollama:{path}:{}", words[words.len() - 1])
}

//! Ollama's and LM Studio's stores, made from their formats.

use crate::{HubCache, LmStudioStore, ModelName, ModelStore, OllamaStore, RepoName, list_all};
use serde_json::json;
use std::{fs, path::Path};
use tempfile::TempDir;

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn ollama(root: &Path, name: &str, hex: &str) {
    let layers = json!([
        { "mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00" },
        { "mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{hex}") },
    ]);
    write(&root.join("manifests").join(name), json!({ "layers": layers }).to_string());
    write(&root.join(format!("blobs/sha256-{hex}")), "GGUF");
}

fn lm_studio(name: &str) -> RepoName {
    match ModelName::parse(name).unwrap() {
        Some(ModelName::LmStudio(name)) => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn models_of_ollama_are_found_by_their_names() {
    let dir = TempDir::new().unwrap();
    ollama(dir.path(), "registry.ollama.ai/library/large3.2/latest", "aa");
    ollama(dir.path(), "registry.ollama.ai/me/own/1b", "bb");
    ollama(dir.path(), "host.test/me/own/1b", "cc");
    let store = OllamaStore::at([dir.path().join("none"), dir.path().to_owned()]);
    for (name, hex) in
        [("large3.2", "aa"), ("large3.2:latest", "aa"), ("me/own:1b", "bb"), ("host.test/me/own:1b", "cc")]
    {
        assert_eq!(store.find(name).unwrap(), dir.path().join(format!("blobs/sha256-{hex}")), "{name}");
    }
    let names: Vec<_> = store.list().into_iter().map(|m| m.name).collect();
    assert_eq!(names, ["ollama:host.test/me/own:1b", "ollama:large3.2:latest", "ollama:me/own:1b"]);
    assert!(names.iter().all(|n| ModelName::parse(n).unwrap().is_some()));
    assert!(store.find("other").unwrap_err().to_string().contains("ollama pull"));
    fs::remove_file(dir.path().join("blobs/sha256-aa")).unwrap();
    assert!(store.find("large3.2").unwrap_err().to_string().contains("missing"));
    write(&dir.path().join("manifests/registry.ollama.ai/library/bad/latest"), "{");
    assert!(store.find("bad").unwrap_err().to_string().contains("broken"));
}

#[test]
fn models_of_lm_studio_are_found_by_their_folders() {
    let dir = TempDir::new().unwrap();
    for file in ["m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"] {
        write(&dir.path().join("pub/repo").join(file), "GGUF");
    }
    let store = LmStudioStore::at([dir.path().to_owned()]);
    let find = |name: &str| store.find(&lm_studio(name));
    assert!(find("lmstudio:pub/repo").unwrap().ends_with("pub/repo/m-Q4_K_M.gguf"));
    assert!(find("lmstudio:pub/repo:q8_0").unwrap().ends_with("m-Q8_0-00001-of-00002.gguf"));
    assert!(find("lmstudio:pub/repo/m-Q4_K_M.gguf").is_ok());
    assert!(find("lmstudio:pub/none").is_err() && find("lmstudio:pub/repo:Q2_K").is_err());
    let list = list_all(&HubCache::new(dir.path().join("hub")), &OllamaStore::at([]), &store);
    assert_eq!(
        list.iter().map(|m| (m.name.as_str(), m.store)).collect::<Vec<_>>(),
        [
            ("lmstudio:pub/repo/m-Q4_K_M.gguf", ModelStore::LmStudio),
            ("lmstudio:pub/repo/m-Q8_0-00001-of-00002.gguf", ModelStore::LmStudio),
        ]
    );
}

//! What is fetched, where it lies, and when nothing is.

use super::loopback::*;
use crate::{HubError, ModelName, ModelPreview, OfflineBy, PullProgress, PullWatch, RepoName, RepoPart};
use std::{fs, path::Path, sync::Mutex};

fn repo(part: RepoPart) -> RepoName {
    RepoName { repo: "org/name".into(), part, revision: None }
}

fn models() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("README.md", b"text".to_vec()),
        ("m-Q4_K_M.gguf", noise(2000, 1)),
        ("m-Q8_0.gguf", noise(4000, 2)),
        ("q2/m-Q2_K-00001-of-00002.gguf", noise(900, 3)),
        ("q2/m-Q2_K-00002-of-00002.gguf", noise(800, 4)),
    ]
}

#[test]
fn files_lie_as_the_hubs_own_client_has_them() {
    let hub = Loopback::new(&models(), |_, _| None);
    let c = client(&hub);
    let path = c.get("hf:org/name:q2_k").unwrap();
    let folder = c.hub.cache.root().join("models--org--name");
    assert_eq!(path, folder.join(format!("snapshots/{COMMIT}/q2/m-Q2_K-00001-of-00002.gguf")));
    assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(c.blobs("org/name").len(), 2, "both shards, and nothing beside them");
    assert!(
        c.hub
            .cache
            .root()
            .join(".locks/models--org--name")
            .join(format!("{}.lock", etag(&noise(900, 3))))
            .is_file()
    );
    #[cfg(unix)]
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("../../../blobs").join(etag(&noise(900, 3))));
    assert_eq!(read_file(&path), noise(900, 3));
}

#[test]
fn encoders_are_no_models_and_go_with_the_last_one() {
    let mut files = models();
    files.extend([("mmproj-F16.gguf", noise(700, 5)), ("mmproj-F32.gguf", noise(1400, 6))]);
    let hub = Loopback::new(&files, |_, _| None);
    let c = client(&hub);
    for name in ["hf:org/name:q8_0", "hf:org/name:q4_k_m", "hf:org/name/mmproj-F32.gguf"] {
        c.get(name).unwrap();
    }
    let cache = &c.hub.cache;
    let listed: Vec<_> = cache.list().into_iter().map(|model| model.name).collect();
    assert!(listed.len() == 2 && listed.iter().all(|name| !name.contains("mmproj")), "{listed:?}");
    let remove = |tag: &str| cache.remove(&repo(RepoPart::Tag(tag.into())), false).unwrap();
    let left = || cache.repo("org/name").files(COMMIT).len();
    remove("q8_0");
    assert_eq!(left(), 3, "the other model needs them");
    remove("q4_k_m");
    assert_eq!((left(), c.blobs("org/name").len()), (0, 0));
}

/// Keeps the beginnings that are judged.
#[derive(Default)]
struct Judged(Mutex<Vec<Vec<u8>>>);

impl PullWatch for Judged {
    fn say(&self, _line: &str) {}

    fn at(&self, _progress: &PullProgress) -> bool {
        true
    }

    fn judge(&self, preview: &ModelPreview<'_>) -> Result<(), String> {
        if let ModelPreview::Gguf(bytes) = preview {
            self.0.lock().unwrap().push(bytes.to_vec());
        }
        Ok(())
    }
}

#[test]
fn a_model_is_judged_by_its_own_beginning_and_not_by_its_encoders() {
    let mut files = models();
    files.push(("mmproj-F16.gguf", noise(700, 5)));
    let hub = Loopback::new(&files, |_, _| None);
    let (mut c, watch) = (client(&hub), Judged::default());
    c.hub.pace.preview = 100;
    let path = c.hub.locate(&ModelName::parse("hf:org/name:q8_0").unwrap().unwrap(), &watch).unwrap();
    assert!(path.ends_with("m-Q8_0.gguf"));
    let judged = watch.0.into_inner().unwrap();
    assert!(!judged.is_empty() && judged.iter().all(|bytes| noise(4000, 2).starts_with(bytes)));
}

#[test]
fn encoders_come_with_models_unless_they_are_left() {
    let mut files = models();
    files.extend([("mmproj-F16.gguf", noise(700, 5)), ("mmproj-F32.gguf", noise(1400, 6))]);
    let hub = Loopback::new(&files, |_, _| None);
    let here = |c: &Client| {
        let files = c.hub.cache.repo("org/name").files(COMMIT);
        files.into_iter().map(|f| f.path).filter(|path| path.contains("mmproj")).collect::<Vec<_>>()
    };
    let c = client(&hub);
    let path = c.get("hf:org/name:q8_0").unwrap();
    assert!(path.ends_with("m-Q8_0.gguf") && read_file(&path) == noise(4000, 2));
    assert_eq!(here(&c), ["mmproj-F16.gguf"]);
    let mut alone = client(&hub);
    alone.hub.encoders = false;
    alone.get("hf:org/name").unwrap();
    let named = client(&hub);
    named.get("hf:org/name/m-Q8_0.gguf").unwrap();
    assert!(here(&alone).is_empty() && here(&named).is_empty());
    let asked = client(&hub);
    assert_eq!(read_file(&asked.get("hf:org/name/mmproj-F32.gguf").unwrap()), noise(1400, 6));
}

#[test]
fn what_is_here_is_not_fetched_again() {
    let hub = Loopback::new(&models(), |_, _| None);
    let c = client(&hub);
    let first = c.get("hf:org/name").unwrap();
    assert!(first.ends_with("m-Q4_K_M.gguf") && c.said("is taken of"));
    let before = hub.bodies().len();
    assert_eq!(c.get("hf:org/name:Q4_K_M").unwrap(), first);
    assert_eq!(hub.bodies().len(), before);
    let asked = hub.seen().len();
    assert_eq!(c.get(&format!("hf:org/name:Q4_K_M@{COMMIT}")).unwrap(), first);
    assert_eq!(hub.seen().len(), asked, "a commit never changes: nobody is asked");
}

#[test]
fn folders_come_without_pickles_and_pictures() {
    let files = [
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", noise(2000, 1)),
        ("consolidated.safetensors", noise(2000, 1)),
        ("pytorch_model.bin", noise(2000, 1)),
        ("tokenizer.json", noise(100, 2)),
        ("onnx/model.safetensors", noise(300, 2)),
        ("1_Pooling/config.json", b"{ }".to_vec()),
        ("logo.png", noise(100, 3)),
    ];
    let hub = Loopback::new(&files, |_, _| None);
    let c = client(&hub);
    let folder = c.get("hf:org/name").unwrap();
    assert!(folder.ends_with(COMMIT));
    let names: Vec<_> = c.hub.cache.repo("org/name").files(COMMIT).into_iter().map(|f| f.path).collect();
    assert_eq!(names, ["1_Pooling/config.json", "config.json", "model.safetensors", "tokenizer.json"]);
}

#[test]
fn without_a_network_what_was_fetched_is_used_and_that_is_said() {
    let hub = Loopback::new(&models(), |_, _| None);
    let mut c = client(&hub);
    let path = c.get("hf:org/name").unwrap();
    c.hub.settings.endpoint = "http://127.0.0.1:9".into();
    assert_eq!(c.get("hf:org/name").unwrap(), path);
    assert!(c.said("what was fetched before is used"));
    assert!(matches!(c.get("hf:org/other"), Err(HubError::Connection(_))));
    c.hub.settings.offline = Some(OfflineBy::Variable);
    assert_eq!(c.get("hf:org/name").unwrap(), path);
    let e = c.get("hf:org/name:Q8_0").expect_err("not here").to_string();
    assert_eq!(
        e,
        "hf:org/name:Q8_0 is not on this machine (no GGUF file's name ends in Q8_0; here are: m-Q4_K_M.gguf (2.0 kB)), and \
         HF_HUB_OFFLINE is set: where there is a network, `lamina pull hf:org/name:Q8_0` fetches it"
    );
}

#[test]
fn offline_asks_nobody_and_says_what_is_missing() {
    let hub = Loopback::new(&models(), |_, _| None);
    let mut c = client(&hub);
    c.get("hf:org/name:q2_k").unwrap();
    let asked = hub.seen().len();
    c.hub = c.hub.clone().offline(true);
    assert!(c.get("hf:org/name:q2_k").is_ok() && c.said("offline was asked for"));
    let folder = c.hub.cache.root().join(format!("models--org--name/snapshots/{COMMIT}/q2"));
    fs::remove_file(folder.join("m-Q2_K-00002-of-00002.gguf")).unwrap();
    for (name, words) in [
        (
            "hf:org/name:q2_k",
            "hf:org/name:q2_k is not on this machine (some of its files are missing), and nothing",
        ),
        ("hf:org/other", "hf:org/other is not on this machine, and nothing is fetched"),
        ("hf:org/name@v2", "(its revision v2 was not fetched, but 0123456789abcdef"),
        ("https://nowhere.test/a.gguf", "`lamina pull https://nowhere.test/a.gguf` fetches it"),
    ] {
        let e = c.get(name).expect_err("not here").to_string();
        assert!(e.contains(words), "{e}");
    }
    assert!(matches!(c.hub.search("words", false), Err(HubError::Offline { .. })));
    assert!(matches!(c.hub.plan(&repo(RepoPart::Default), &c.lines), Err(HubError::Offline { .. })));
    assert_eq!(hub.seen().len(), asked);
}

#[test]
fn a_damaged_blob_is_found_and_deleted() {
    let hub = Loopback::new(&models(), |_, _| None);
    let c = client(&hub);
    c.get("hf:org/name").unwrap();
    assert!(c.hub.verify(&repo(RepoPart::Default), &c.lines).unwrap().is_empty());
    let blob = c.blobs("org/name").remove(0);
    let mut bytes = read_file(&blob);
    bytes[7] ^= 1;
    fs::write(&blob, bytes).unwrap();
    assert_eq!(c.hub.verify(&repo(RepoPart::Default), &c.lines).unwrap(), ["m-Q4_K_M.gguf"]);
    assert!(c.blobs("org/name").is_empty());
    assert_eq!(read_file(&c.get("hf:org/name").unwrap()), noise(2000, 1));
}

#[test]
fn what_another_snapshot_needs_stays_when_a_model_is_removed() {
    let hub = Loopback::new(&models(), |_, _| None);
    let c = client(&hub);
    let cached = c.hub.cache.repo("org/name");
    c.get("hf:org/name").unwrap();
    c.get("hf:org/name:Q8_0").unwrap();
    let other = "f".repeat(40);
    cached.link(&other, "old-Q8_0.gguf", &etag(&noise(4000, 2))).unwrap();
    let q8 = RepoPart::File("m-Q8_0.gguf".into());
    let dry = c.hub.cache.remove(&repo(q8.clone()), true).unwrap();
    assert_eq!((dry.paths.len(), dry.bytes), (1, 0));
    assert_eq!(c.hub.cache.remove(&repo(q8), false).unwrap(), dry);
    assert_eq!(c.blobs("org/name").len(), 2);
    let removed = c.hub.cache.remove(&repo(RepoPart::Tag("q4_k_m".into())), false).unwrap();
    assert_eq!((removed.paths.len(), removed.bytes), (2, 2000));
    assert_eq!(cached.commits(), [other]);
    assert_eq!(cached.commit("main"), None, "its ref is gone with it");
    c.hub.cache.remove(&repo(RepoPart::Default), false).unwrap();
    assert!(!cached.folder.exists());
    assert!(matches!(c.hub.cache.remove(&repo(RepoPart::Default), false), Err(HubError::Store { .. })));
}

#[test]
fn a_file_by_its_address_is_fetched_once() {
    let hub = Loopback::new(&models(), |_, _| None);
    let c = client(&hub);
    let url = format!("{}/org/name/resolve/{COMMIT}/m-Q8_0.gguf?token=secret", hub.url);
    let path = c.get(&url).unwrap();
    assert!(path.starts_with(c.dir.path().join("urls")) && path.ends_with("m-Q8_0.gguf"));
    assert_eq!(read_file(&path), noise(4000, 2));
    let before = hub.bodies().len();
    assert_eq!(c.get(&url).unwrap(), path);
    assert_eq!(hub.bodies().len(), before);
    assert!(!ModelName::Url(url).to_string().contains("secret"));
}

#[test]
fn searching_and_tokens() {
    let hub = Loopback::new(&models(), |_, _| None);
    let c = client(&hub);
    let hits = c.hub.search("some model", true).unwrap();
    assert_eq!((hits[0].repo.as_str(), hits[0].downloads, hits[0].gated), ("org/found", 7, true));
    assert!(hub.seen()[0].path.contains("search=some%20model") && hub.seen()[0].path.contains("filter=gguf"));
    assert_eq!(c.hub.login("hf_new").unwrap(), "somebody");
    assert_eq!(hub.seen()[1].key.as_deref(), Some("Bearer hf_new"));
    let file = &c.hub.settings.token_file;
    assert_eq!(fs::read_to_string(file).unwrap(), "hf_new");
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777,
        0o600
    );
    assert!(c.hub.logout().unwrap() && !c.hub.logout().unwrap());
}

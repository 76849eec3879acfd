//! How a model's makers pool its rows into one vector: GGUF's `pooling_type`, or the files of sentence-transformers.

use crate::error::{Error, Result};
use lamina_engine::Pooling;
use lamina_store::{Checkpoint, Kind};
use serde_json::Value;
use std::{fs, path::Path};

/// Values of `pooling_type` in GGUF files. 0 says that rows are used as they are, 4 that a classifier scores the first.
const GGUF_TYPES: &[(u64, Option<Pooling>)] = &[
    (0, None),
    (1, Some(Pooling::Mean)),
    (2, Some(Pooling::First)),
    (3, Some(Pooling::Last)),
    (4, Some(Pooling::First)),
];

/// Flags of `1_Pooling/config.json`; the mean over the root of the length has the direction of the mean.
const MODES: &[(&str, Option<Pooling>)] = &[
    ("pooling_mode_cls_token", Some(Pooling::First)),
    ("pooling_mode_mean_tokens", Some(Pooling::Mean)),
    ("pooling_mode_mean_sqrt_len_tokens", Some(Pooling::Mean)),
    ("pooling_mode_lasttoken", Some(Pooling::Last)),
    ("pooling_mode_max_tokens", None),
    ("pooling_mode_weightedmean_tokens", None),
];

/// Parts of a sentence-transformers model that an embedding here has: the model, its pooling, the length of one.
const MODULES: &[&str] = &["Transformer", "Pooling", "Normalize"];

/// The pooling of the model in `ck`: what its files say, else the mean.
///
/// # Errors
/// When the files name a pooling, or a layer behind it, that is not built.
pub fn pooling(ck: &Checkpoint) -> Result<Pooling> {
    match ck.kind {
        Kind::Gguf => of_gguf(ck),
        Kind::HuggingFace => of_folder(&ck.folder),
    }
}

fn of_gguf(ck: &Checkpoint) -> Result<Pooling> {
    let key = format!("{}.pooling_type", ck.architecture);
    let Some(value) = ck.metadata.get(&key) else { return Ok(Pooling::Mean) };
    let known = value.as_int().and_then(|n| GGUF_TYPES.iter().find(|(id, _)| i128::from(*id) == n));
    match known {
        Some((_, pooling)) => Ok(pooling.unwrap_or(Pooling::Mean)),
        None => Err(Error::Format(format!("{key} is {}, but must be from 0 to 4", value.describe()))),
    }
}

fn of_folder(folder: &Path) -> Result<Pooling> {
    let Some(modules) = read(&folder.join("modules.json"))? else {
        return of_config(&folder.join("1_Pooling"));
    };
    let mut own = "1_Pooling".to_owned();
    for module in modules.as_array().into_iter().flatten() {
        let text = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = text("type").rsplit('.').next().unwrap_or_default();
        if !MODULES.contains(&kind) {
            return Err(Error::Unsupported(format!(
                "modules.json of the model puts a {kind} layer behind its pooling, which embeddings here do not have"
            )));
        }
        if kind == "Pooling" {
            own = text("path").to_owned();
        }
    }
    // A path that leads elsewhere is none of this model's.
    let inside = Path::new(&own).components().all(|c| matches!(c, std::path::Component::Normal(_)));
    if inside { of_config(&folder.join(own)) } else { Ok(Pooling::Mean) }
}

fn of_config(folder: &Path) -> Result<Pooling> {
    let file = folder.join("config.json");
    let Some(config) = read(&file)? else { return Ok(Pooling::Mean) };
    let on: Vec<_> = MODES.iter().filter(|(key, _)| config.get(key) == Some(&Value::Bool(true))).collect();
    match on[..] {
        [] => Ok(Pooling::Mean),
        [(_, Some(pooling))] => Ok(*pooling),
        [(key, None)] => Err(Error::Unsupported(format!(
            "{} asks for {key}; known are cls, mean and last",
            file.display()
        ))),
        _ => {
            Err(Error::Unsupported(format!("{} joins several poolings, which is not built", file.display())))
        }
    }
}

/// A small JSON file; none when there is no such file.
fn read(path: &Path) -> Result<Option<Value>> {
    const LARGEST: u64 = 1 << 20;
    let Ok(about) = fs::metadata(path) else { return Ok(None) };
    if !about.is_file() || about.len() > LARGEST {
        return Err(Error::Format(format!("{} is no file of at most 1 MiB", path.display())));
    }
    let text = fs::read_to_string(path).map_err(|e| Error::Format(format!("{}: {e}", path.display())))?;
    serde_json::from_str(&text).map(Some).map_err(|e| Error::Format(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> Result<Pooling> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        of_folder(folder.path())
    }

    #[test]
    fn the_makers_pooling_is_read() {
        let of = |text: &str| folder(&[("1_Pooling/config.json", text)]);
        assert_eq!(folder(&[]).expect("the mean"), Pooling::Mean);
        assert_eq!(
            of(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#).expect("cls"),
            Pooling::First
        );
        assert_eq!(of(r#"{"pooling_mode_lasttoken": true}"#).expect("last"), Pooling::Last);
        assert!(
            of(r#"{"pooling_mode_max_tokens": true}"#)
                .expect_err("max")
                .to_string()
                .contains("pooling_mode_max_tokens")
        );
        assert!(of(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}"#).is_err());
        assert!(of("[").is_err());
    }

    #[test]
    fn layers_behind_the_pooling_are_refused() {
        let module = |kind: &str, path: &str| {
            format!(r#"{{"type": "sentence_transformers.models.{kind}", "path": "{path}"}}"#)
        };
        let list = |modules: &[String]| format!("[{}]", modules.join(","));
        let plain = list(&[module("Transformer", ""), module("Pooling", "2_P"), module("Normalize", "3")]);
        let config = r#"{"pooling_mode_cls_token": true}"#;
        assert_eq!(
            folder(&[("modules.json", &plain), ("2_P/config.json", config)]).expect("cls"),
            Pooling::First
        );
        let dense =
            list(&[module("Transformer", ""), module("Pooling", "1_Pooling"), module("Dense", "2_Dense")]);
        assert!(folder(&[("modules.json", &dense)]).expect_err("a layer").to_string().contains("Dense"));
        let outside = list(&[module("Pooling", "../../etc")]);
        assert_eq!(folder(&[("modules.json", &outside)]).expect("not read"), Pooling::Mean);
    }
}

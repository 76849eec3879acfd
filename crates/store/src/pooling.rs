//! How the makers of a model of sentence-transformers pool its rows into one vector: `modules.json` and
//! `1_Pooling/config.json` of its folder.

use lamina_base::files::read_regular;
use serde_json::Value;
use std::{
    io::ErrorKind,
    path::{Component, Path},
};

/// Which rows a vector is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingMode {
    /// The mean of all.
    Mean,
    /// The first one.
    First,
    /// The last one.
    Last,
}

/// Why the files of a folder do not say it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolingError {
    /// A file is broken.
    #[error("{0}")]
    Format(String),
    /// They ask for something that is not built.
    #[error("{0}")]
    Unsupported(String),
}

/// Shorthand of this module.
type Result<T> = std::result::Result<T, PoolingError>;

/// Flags of `1_Pooling/config.json`; the mean over the root of the length has the direction of the mean.
const MODES: &[(&str, Option<PoolingMode>)] = &[
    ("pooling_mode_cls_token", Some(PoolingMode::First)),
    ("pooling_mode_mean_tokens", Some(PoolingMode::Mean)),
    ("pooling_mode_mean_sqrt_len_tokens", Some(PoolingMode::Mean)),
    ("pooling_mode_lasttoken", Some(PoolingMode::Last)),
    ("pooling_mode_max_tokens", None),
    ("pooling_mode_weightedmean_tokens", None),
];

/// Parts of a sentence-transformers model that an embedding here has: the model, its pooling, the length of one.
const MODULES: &[&str] = &["Transformer", "Pooling", "Normalize"];

impl PoolingMode {
    /// What the files in `folder` say; none where they say nothing.
    ///
    /// # Errors
    /// When they name a pooling, or a layer behind it, that is not built.
    pub fn of_folder(folder: &Path) -> Result<Option<PoolingMode>> {
        let Some(modules) = read(&folder.join("modules.json"))? else {
            return of_config(&folder.join("1_Pooling"));
        };
        let mut own = "1_Pooling".to_owned();
        for module in modules.as_array().into_iter().flatten() {
            let text = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or_default();
            let kind = text("type").rsplit('.').next().unwrap_or_default();
            if !MODULES.contains(&kind) {
                return Err(PoolingError::Unsupported(format!(
                    "modules.json of the model puts a {kind} layer behind its pooling, which embeddings here do not have"
                )));
            }
            if kind == "Pooling" {
                own = text("path").to_owned();
            }
        }
        // A path that leads elsewhere is none of this model's.
        let inside = Path::new(&own).components().all(|c| matches!(c, Component::Normal(_)));
        if inside { of_config(&folder.join(own)) } else { Ok(None) }
    }
}

fn of_config(folder: &Path) -> Result<Option<PoolingMode>> {
    let file = folder.join("config.json");
    let Some(config) = read(&file)? else { return Ok(None) };
    let on: Vec<_> = MODES.iter().filter(|(key, _)| config.get(key) == Some(&Value::Bool(true))).collect();
    let refused = |what: String| PoolingError::Unsupported(format!("{} {what}", file.display()));
    match on[..] {
        [] => Ok(None),
        [(_, Some(pooling))] => Ok(Some(*pooling)),
        [(key, None)] => Err(refused(format!("asks for {key}; known are cls, mean and last"))),
        _ => Err(refused("joins several poolings, which is not built".into())),
    }
}

/// A small JSON file; none when there is no such file.
fn read(path: &Path) -> Result<Option<Value>> {
    const LARGEST: u64 = 1 << 20;
    let broken = |what: String| PoolingError::Format(format!("{}: {what}", path.display()));
    let bytes = match read_regular(path, LARGEST) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(|e| broken(e.to_string()))?,
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| broken(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[(&str, &str)]) -> Result<Option<PoolingMode>> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        PoolingMode::of_folder(folder.path())
    }

    #[test]
    fn the_makers_pooling_is_read() {
        let of = |text: &str| folder(&[("1_Pooling/config.json", text)]);
        assert_eq!(folder(&[]), Ok(None));
        assert_eq!(
            of(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#),
            Ok(Some(PoolingMode::First))
        );
        assert_eq!(of(r#"{"pooling_mode_lasttoken": true}"#), Ok(Some(PoolingMode::Last)));
        let max = of(r#"{"pooling_mode_max_tokens": true}"#).expect_err("max").to_string();
        assert!(max.contains("pooling_mode_max_tokens"), "{max}");
        assert!(of(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}"#).is_err());
        assert!(matches!(of("["), Err(PoolingError::Format(_))));
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
            folder(&[("modules.json", &plain), ("2_P/config.json", config)]),
            Ok(Some(PoolingMode::First))
        );
        let dense =
            list(&[module("Transformer", ""), module("Pooling", "1_Pooling"), module("Dense", "2_Dense")]);
        assert!(folder(&[("modules.json", &dense)]).expect_err("a layer").to_string().contains("Dense"));
        let outside = list(&[module("Pooling", "../../etc")]);
        assert_eq!(folder(&[("modules.json", &outside)]), Ok(None), "not read");
    }
}

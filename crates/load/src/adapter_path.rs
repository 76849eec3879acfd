//! A low-rank adapter as users name it: `pirate=folder@0.5`.

use crate::read_settings;
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

/// An adapter, and its scale in requests that name none.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterPath {
    /// What requests call it, where the user says.
    pub name: Option<String>,
    /// Where it is.
    pub path: PathBuf,
    /// Its scale.
    pub scale: f32,
}

impl AdapterPath {
    /// Its name, or the stem of its file.
    pub fn called(&self) -> &str {
        let stem = || self.path.file_stem()?.to_str();
        self.name.as_deref().or_else(stem).unwrap_or_default()
    }
}

impl FromStr for AdapterPath {
    type Err = Infallible;

    /// Reads `[NAME=]PATH[@SCALE]`, or `PATH=SCALE` as `lamina convert` writes it. A part is a name or a number only where
    /// it looks like one and the path is not there as a whole: paths may hold `=` and `@` too.
    fn from_str(text: &str) -> Result<AdapterPath, Infallible> {
        let exists = |path: &str| Path::new(path).exists();
        let scaled =
            |cut: Option<(&str, &str)>| cut.and_then(|(path, n)| Some((path.to_owned(), n.parse().ok()?)));
        if exists(text) {
            return Ok(AdapterPath { name: None, path: text.into(), scale: 1.0 });
        }
        if let Some((path, scale)) = scaled(text.rsplit_once('=')).filter(|(path, _)| exists(path)) {
            return Ok(AdapterPath { name: None, path: path.into(), scale });
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '\\']);
        let (name, rest) = match text.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, rest)) => (Some(name.to_owned()), rest),
            None => (None, text),
        };
        let cut = Some(rest).filter(|rest| !exists(rest)).and_then(|rest| rest.rsplit_once('@'));
        let (path, scale) = scaled(cut).unwrap_or((rest.to_owned(), 1.0));
        Ok(AdapterPath { name, path: path.into(), scale })
    }
}

read_settings! {
    AdapterPath: Text;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, PathBuf, f32, String) {
        let Ok(adapter) = text.parse::<AdapterPath>();
        let called = adapter.called().to_owned();
        (adapter.name, adapter.path, adapter.scale, called)
    }

    #[test]
    fn names_and_scales_are_told_from_paths() {
        for (text, name, path, scale, called) in [
            ("a/pirate.gguf", None, "a/pirate.gguf", 1.0, "pirate"),
            ("a.gguf@0.5", None, "a.gguf", 0.5, "a"),
            ("x=dir/a@-2", Some("x"), "dir/a", -2.0, "x"),
            ("dir/k=v/a@b", None, "dir/k=v/a@b", 1.0, "a@b"),
            ("x=me@home/a@1e-1", Some("x"), "me@home/a", 0.1, "x"),
        ] {
            assert_eq!(read(text), (name.map(Into::into), path.into(), scale, called.into()), "{text}");
        }
    }

    #[test]
    fn what_exists_is_a_path_as_a_whole() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let path = dir.path().join("a@2");
        std::fs::write(&path, "").expect("a file");
        let text = path.to_str().expect("a text");
        for (written, scale) in
            [(text.to_owned(), 1.0), (format!("{text}=0.5"), 0.5), (format!("{text}@0.5"), 0.5)]
        {
            assert_eq!(read(&written), (None, path.clone(), scale, "a@2".into()));
        }
    }
}

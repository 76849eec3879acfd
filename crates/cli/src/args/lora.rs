//! Adapters beside a model.

use super::load::load;
use crate::error::Result;
use lamina::{LoadOptions, Model};
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Adapters that all requests of a command use.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Loading")]
pub struct LoraArgs {
    /// Low-rank adapter to use, a folder of PEFT or a GGUF adapter, at this scale [default: 1]; may be repeated
    #[arg(long, value_name = "[NAME=]PATH[@SCALE]")]
    lora: Vec<LoraChoice>,
}

/// An adapter as the command line names it.
#[derive(Debug, Clone, PartialEq)]
struct LoraChoice {
    name: String,
    path: PathBuf,
    scale: f32,
}

impl FromStr for LoraChoice {
    type Err = Infallible;

    /// A part is a name or a number only where it looks like one: paths may hold `=` and `@` too.
    fn from_str(text: &str) -> std::result::Result<LoraChoice, Infallible> {
        let exists = |path: &str| Path::new(path).exists();
        // As `lamina convert` writes it.
        if let Some((path, Ok(scale))) = text.rsplit_once('=').map(|(path, scale)| (path, scale.parse()))
            && exists(path)
            && !exists(text)
        {
            return Ok(LoraChoice { name: path.to_owned(), path: path.into(), scale });
        }
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains(['/', '\\']) && !exists(text) => (Some(name), rest),
            _ => (None, text),
        };
        let (path, scale) = match rest.rsplit_once('@') {
            Some((path, scale)) if !exists(rest) => match scale.parse() {
                Ok(scale) => (path, scale),
                Err(_) => (rest, 1.0),
            },
            _ => (rest, 1.0),
        };
        Ok(LoraChoice { name: name.unwrap_or(path).to_owned(), path: path.into(), scale })
    }
}

impl LoraArgs {
    /// True when an adapter is named.
    pub fn any(&self) -> bool {
        !self.lora.is_empty()
    }

    /// Loads the model at `path`, or the one inside the package, with its adapters in use.
    pub fn load(&self, path: Option<&Path>, options: LoadOptions) -> Result<Model> {
        let loras = self.lora.iter().map(|l| (l.name.clone(), l.path.clone())).collect();
        let model = load(path, &LoadOptions { loras, ..options })?;
        let used: Vec<_> = self.lora.iter().map(|l| (&l.name, l.scale)).collect();
        Ok(model.with_lora(&used)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_scales_are_told_from_paths() {
        for (text, name, path, scale) in [
            ("a.gguf", "a.gguf", "a.gguf", 1.0),
            ("a.gguf@0.5", "a.gguf", "a.gguf", 0.5),
            ("x=dir/a@-2", "x", "dir/a", -2.0),
            ("dir/k=v/a@b", "dir/k=v/a@b", "dir/k=v/a@b", 1.0),
            ("x=me@home/a@1e-1", "x", "me@home/a", 0.1),
        ] {
            let want = LoraChoice { name: name.into(), path: path.into(), scale };
            assert_eq!(text.parse::<LoraChoice>().unwrap(), want, "{text}");
        }
    }

    #[test]
    fn what_exists_is_a_path_as_a_whole() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("a@2");
        std::fs::write(&path, "").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(path.parse::<LoraChoice>().unwrap().path, Path::new(path));
        let want = LoraChoice { name: path.into(), path: path.into(), scale: 0.5 };
        assert_eq!(format!("{path}=0.5").parse::<LoraChoice>().unwrap(), want);
        assert_eq!(format!("{path}@0.5").parse::<LoraChoice>().unwrap(), want);
    }
}

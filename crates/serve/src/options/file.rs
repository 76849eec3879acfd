//! Options from a file in TOML.
//!
//! ```toml
//! port = 8080
//! temperature = 0.7
//! api_key_file = "keys.txt"
//!
//! [models.tiny]
//! path = "tiny.gguf"
//! context = 4096
//! alias = ["small"]
//! ```

use super::{ModelOrigin, ModelSettings, ServeOptions};
use lamina::{
    OptionSpec,
    sample::{Param, Value as SampleValue},
};
use std::path::Path;
use toml::{Table, Value};

impl ServeOptions {
    /// Adds what a file says: options by their names, and a table `models.NAME` for each model, with its `path` and
    /// settings of its own. Paths are relative to the file. A table `ray` is for `lamina.ray`, and says nothing here.
    ///
    /// # Errors
    /// When the file is no TOML, or has an option that does not exist or a value that it does not take.
    pub fn read(&mut self, text: &str, folder: &Path) -> Result<(), String> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| e.to_string().trim().to_owned())?;
        let (models, options): (Vec<_>, Vec<_>) = table.into_iter().partition(|(name, _)| name == "models");
        for (name, value) in options.into_iter().filter(|(name, _)| name != "ray") {
            let known = OptionSpec::find(Self::specs(), &name).is_ok();
            let texts = texts(&name, value)?;
            match Param::find(&name).ok().filter(|_| !known) {
                Some(param) => self.sample(param, &texts)?,
                None => texts.iter().try_for_each(|text| self.put(&name, text)).map_err(|e| e.to_string())?,
            }
        }
        for (_, value) in models {
            let Value::Table(models) = value else { return Err("models must be a table of tables".into()) };
            for (name, value) in models {
                let origin = model(name, value, &self.model, folder)?;
                self.models.push(origin);
            }
        }
        Ok(())
    }
}

impl ServeOptions {
    /// Sampling of requests that do not say.
    fn sample(&mut self, param: &Param, texts: &[String]) -> Result<(), String> {
        let strings = matches!(self.sampling.get(param.name), Ok(SampleValue::Strings(_)));
        let value = match (strings, texts) {
            (true, all) => SampleValue::Strings(all.to_vec()),
            (false, [one]) => param.parse(one).map_err(|e| e.to_string())?,
            _ => return Err(format!("{} takes one value", param.name)),
        };
        self.sampling.set(param.name, value).map_err(|e| e.to_string())
    }
}

fn model(name: String, value: Value, usual: &ModelSettings, folder: &Path) -> Result<ModelOrigin, String> {
    let Value::Table(table) = value else { return Err(format!("models.{name} must be a table")) };
    let (mut settings, mut path) = (usual.clone(), None);
    for (key, value) in table {
        if key == "path" {
            let text = value.as_str().ok_or_else(|| format!("models.{name}.path must be a text"))?;
            path = Some(if lamina::is_name(text) { text.into() } else { folder.join(text) });
            continue;
        }
        for text in texts(&key, value)? {
            settings.put(&key, &text).map_err(|e| format!("models.{name}: {e}"))?;
        }
    }
    Ok(ModelOrigin::Path { name: Some(name), path, settings: Some(Box::new(settings)) })
}

/// A value as it would stand on a command line: once, or as often as a list is long.
fn texts(name: &str, value: Value) -> Result<Vec<String>, String> {
    Ok(match value {
        Value::Array(list) => {
            list.into_iter().map(|item| texts(name, item)).collect::<Result<Vec<_>, _>>()?.concat()
        }
        Value::String(text) => vec![text],
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => vec![value.to_string()],
        _ => return Err(format!("{name} must be a text, a number, true or false, or a list of these")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_options_and_models() {
        let text = "port = 0\nmax_body = '1M'\napi_key = ['a', 'b']\ncontext = 64\n\
            temperature = 0.25\ntop_k = 7\ndry_sequence_breakers = ['x', 'y']\n\
            [models.tiny]\npath = 'a.gguf'\nalias = ['small']\n[models.other]\npath = '/b'\ncontext = 32\n\
            [ray]\nreplicas = 2\n";
        let mut options = ServeOptions::default();
        options.read(text, Path::new("/m")).unwrap();
        assert_eq!((options.port, options.api_key.len(), options.max_body), (0, 2, 1_000_000));
        let sampling = |name| options.sampling.get(name).unwrap();
        assert_eq!(sampling("temperature"), SampleValue::Float(0.25));
        assert_eq!(sampling("dry_sequence_breakers"), SampleValue::Strings(vec!["x".into(), "y".into()]));
        let seen: Vec<_> = options
            .models
            .iter()
            .map(|m| match m {
                ModelOrigin::Path { name, path, settings } => {
                    let context = settings.as_ref().and_then(|s| s.load.context);
                    (name.clone().unwrap(), path.clone().unwrap(), context)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        // A table of TOML is in the order of its names.
        let want = [("other", "/b", Some(32)), ("tiny", "/m/a.gguf", Some(64))];
        assert_eq!(seen, want.map(|(name, path, context)| (name.into(), path.into(), context)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| ServeOptions::default().read(text, Path::new("")).unwrap_err();
        assert!(wrong("prot = 1").contains("nearest known one is `port`"));
        assert!(wrong("port = 'x'").contains("port is \"x\""));
        assert!(wrong("temperature = 'warm'").contains("temperature"));
        assert!(wrong("top_p = [1, 2]").contains("top_p takes one value"));
        assert!(wrong("[models.a]\ncolour = 1").starts_with("models.a:"));
        assert!(wrong("port =").contains("line 1"));
    }
}

//! Instructions of a Modelfile as settings in TOML.

use super::parse::Instruction;
use lamina::{OptionSpec, sample::Param};
use lamina_serve::ServeOptions;
use serde_json::{Value, json};
use std::{fmt::Write, path::Path};

/// What a Modelfile becomes.
#[derive(Debug, Default)]
pub struct ModelfileSettings {
    /// The file of settings.
    pub text: String,
    /// What it does not have, and why.
    pub left_out: Vec<String>,
}

/// What parameters begin with that are options of a server or of a model, under names that these have, too.
const OPTIONS: &str = "num_";
/// Why instructions have no setting.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "TEMPLATE",
        "it is in Go's language: the template in the model's file holds, or a Jinja file that chat_template names",
    ),
    ("MESSAGE", "examples are messages of the requests"),
    ("LICENSE", "the model's file has it"),
    ("REQUIRES", "it names a version of Ollama"),
    ("RENDERER", "it names a part of Ollama: the template in the model's file holds"),
    ("PARSER", "it names a part of Ollama: calls are read by the template in the model's file"),
];
/// Why parameters have none.
const NO_SETTING: &[(&str, &str)] = &[
    ("stop", "requests name the texts that end them (the model's own tokens end answers anyway)"),
    ("num_keep", "context_shift says it for all requests"),
    ("tfs_z", "there is no such sampler"),
    ("penalize_newline", "newlines are tokens like others"),
];

/// The settings of a model that requests call `name`; paths of the Modelfile lie in `folder`.
///
/// # Errors
/// When it names no model, or an instruction or a value is none.
pub fn settings(all: &[Instruction], name: &str, folder: &Path) -> Result<ModelfileSettings, String> {
    let (mut server, mut model) = (Settings::new(), Settings::new());
    let (mut adapters, mut left_out) = (vec![], vec![]);
    for Instruction { word, text, line } in all {
        let at = |problem: String| format!("line {line}: {problem}");
        match word.as_str() {
            "FROM" => put(&mut model, "path", json!(model_name(text, folder))),
            "SYSTEM" => put(&mut model, "system", json!(text)),
            "ADAPTER" => adapters.push(json!(folder.join(text))),
            "PARAMETER" => {
                let (name, value) = text.split_once(' ').ok_or_else(|| at(format!("{text} has no value")))?;
                match parameter(name, value.trim()).map_err(at)? {
                    ModelfileParameter::Server(name, value) => put(&mut server, &name, value),
                    ModelfileParameter::Model(name, value) => put(&mut model, &name, value),
                    ModelfileParameter::None(why) => left_out.push(format!("PARAMETER {name}: {why}")),
                }
            }
            word => match LEFT_OUT.iter().find(|(known, _)| *known == word) {
                Some((_, why)) => left_out.push(format!("{word}: {why}")),
                None => return Err(at(format!("{word} is no instruction of a Modelfile"))),
            },
        }
    }
    if !model.iter().any(|(name, _)| name == "path") {
        return Err("FROM is missing: it names the model".to_owned());
    }
    if !adapters.is_empty() {
        put(&mut model, "lora", json!(adapters));
    }
    left_out.dedup();
    let mut text = String::new();
    left_out.iter().for_each(|line| _ = writeln!(text, "# left out: {line}"));
    server.iter().for_each(|(name, value)| _ = writeln!(text, "{name} = {}", toml(value)));
    _ = writeln!(text, "\n[models.{}]", toml(&json!(name)));
    model.iter().for_each(|(name, value)| _ = writeln!(text, "{name} = {}", toml(value)));
    Ok(ModelfileSettings { text, left_out })
}

type Settings = Vec<(String, Value)>;

/// The last one of a name counts.
fn put(list: &mut Settings, name: &str, value: Value) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => list.push((name.to_owned(), value)),
    }
}

/// What a parameter becomes.
enum ModelfileParameter {
    Server(String, Value),
    Model(String, Value),
    None(&'static str),
}

fn parameter(name: &str, value: &str) -> Result<ModelfileParameter, String> {
    if let Some((_, why)) = NO_SETTING.iter().find(|(known, _)| *known == name) {
        return Ok(ModelfileParameter::None(why));
    }
    let number = |value: &str| serde_json::from_str::<Value>(value).ok().filter(Value::is_number);
    let known = OptionSpec::find(ServeOptions::specs(), name).ok().filter(|_| name.starts_with(OPTIONS));
    if let Some(spec) = known {
        let value = number(value).ok_or_else(|| format!("{name} must be a number, not {value}"))?;
        let of_server = ServeOptions::SPECS.iter().any(|own| own.name == spec.name);
        return Ok(match (of_server, value.as_i64()) {
            // As many as there are.
            (_, Some(count)) if count < 0 => ModelfileParameter::None("it asks for what happens anyway"),
            (true, _) => ModelfileParameter::Server(spec.name.to_owned(), value),
            (false, _) => ModelfileParameter::Model(spec.name.to_owned(), value),
        });
    }
    match Param::find(name) {
        Ok(param) => {
            param.parse(value).map_err(|e| e.to_string())?;
            Ok(ModelfileParameter::Server(
                param.name.to_owned(),
                number(value).unwrap_or_else(|| json!(value)),
            ))
        }
        Err(_) => Ok(ModelfileParameter::None("there is no such setting here")),
    }
}

/// A path, or the name of a model in Ollama's store or on the hub.
fn model_name(text: &str, folder: &Path) -> String {
    let path = folder.join(text);
    let hub = ["hf.co/", "huggingface.co/"].iter().find_map(|host| text.strip_prefix(host));
    match hub {
        Some(repo) => format!("hf:{}", repo.strip_suffix(":latest").unwrap_or(repo)),
        None if text.starts_with(['.', '/', '~']) || path.exists() || lamina::is_name(text) => {
            if lamina::is_name(text) {
                text.to_owned()
            } else {
                path.display().to_string()
            }
        }
        None => format!("ollama:{text}"),
    }
}

/// A value as TOML has it: numbers, texts and lists are those of JSON, but for one character.
fn toml(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::{super::parse::instructions, *};
    use lamina_serve::ModelOrigin;

    fn of(text: &str) -> Result<ModelfileSettings, String> {
        settings(&instructions(text)?, "my model", Path::new("/m"))
    }

    /// What is written is what a server reads.
    #[test]
    fn a_server_reads_what_is_written() {
        let text = "FROM ./tiny.gguf\nPARAMETER temperature 0.25\nPARAMETER top_k 7\nPARAMETER num_ctx 512\n\
            PARAMETER num_predict 64\nPARAMETER num_gpu -1\nPARAMETER repeat_penalty 1.1\nPARAMETER stop \"<a>\"\n\
            PARAMETER stop <b>\nSYSTEM \"\"\"You are \"brief\".\nAlways.\"\"\"\nADAPTER style.gguf\nTEMPLATE x\n";
        let found = of(text).expect("settings");
        assert_eq!(found.left_out.len(), 3, "{:?}", found.left_out);
        let mut options = ServeOptions::default();
        options.read(&found.text, Path::new("/elsewhere")).expect("a file of settings");
        assert_eq!(options.max_tokens, Some(64));
        let sampling = |name| options.sampling.get(name).expect("a parameter");
        assert_eq!(sampling("temperature"), lamina::sample::Value::Float(0.25));
        let [ModelOrigin::Path { name, path, settings: Some(own) }] = &options.models[..] else {
            panic!("{options:?}")
        };
        assert_eq!((name.as_deref(), path.as_deref()), (Some("my model"), Some(Path::new("/m/./tiny.gguf"))));
        assert_eq!(own.system.as_deref(), Some("You are \"brief\".\nAlways."));
        assert_eq!((own.load.context, own.lora[0].path.as_path()), (Some(512), Path::new("/m/style.gguf")));
    }

    #[test]
    fn models_have_names_too() {
        for (from, path) in [
            ("llama3.2:1b", "ollama:llama3.2:1b"),
            ("hf.co/org/name:Q4_0", "hf:org/name:Q4_0"),
            ("hf:org/name", "hf:org/name"),
            ("/a/b.gguf", "/a/b.gguf"),
        ] {
            let text = of(&format!("FROM {from}")).expect("settings").text;
            assert!(text.contains(&format!("path = \"{path}\"")), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let wrong = |text: &str| of(text).expect_err("wrong");
        assert!(wrong("SYSTEM x").contains("FROM is missing"));
        assert!(wrong("FROM a\nPARAMETER temperature hot").starts_with("line 2:"));
        assert!(wrong("FROM a\nPARAMETER num_ctx many").contains("num_ctx must be a number"));
        assert!(wrong("FROM a\nFORM b").contains("FORM is no instruction"));
    }
}

//! How a prompt is continued.

use super::{GrammarArgs, SamplingArgs};
use lamina::{
    Compression, GenerateOptions,
    sample::{Param, SampleError, Value},
};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Arguments of commands that generate text.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generation")]
pub struct GenerateArgs {
    /// Tokens at most; 0 computes the prompt only [default: up to the end of the context]
    #[arg(short = 'n', long, value_name = "N", aliases = ["n-predict", "max_tokens", "max-new-tokens"])]
    max_tokens: Option<usize>,
    /// Text that ends the answer, exactly as given; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after tokens that end an answer
    #[arg(long)]
    ignore_eos: bool,
    /// When the context is full, keep its first N tokens and the newer half of the others, and go on
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4", visible_alias = "keep")]
    context_shift: Option<usize>,
    /// Behind the prompt, keep of each layer only the tokens that its last ones (snapkv:TOKENS, pyramidkv:TOKENS) or all
    /// of its tokens (h2o:TOKENS) look at most
    #[arg(long, value_name = "METHOD:TOKENS")]
    compress: Option<Compression>,
    #[command(flatten)]
    grammar: GrammarArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl GenerateArgs {
    /// One answer, without the prompt.
    pub fn wanted(self) -> Wanted {
        let options = GenerateOptions {
            max_tokens: self.max_tokens,
            sampling: self.sampling.params,
            stop: self.stop,
            ignore_eos: self.ignore_eos,
            context_shift: self.context_shift,
            compress: self.compress,
            grammar: self.grammar.0,
            ..GenerateOptions::default()
        };
        Wanted { options, given: self.sampling.given }
    }
}

/// What is asked of a model: options for the library, fields for a server.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// All of it.
    pub options: GenerateOptions,
    /// Sampling parameters that the user set.
    given: BTreeMap<&'static str, Value>,
}

impl Wanted {
    /// Sets a sampling parameter by name or alias.
    ///
    /// # Errors
    /// When there is no such parameter, or the value is not one of it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SampleError> {
        let param = Param::find(name)?;
        let value = param.parse(text)?;
        self.options.sampling.set(param.name, value.clone())?;
        self.given.insert(param.name, value);
        Ok(())
    }

    /// Fields of a request to a server: only what was asked for, the rest is as the server has it.
    pub fn fields(&self) -> Map<String, serde_json::Value> {
        let GenerateOptions { max_tokens, stop, ignore_eos, n, echo, compress, grammar, .. } = &self.options;
        let mut fields: Map<_, _> =
            self.given.iter().map(|(name, v)| ((*name).to_owned(), json(v))).collect();
        let own = [
            ("max_tokens", max_tokens.map(|n| json!(n))),
            ("stop", (!stop.is_empty()).then(|| json!(stop))),
            ("ignore_eos", ignore_eos.then(|| json!(true))),
            ("n", (*n > 1).then(|| json!(n))),
            ("echo", echo.then(|| json!(true))),
            ("compress", compress.map(|c| json!(c.to_string()))),
        ];
        fields.extend(own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        fields.extend(grammar.as_ref().map(|g| field_of(g.kind(), g.source())));
        fields
    }
}

/// The form of an answer in the words of OpenAI's API, or, for what that lacks, of vLLM's.
fn field_of(kind: &str, source: &str) -> (String, serde_json::Value) {
    let parsed = || serde_json::from_str(source).unwrap_or(serde_json::Value::Null);
    let (name, value) = match kind {
        "json_schema" => {
            let named = json!({ "name": "answer", "schema": parsed(), "strict": true });
            ("response_format", json!({ "type": "json_schema", "json_schema": named }))
        }
        "json" => ("response_format", json!({ "type": "json_object" })),
        "choice" | "structural_tag" => ("structured_outputs", json!({ kind: parsed() })),
        "regex" => ("structured_outputs", json!({ "regex": source })),
        _ => ("structured_outputs", json!({ "grammar": source })),
    };
    (name.to_owned(), value)
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::None => json!(null),
        Value::Int(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Strings(list) => json!(list),
        Value::Biases(biases) => biases.iter().map(|(id, bias)| (id.to_string(), json!(bias))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::{Grammar, grammar::SchemaOptions};

    fn wanted() -> Wanted {
        Wanted { options: GenerateOptions::default(), given: BTreeMap::new() }
    }

    #[test]
    fn a_server_is_sent_only_what_was_asked_for() {
        assert!(wanted().fields().is_empty());
        let mut w = wanted();
        w.options.max_tokens = Some(5);
        w.options.stop = vec!["\n".into()];
        w.set("temp", "0.8").unwrap();
        w.set("logit_bias", "7=-2").unwrap();
        let expected =
            json!({"logit_bias": {"7": -2.0}, "temperature": 0.8, "max_tokens": 5, "stop": ["\n"]});
        assert_eq!(serde_json::Value::from(w.fields()), expected, "also a value that is our default");
    }

    #[test]
    fn a_server_is_told_the_form_of_the_answer() {
        let mut w = wanted();
        w.options.grammar = Some(Grammar::choice(&["a", "b"]).unwrap());
        assert_eq!(
            serde_json::Value::from(w.fields()),
            json!({"structured_outputs": {"choice": ["a", "b"]}})
        );
        let schema = json!({"type": "integer"});
        w.options.grammar = Some(Grammar::json_schema(&schema, SchemaOptions::default()).unwrap());
        assert_eq!(w.fields()["response_format"]["json_schema"]["schema"], schema);
    }

    #[test]
    fn wrong_values_change_nothing() {
        let mut w = wanted();
        assert!(w.set("top_p", "7").is_err() && w.set("no_such", "1").is_err());
        assert!(w.fields().is_empty());
    }
}

//! What is asked of a server: fields of a request in the words of OpenAI's API or, for what that lacks, of vLLM's.

use super::{ToolArgs, Wanted};
use lamina::{GenerateOptions, ReasoningMode, sample};
use serde_json::{Map, Value, json};

impl Wanted {
    /// Fields of a request to a server: only what was asked for, the rest is as the server has it.
    pub fn fields(&self) -> Map<String, Value> {
        let GenerateOptions { max_tokens, stop, ignore_eos, n, echo, compress, grammar, .. } = &self.options;
        let mut fields: Map<_, _> =
            self.given.iter().map(|(name, v)| ((*name).to_owned(), parameter(v))).collect();
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

impl ToolArgs {
    /// For a server, in the words of OpenAI's API; a budget is in ours.
    pub fn fields(&self) -> Map<String, Value> {
        let choice = self.tool_choice.as_deref().map(|choice| match choice {
            "auto" | "none" | "required" => json!(choice),
            name => json!({ "type": "function", "function": { "name": name } }),
        });
        let (effort, budget) = match self.reasoning {
            None | Some(ReasoningMode::Template | ReasoningMode::On) => (None, None),
            Some(ReasoningMode::Off) => (Some(json!("none")), None),
            Some(ReasoningMode::Budget(tokens)) => (None, Some(json!(tokens))),
        };
        // The variable that most templates read; servers pass it on.
        let thinks = (self.reasoning == Some(ReasoningMode::On)).then(|| json!({ "enable_thinking": true }));
        let all = [
            ("tools", self.tools.as_ref().map(|list| json!(list.0))),
            ("tool_choice", choice),
            ("parallel_tool_calls", self.no_parallel_tool_calls.then(|| json!(false))),
            ("reasoning_effort", effort),
            ("reasoning_budget", budget),
            ("chat_template_kwargs", thinks),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// The form of an answer in the words of OpenAI's API, or, for what that lacks, of vLLM's.
fn field_of(kind: &str, source: &str) -> (String, Value) {
    let parsed = || serde_json::from_str(source).unwrap_or(Value::Null);
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

fn parameter(value: &sample::Value) -> Value {
    match value {
        sample::Value::None => Value::Null,
        sample::Value::Int(v) => json!(v),
        sample::Value::Float(v) => json!(v),
        sample::Value::Strings(list) => json!(list),
        sample::Value::Biases(biases) => {
            biases.iter().map(|(id, bias)| (id.to_string(), json!(bias))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tools::ToolList, *};
    use lamina::{Grammar, grammar::SchemaOptions};
    use std::collections::BTreeMap;

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
        assert_eq!(Value::from(w.fields()), expected, "also a value that is our default");
    }

    #[test]
    fn a_server_is_told_the_form_of_the_answer() {
        let mut w = wanted();
        w.options.grammar = Some(Grammar::choice(&["a", "b"]).unwrap());
        assert_eq!(Value::from(w.fields()), json!({"structured_outputs": {"choice": ["a", "b"]}}));
        let schema = json!({"type": "integer"});
        w.options.grammar = Some(Grammar::json_schema(&schema, SchemaOptions::default()).unwrap());
        assert_eq!(w.fields()["response_format"]["json_schema"]["schema"], schema);
    }

    #[test]
    fn tools_and_reasoning_are_told_in_the_words_of_openai() {
        let tool = json!({ "type": "function", "function": { "name": "now" } });
        let args = ToolArgs {
            tools: Some(ToolList(vec![tool.clone()])),
            tool_choice: Some("now".into()),
            no_parallel_tool_calls: true,
            reasoning: Some(ReasoningMode::Budget(7)),
        };
        let named = json!({ "type": "function", "function": { "name": "now" } });
        let fields = json!({ "tools": [tool], "tool_choice": named, "parallel_tool_calls": false, "reasoning_budget": 7 });
        assert_eq!(Value::from(args.fields()), fields);
        assert!(ToolArgs::default().fields().is_empty());
        let on = ToolArgs { reasoning: Some(ReasoningMode::On), ..ToolArgs::default() };
        assert_eq!(Value::from(on.fields()), json!({ "chat_template_kwargs": { "enable_thinking": true } }));
    }
}

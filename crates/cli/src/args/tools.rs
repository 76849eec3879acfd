//! Tools of a conversation, and reasoning before its answers.

use clap::builder::NonEmptyStringValueParser;
use lamina::{ChatOptions, ReasoningMode, ToolChoice, files::read_given};
use serde_json::Value;
use std::path::Path;

/// Arguments about tools and reasoning.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Tools and reasoning")]
pub struct ToolArgs {
    /// Tools that the model may call: a JSON file with a list of functions, as OpenAI's API has them
    #[arg(long, value_name = "FILE", value_parser = tools)]
    pub(super) tools: Option<ToolList>,
    /// Which calls an answer has: auto, none, required, or the name of the one tool that it calls
    #[arg(long, value_name = "CHOICE", requires = "tools", value_parser = NonEmptyStringValueParser::new())]
    pub(super) tool_choice: Option<String>,
    /// At most one call in an answer
    #[arg(long, requires = "tools")]
    pub(super) no_parallel_tool_calls: bool,
    /// Whether the model reasons before it answers: on, off, or for so many tokens at most
    #[arg(long, value_name = "N|on|off", value_parser = reasoning)]
    pub(super) reasoning: Option<ReasoningMode>,
}

/// Tools as a file lists them.
#[derive(Debug, Clone)]
pub(super) struct ToolList(pub(super) Vec<Value>);

fn tools(path: &str) -> Result<ToolList, String> {
    let text = read_given(Path::new(path)).map_err(|e| format!("cannot be read: {e}"))?;
    let list: Vec<Value> =
        serde_json::from_str(&text).map_err(|e| format!("is no JSON list of functions: {e}"))?;
    match list.iter().position(|tool| !tool["function"]["name"].is_string()) {
        Some(i) => Err(format!("entry {i} has no function with a name")),
        None => Ok(ToolList(list)),
    }
}

fn reasoning(text: &str) -> Result<ReasoningMode, String> {
    match text {
        "on" => Ok(ReasoningMode::On),
        "off" => Ok(ReasoningMode::Off),
        number => {
            number.parse().map(ReasoningMode::Budget).map_err(|_| "neither on, off nor a number".into())
        }
    }
}

impl ToolArgs {
    /// For the library.
    pub fn apply(&self, options: &mut ChatOptions) {
        options.tools = self.tools.as_ref().map(|list| list.0.clone());
        options.tool_choice = match self.tool_choice.as_deref() {
            None | Some("auto") => ToolChoice::Auto,
            Some("none") => ToolChoice::None,
            Some("required") => ToolChoice::Required,
            Some(name) => ToolChoice::Named(name.to_owned()),
        };
        options.one_call = self.no_parallel_tool_calls;
        options.reasoning = self.reasoning.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_become_options_of_the_library() {
        let tool = json!({ "type": "function", "function": { "name": "now" } });
        let args = ToolArgs {
            tools: Some(ToolList(vec![tool.clone()])),
            tool_choice: Some("now".into()),
            no_parallel_tool_calls: true,
            reasoning: Some(ReasoningMode::Budget(7)),
        };
        let mut options = ChatOptions::default();
        args.apply(&mut options);
        assert_eq!(options.tools, Some(vec![tool.clone()]));
        assert_eq!(options.tool_choice, ToolChoice::Named("now".into()));
        assert!(options.one_call && options.reasoning == ReasoningMode::Budget(7));
    }

    #[test]
    fn reasoning_is_on_off_or_a_number() {
        assert_eq!(reasoning("off"), Ok(ReasoningMode::Off));
        assert_eq!(reasoning("12"), Ok(ReasoningMode::Budget(12)));
        assert!(reasoning("much").is_err());
    }
}

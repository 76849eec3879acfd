//! The form of a conversation's answers: reasoning within its budget, then calls of the tools or the answer, as the
//! model's format writes them.

use crate::{Error, Result, answer::ChatAnswer, chat_options::ReasoningMode};
use lamina_chat::{
    MarkTokens, ToolGrammar, ToolRules, has_channels, mark_pieces, structure_tokens, tool_grammar,
};
use lamina_engine::{Boundary, EngineError};
use lamina_grammar::{Grammar, GrammarError, SchemaOptions, closed};
use lamina_tokenize::Special;
use serde_json::Value;

/// What a [`ChatGrammar`] was made of: format, tools and choice as text, and the form of the answer.
pub(crate) type GrammarKey = (String, Option<Grammar>);

/// The grammar of a conversation's answers, if they have one, and what it does not enforce.
#[derive(Clone)]
pub(crate) struct ChatGrammar {
    pub(crate) grammar: Option<Grammar>,
    pub(crate) warnings: Vec<String>,
}

impl ChatGrammar {
    /// The grammar of answers that may end with `ends`; `behind` reasoning that is bounded by other means. A grammar `form`
    /// is the form of the answer where it is no call.
    ///
    /// # Errors
    /// When a call is required and there is none to make, or the schema of a strict tool cannot be enforced.
    pub(crate) fn of(
        chat: &ChatAnswer,
        form: Option<&Grammar>,
        ends: &[u32],
        behind: bool,
    ) -> Result<ChatGrammar> {
        let (around, warnings) = match (call_grammar(chat, form, ends, !behind)?, form) {
            (Some(made), _) => (Some(made.lark), made.warnings),
            // Models write new lines between their reasoning and the answer.
            (None, Some(_)) if behind => {
                (Some(format!("start: WS? {}\nWS: /[ \\t\\r\\n]{{1,8}}/\n", Grammar::HOLE)), Vec::new())
            }
            (None, _) => (None, Vec::new()),
        };
        let grammar = match (around, form) {
            (Some(text), Some(form)) => Some(Grammar::lark_around(&text, form).map_err(EngineError::from)?),
            (Some(text), None) => Some(Grammar::lark(&text).map_err(EngineError::from)?),
            (None, form) => form.cloned(),
        };
        Ok(ChatGrammar { grammar, warnings })
    }
}

fn call_grammar(
    chat: &ChatAnswer,
    form: Option<&Grammar>,
    ends: &[u32],
    thoughts: bool,
) -> Result<Option<ToolGrammar>> {
    let structure = structure_tokens(&chat.tokenizer, ends);
    let cut = |mark: &str| mark_pieces(&chat.tokenizer, mark);
    let rules = ToolRules {
        tools: &chat.tools,
        choice: &chat.choice,
        parallel: !chat.one_call,
        answer: form.map(|_| Grammar::HOLE),
        thoughts,
        marks: MarkTokens { cut: &cut, structure: &structure, ends },
        enforced: &enforced,
    };
    tool_grammar(chat.format, &rules).map_err(Error::InvalidRequest)
}

/// Where the reasoning ends, and how long it may be; none where there is none, nothing depends on it, or the grammar
/// has it as a part.
///
/// # Errors
/// When the marks of reasoning are no text of the tokenizer.
pub(crate) fn reasoning_boundary(chat: &ChatAnswer) -> Result<Option<Boundary>> {
    let budget = match chat.reasoning {
        ReasoningMode::Budget(tokens) => Some(tokens),
        // Templates that cannot be told not to think: the thought is closed at once.
        ReasoningMode::Off if chat.inside => Some(0),
        ReasoningMode::Off => return Ok(None),
        ReasoningMode::Template | ReasoningMode::On => None,
    };
    // Formats with channels have thoughts without a budget in their grammar.
    let Some(marks) = chat.marks.filter(|_| budget.is_some() || !has_channels(chat.format)) else {
        return Ok(None);
    };
    let tokens = |text: &str| chat.tokenizer.encode(text, Special::PARSE);
    Ok(Some(Boundary {
        open: tokens(marks.open)?,
        close: tokens(marks.close)?,
        inside: chat.inside,
        budget,
        ending: tokens(&format!("{}{}", chat.reasoning_end, marks.close))?,
    }))
}

/// All that a conversation's grammar depends on, beside the model.
pub(crate) fn grammar_key(chat: &ChatAnswer, form: Option<&Grammar>, behind: bool) -> GrammarKey {
    let tools = Value::from(chat.tools.clone());
    let text = format!("{} {:?} {} {behind} {tools}", chat.format.name, chat.choice, chat.one_call);
    (text, form.cloned())
}

/// The schema of a tool's arguments as it is enforced: without members that it does not name, where that can be, since
/// models are shown the names and weak ones write others for ever.
fn enforced(schema: Value) -> Result<Value, String> {
    let closed = closed(&schema);
    match refused(&closed) {
        None => Ok(closed),
        Some(_) => refused(&schema).map_or(Ok(schema), Err),
    }
}

/// Why a schema cannot be enforced, if it cannot.
fn refused(schema: &Value) -> Option<String> {
    let why = |e: GrammarError| e.to_string();
    let made = Grammar::json_schema(schema, SchemaOptions::default());
    match made.and_then(|grammar| grammar.check().map(|()| grammar)) {
        Err(e) => Some(why(e)),
        Ok(grammar) if !grammar.is_satisfiable() => Some("nothing satisfies it".into()),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_closed_where_that_can_be_enforced() {
        let open = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        assert_eq!(enforced(open).unwrap()["additionalProperties"], false);
        let said = json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "null" } });
        assert_eq!(enforced(said.clone()), Ok(said));
        assert!(enforced(json!({ "type": "object", "required": 3 })).is_err());
    }
}

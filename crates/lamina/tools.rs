//! The form of a conversation's answers: reasoning within its budget, then calls of the tools or the answer, as the
//! model's format writes them.

use crate::{
    Error, Result, answer::ChatAnswer, chat::ReasoningMode, generate::GenerateOptions, model::Model,
};
use lamina_engine::{Boundary, EngineError};
use lamina_grammar::{Grammar, GrammarError, SchemaOptions};
use lamina_text::{
    MarkTokens, Special, ToolGrammar, ToolRules, has_channels, mark_pieces, structure_tokens, tool_grammar,
};
use serde_json::Value;

/// What a [`ChatGrammar`] was made of: format, tools and choice as text, and the form of the answer.
pub(crate) type GrammarKey = (String, Option<Grammar>);

/// The grammar of a conversation's answers, if they have one, and what it does not enforce.
#[derive(Clone)]
pub(crate) struct ChatGrammar {
    grammar: Option<Grammar>,
    warnings: Vec<String>,
}

impl Model {
    /// Gives `options` the grammar and the reasoning of a conversation's answers. A grammar that they have already is the
    /// form of the answer where it is no call. What cannot be enforced is added to the warnings.
    ///
    /// # Errors
    /// When a call is required and there is none to make, or the schema of a strict tool cannot be enforced.
    pub fn constrain_chat(&self, chat: &mut ChatAnswer, options: &mut GenerateOptions) -> Result<()> {
        let form = options.grammar.take();
        let reasoning = self.boundary(chat)?;
        // Without a budget such thoughts are a part of the grammar.
        let within = has_channels(chat.format) && reasoning.as_ref().is_none_or(|b| b.budget.is_none());
        let reasoning = reasoning.filter(|_| !within);
        let key = key(chat, form.as_ref(), reasoning.is_some());
        let made = match self.shared.chat_grammars.get(&key) {
            Some(made) => made,
            None => {
                let made = self.chat_grammar(chat, form.as_ref(), reasoning.is_some())?;
                self.shared.chat_grammars.put(key, made.clone());
                made
            }
        };
        chat.warnings.extend(made.warnings);
        options.grammar = made.grammar;
        options.reasoning = reasoning.filter(|b| options.grammar.is_some() || b.budget.is_some());
        Ok(())
    }

    /// The grammar of answers; `behind` reasoning that is bounded by other means.
    fn chat_grammar(&self, chat: &ChatAnswer, form: Option<&Grammar>, behind: bool) -> Result<ChatGrammar> {
        let (around, warnings) = match (self.tool_grammar(chat, form, !behind)?, form) {
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

    fn tool_grammar(
        &self,
        chat: &ChatAnswer,
        form: Option<&Grammar>,
        thoughts: bool,
    ) -> Result<Option<ToolGrammar>> {
        let ends = self.end_tokens();
        let structure = structure_tokens(&chat.tokenizer, ends);
        let cut = |mark: &str| mark_pieces(&chat.tokenizer, mark);
        let rules = ToolRules {
            tools: &chat.tools,
            choice: &chat.choice,
            parallel: !chat.one_call,
            answer: form.map(|_| Grammar::HOLE),
            thoughts,
            marks: MarkTokens { cut: &cut, structure: &structure, ends },
            refused: &refused,
        };
        tool_grammar(chat.format, &rules).map_err(Error::InvalidRequest)
    }

    /// Where the reasoning ends, and how long it may be; none where there is none, or nothing depends on it.
    fn boundary(&self, chat: &ChatAnswer) -> Result<Option<Boundary>> {
        let budget = match chat.reasoning {
            ReasoningMode::Budget(tokens) => Some(tokens),
            // Templates that cannot be told not to think: the thought is closed at once.
            ReasoningMode::Off if chat.inside => Some(0),
            ReasoningMode::Off => return Ok(None),
            ReasoningMode::Template | ReasoningMode::On => None,
        };
        let Some(marks) = chat.marks else { return Ok(None) };
        let tokens = |text: &str| self.tokenize(text, Special::PARSE);
        Ok(Some(Boundary {
            open: tokens(marks.open)?,
            close: tokens(marks.close)?,
            inside: chat.inside,
            budget,
            ending: tokens(&format!("{}{}", chat.reasoning_end, marks.close))?,
        }))
    }
}

/// All that a conversation's grammar depends on, beside the model.
fn key(chat: &ChatAnswer, form: Option<&Grammar>, behind: bool) -> GrammarKey {
    let tools = Value::from(chat.tools.clone());
    let text = format!("{} {:?} {} {behind} {tools}", chat.format.name, chat.choice, chat.one_call);
    (text, form.cloned())
}

/// Why a schema cannot be enforced, if it cannot.
fn refused(schema: &Value) -> Option<String> {
    let why = |e: GrammarError| e.to_string();
    match Grammar::json_schema(schema, SchemaOptions::default()) {
        Err(e) => Some(why(e)),
        Ok(grammar) if !grammar.is_satisfiable() => Some("nothing satisfies it".into()),
        Ok(_) => None,
    }
}

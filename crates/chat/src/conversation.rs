//! What a template is rendered with.

use lamina_tokenize::Tokenizer;
use serde_json::{Map, Value};

/// What a template is rendered with.
#[derive(Clone, Debug, Default)]
pub struct Conversation<'a> {
    /// Objects with `role`, `content` (a string or a list of parts), `tool_calls` and what else the model knows.
    pub messages: &'a [Value],
    /// Tools as JSON schemas, if the model may call any.
    pub tools: Option<&'a [Value]>,
    /// Documents to answer from (`title`, `text`), for models that take them.
    pub documents: Option<&'a [Value]>,
    /// Whether the text ends where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// The text of the BOS token; None leaves `bos_token` undefined.
    pub bos_token: Option<&'a str>,
    /// The text of the EOS token; None leaves `eos_token` undefined.
    pub eos_token: Option<&'a str>,
    /// Further variables (`enable_thinking` and the like); they win over all above.
    pub variables: Option<&'a Map<String, Value>>,
}

impl<'a> Conversation<'a> {
    /// The messages, an answer to come, and the tokens of this tokenizer.
    pub fn new(messages: &'a [Value], tokenizer: &'a Tokenizer) -> Conversation<'a> {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.id_to_token(id));
        Conversation {
            messages,
            add_generation_prompt: true,
            bos_token: text(tokenizer.bos()),
            eos_token: text(tokenizer.eos()),
            ..Conversation::default()
        }
    }
}

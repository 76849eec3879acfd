//! Floor 15: chat. Templates, and answers taken apart and constrained.
//!
//! - [`ChatTemplate`]: the model's own Jinja template, rendered byte for byte as `transformers` renders it.
//! - [`ChatFormat`]: how a model writes tool calls, as data.
//! - [`Parser`]: an answer taken apart while it streams: reasoning, text, tool calls.
//! - [`tool_grammar`]: the grammar of answers with tool calls.
//! - [`take_pictures`], [`ChatTemplate::encode_media`]: pictures in messages, and where their rows go.
//!
//! Of a tokenizer it needs special tokens alone: which a text spells, their ids and their kinds.
#![forbid(unsafe_code)]

mod constrain;
mod conversation;
mod defaults;
mod error;
mod formats;
mod media;
mod own_text;
mod parse;
mod reasoning;
mod sandbox;
mod template;

pub use constrain::{
    MarkPiece, MarkTokens, ToolChoice, ToolGrammar, ToolRules, has_channels, mark_pieces, structure_tokens,
    tool_grammar,
};
pub use conversation::Conversation;
pub use defaults::DefaultTemplate;
pub use error::ChatError;
pub use formats::ChatFormat;
pub use media::{
    ExpandedPicture, MediaMarks, MediaPrompt, PicturePart, expand_prompt, has_pictures, has_sounds,
    place_rows, take_pictures, take_sounds,
};
pub use parse::{ChatMessage, Delta, Parser, ParserOptions, ToolCall};
pub use reasoning::{ReasoningMarks, reasoning_variables};
pub use sandbox::Clock;
pub use template::ChatTemplate;

//! Floor 1: text. Tokenizers of every kind that models ship, decoding as tokens stream in, and chat templates.
//!
//! - [`Tokenizer`]: from GGUF metadata, a Hugging Face folder, SentencePiece, tiktoken or GPT-2 files.
//! - [`StreamDecoder`]: tokens in, whole characters out.
//! - [`Parser`]: an answer taken apart while it streams: reasoning, text, tool calls.
//! - [`ChatTemplate`]: the model's own Jinja template, rendered byte for byte as `transformers` renders it.
#![forbid(unsafe_code)]

mod byte_level;
mod chat;
mod encode;
mod error;
mod export;
mod frame;
mod infill;
mod pre;
mod room;
mod source;
mod special;
mod split;
mod stream;
mod tokenizer;
mod vocab;

pub use chat::{
    ChatFormat, ChatMessage, ChatTemplate, Clock, Conversation, DefaultTemplate, Delta, MarkPiece,
    MarkTokens, Parser, ParserOptions, ReasoningMarks, ToolCall, ToolChoice, ToolGrammar, ToolRules,
    has_channels, mark_pieces, reasoning_variables, structure_tokens, tool_grammar,
};
pub use error::TextError;
pub use infill::InfillMarks;
pub use pre::pre_tokenizer_names;
pub use source::gguf::GgufVocab;
pub use source::tiktoken::TiktokenEncoding;
pub use special::{InfillIds, Markers, Special, SpecialIds};
pub use stream::StreamDecoder;
pub use tokenizer::{ChatTemplateSource, Tokenizer};
pub use vocab::TokenKind;

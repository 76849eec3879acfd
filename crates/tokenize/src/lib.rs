//! Floor 10: tokenizers of every kind that models ship, and decoding as tokens stream in.
//!
//! - [`Tokenizer`]: from GGUF metadata, a Hugging Face folder, SentencePiece, tiktoken or GPT-2 files.
//! - [`StreamDecoder`]: tokens in, whole characters out.
//! - [`GgufVocab`]: the tokenizer of a folder as the keys of a GGUF file.
#![forbid(unsafe_code)]

mod byte_level;
mod chat_template_source;
mod encode;
mod error;
mod export;
mod frame;
mod hf;
mod infill;
mod pre;
mod room;
mod source;
mod special;
mod split;
mod stream;
mod tokenizer;
mod vocab;

pub use chat_template_source::ChatTemplateSource;
pub use error::TokenizeError;
pub use infill::InfillMarks;
pub use pre::pre_tokenizer_names;
pub use source::gguf::GgufVocab;
pub use source::tiktoken::TiktokenEncoding;
pub use special::{InfillIds, Markers, Special, SpecialFragment, SpecialIds};
pub use stream::StreamDecoder;
pub use tokenizer::{LongText, Tokenizer};
pub use vocab::TokenKind;

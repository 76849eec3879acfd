//! Floor 1, beside text: grammars. What an answer must look like, as bits over the vocabulary.
//!
//! - [`Grammar`]: from a JSON schema, a regular expression, strings to choose from, GBNF, Lark or structural tags;
//!   checked when it is made. What cannot be enforced is refused, never ignored.
//! - [`Vocabulary`]: the tokens of one model as a trie, made once.
//! - [`GrammarMatcher`]: a grammar beside one answer: mask, accept, roll back, fork.
//!
//! The masks are llguidance's. This crate adds what it leaves open: schemas of which every keyword is enforced exactly,
//! llama.cpp's grammars without a lexer's greed, vocabularies of every tokenizer, limits that do not depend on time.
#![forbid(unsafe_code)]

mod cache;
mod choice;
mod compile;
mod error;
mod explain;
mod gbnf;
mod grammar;
mod lark;
mod limits;
mod lowered;
mod matcher;
mod nesting;
mod regex;
mod rules;
mod schema;
mod slices;
mod tags;
mod vocab;

pub use error::{GrammarError, Result};
pub use grammar::{Grammar, GrammarVerdict};
pub use lowered::SchemaOptions;
pub use matcher::{GrammarMatcher, Stop};
pub use schema::closed;
pub use vocab::Vocabulary;

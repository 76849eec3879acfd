//! llama.cpp's grammars (GBNF), exactly.
//!
//! They describe characters and know no lexer; the library lexes greedily. Written as lexemes, `[a-z]+ "abc"` would no
//! longer take `abcabc`. So a grammar without recursion becomes one regular expression, and of one with recursion every
//! terminal is a single character, except where a whole part can be one without changing what is accepted: see
//! [`fuse`].

mod dfa;
mod emit;
mod follow;
mod fuse;
mod parse;
mod part;
mod prune;
mod regex;
mod rules;

use crate::error::Result;
use crate::lowered::LarkPiece;

/// The grammar `text` as Lark.
pub(crate) fn lark(text: &str) -> Result<Vec<LarkPiece>> {
    emit::lark(&parse::parse(text)?)
}

#[cfg(test)]
mod tests;

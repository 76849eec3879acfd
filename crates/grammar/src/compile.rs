//! From a lowered source to a parser of the library.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use llguidance::{
    Matcher as Library,
    api::{GrammarInit, TopLevelGrammar},
    earley::{Grammar as Rules, lexerspec::LexerSpec},
};
use serde_json::Value;

use crate::cache::Compiled;
use crate::error::{GrammarError, Result};
use crate::explain::explain;
use crate::limits;
use crate::lowered::{LarkPiece, Lowered};
use crate::rules;
use crate::vocab::{NAMED_TOKEN, Vocabulary};

/// A schema as the library has it before it meets a vocabulary.
#[derive(Clone)]
pub(crate) struct ReadSchema {
    pub rules: Rules,
    pub lexer: LexerSpec,
}

/// `lowered` before it meets a vocabulary; None where it names tokens. A third of the time that a schema takes goes into
/// it, so it is done once for all vocabularies.
pub(crate) fn read(lowered: &Lowered) -> Result<Option<ReadSchema>> {
    match lowered {
        Lowered::Schema(value) => of_schema(lowered, value).map(Some),
        Lowered::Lark(_) => Ok(None),
    }
}

fn of_schema(lowered: &Lowered, value: &Value) -> Result<ReadSchema> {
    deep(lowered.nesting(), || match rules::read(value) {
        Some((rules, lexer)) => Ok(ReadSchema { rules, lexer }),
        None => by_library(lowered, value),
    })
}

/// By the library's compiler of schemas.
pub(crate) fn by_library(lowered: &Lowered, value: &Value) -> Result<ReadSchema> {
    let source = GrammarInit::Serialized(TopLevelGrammar::from_json_schema(value.clone()));
    let read = source.to_internal(None, limits::parser());
    let (rules, lexer) = read.map_err(|e| explain(lowered, &format!("{e:#}")))?;
    Ok(ReadSchema { rules: rules.optimize(), lexer })
}

/// `lowered` over the tokens of `vocabulary`; `read` is what [`read`] made of it, if that is at hand.
pub(crate) fn compile(
    lowered: &Lowered,
    read: Option<ReadSchema>,
    vocabulary: &Vocabulary,
) -> Result<Compiled> {
    let read = match read {
        Some(read) => Some(read),
        None => self::read(lowered)?,
    };
    let build = || {
        let made = match (read, lowered) {
            (Some(read), _) => vocabulary.parser(read.rules, read.lexer),
            (None, Lowered::Lark(pieces)) => {
                let source = bound(pieces, vocabulary)?;
                vocabulary.factory().create_parser(source).map_err(|e| format!("{e:#}"))
            }
            (None, Lowered::Schema(_)) => return Err(panicked()),
        };
        made.map_err(|message| explain(lowered, &message))
    };
    let parser = deep(lowered.nesting(), build)?;
    let bytes = parser.parser.lexer_stats().num_bytes + limits::BYTES_OF_SOURCE * lowered.bytes();
    let mut library = Library::new(Ok(parser));
    match library.get_error() {
        Some(message) => Err(explain(lowered, &message)),
        None => {
            // What the first mask finds out is the grammar's fault, not the first answer's.
            let _ = library.is_accepting();
            Ok(Compiled::new(library, bytes))
        }
    }
}

/// In the form of the library, tokens by their ids in `vocabulary`.
fn bound(pieces: &[LarkPiece], vocabulary: &Vocabulary) -> Result<TopLevelGrammar> {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            LarkPiece::Text(text) => out.push_str(text),
            // Without a model's tokens, one that is no text stands for all that are named.
            LarkPiece::Named { .. } | LarkPiece::Numbered(_) if !vocabulary.has_tokenizer() => {
                out.push_str(&format!("<[{NAMED_TOKEN}]>"));
            }
            LarkPiece::Named { name, negated } => {
                let not = if *negated { "^" } else { "" };
                out.push_str(&format!("<[{not}{}]>", vocabulary.named(name)?));
            }
            LarkPiece::Numbered(ids) => {
                let not = if ids.starts_with('^') { "^" } else { "" };
                let plain = ids.trim_start_matches('^');
                let ids = if plain == "*" { plain.to_owned() } else { vocabulary.numbered(plain)? };
                out.push_str(&format!("<[{not}{ids}]>"));
            }
        }
    }
    Ok(TopLevelGrammar::from_lark(out))
}

/// Runs `work`, which recurses as deep as `nesting` says: in place where that is shallow, since a thread takes as long as a
/// small schema (and 2 ms on a busy machine), else on one with a deep stack.
pub(crate) fn deep<T: Send>(nesting: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let caught = || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()));
    if nesting <= limits::SHALLOW || ON_DEEP_STACK.get() {
        return caught();
    }
    if !lamina_reserve::affordable(limits::STACK + BESIDE_STACK) {
        let why = format!("no thread to compile it: it takes {} MB of address space", limits::STACK >> 20);
        return Err(GrammarError::broken("grammar", why));
    }
    let marked = || {
        ON_DEEP_STACK.set(true);
        caught()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(limits::STACK).spawn_scoped(scope, marked);
        let thread =
            thread.map_err(|e| GrammarError::broken("grammar", format!("no thread to compile it: {e}")))?;
        thread.join().unwrap_or_else(|_| Err(panicked()))
    })
}

/// What a thread takes beside its stack: one that gets only that ends the process.
const BESIDE_STACK: usize = 4 << 20;

thread_local! {
    /// This thread is one of [`deep`].
    static ON_DEEP_STACK: Cell<bool> = const { Cell::new(false) };
}

fn panicked() -> GrammarError {
    GrammarError::broken("grammar", "the compiler panicked")
}

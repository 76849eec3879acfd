//! A grammar: checked, without a vocabulary in it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::cache::Compiled;
use crate::compile::{ReadSchema, compile, deep, read};
use crate::error::{GrammarError, Result};
use crate::lowered::{Lowered, SchemaOptions};
use crate::matcher::GrammarMatcher;
use crate::vocab::Vocabulary;
use crate::{choice, gbnf, lark, limits, nesting, regex, schema, tags};

/// What a text must look like. Cheap to clone, shared freely between threads. Every constructor checks it whole, but for
/// the limits of a schema's lexer, which [`Grammar::check`] and [`Grammar::matcher`] find.
#[derive(Clone)]
pub struct Grammar(Arc<Checked>);

struct Checked {
    kind: &'static str,
    source: String,
    lowered: Arc<Lowered>,
    /// As the library read it, for the first vocabulary that it meets.
    read: Mutex<Option<ReadSchema>>,
    warnings: Vec<String>,
    /// Compiled over bytes when it is asked for: a request compiles the grammar over the model's tokens alone. An error
    /// where no text satisfies the grammar.
    judge: OnceLock<Result<Arc<Compiled>>>,
}

/// What a text is to a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrammarVerdict {
    /// It satisfies it.
    Whole,
    /// Some text that begins with it does.
    Beginning,
    /// No text that begins with it does.
    Neither,
}

impl Grammar {
    /// Any JSON value whose outermost is an object: JSON mode.
    ///
    /// # Errors
    /// None in practice.
    pub fn json() -> Result<Grammar> {
        let schema = serde_json::json!({ "type": "object" });
        let (value, warnings) = schema::normalize(&schema, SchemaOptions::default())?;
        Self::checked("json", String::new(), Lowered::Schema(value), warnings)
    }

    /// JSON that satisfies `schema`.
    ///
    /// # Errors
    /// When it is no schema, or when a keyword cannot be enforced: named with its JSON pointer.
    pub fn json_schema(schema: &Value, options: SchemaOptions) -> Result<Grammar> {
        let source = text_of(schema);
        fits("JSON schema", source.len())?;
        deep(nesting::of_schema(schema), || {
            let (value, warnings) = schema::normalize(schema, options)?;
            Self::checked("json_schema", source, Lowered::Schema(value), warnings)
        })
    }

    /// [`Grammar::json_schema`] of a schema as JSON text.
    ///
    /// # Errors
    /// As there; also when the text is no JSON.
    pub fn json_schema_text(text: &str, options: SchemaOptions) -> Result<Grammar> {
        fits("JSON schema", text.len())?;
        let schema = serde_json::from_str(text).map_err(|e| GrammarError::Syntax {
            what: "JSON schema",
            line: e.line(),
            column: e.column(),
            why: format!("not JSON: {e}"),
        })?;
        Self::json_schema(&schema, options)
    }

    /// A grammar as text: [`Grammar::gbnf`] where it has `::=`, else [`Grammar::lark`].
    ///
    /// # Errors
    /// As there.
    pub fn parse(text: &str) -> Result<Grammar> {
        if text.contains("::=") { Self::gbnf(text) } else { Self::lark(text) }
    }

    /// Texts that match all of `pattern`, in Rust's syntax.
    ///
    /// # Errors
    /// When it is wrong, or needs lookaround, back references or anchors inside.
    pub fn regex(pattern: &str) -> Result<Grammar> {
        fits("regex", pattern.len())?;
        let plain =
            regex::plain(pattern, regex::Scope::Whole).map_err(|why| GrammarError::broken("regex", why))?;
        let Some(plain) = plain else {
            let nothing = GrammarError::Unsatisfiable("the expression matches nothing".into());
            return Ok(Self::of_nothing("regex", pattern.to_owned(), nothing));
        };
        Self::checked("regex", pattern.to_owned(), Lowered::text(lark::of_regex(&plain)), Vec::new())
    }

    /// One of `choices`, whole.
    ///
    /// # Errors
    /// When there are none, or too many.
    pub fn choice<S: AsRef<str>>(choices: &[S]) -> Result<Grammar> {
        let choices: Vec<&str> = choices.iter().map(AsRef::as_ref).collect();
        let source = serde_json::to_string(&choices).unwrap_or_default();
        Self::checked("choice", source, Lowered::text(choice::lark(&choices)?), Vec::new())
    }

    /// llama.cpp's grammars.
    ///
    /// # Errors
    /// When it does not parse: with line and column.
    pub fn gbnf(text: &str) -> Result<Grammar> {
        fits("GBNF", text.len())?;
        deep(nesting::of_text(text), || match gbnf::lark(text) {
            Ok(pieces) => Self::checked("gbnf", text.to_owned(), Lowered::Lark(pieces), Vec::new()),
            Err(e @ GrammarError::Unsatisfiable(_)) => Ok(Self::of_nothing("gbnf", text.to_owned(), e)),
            Err(e) => Err(e),
        })
    }

    /// Lark in the library's dialect. Schemas in `%json` are checked as those of [`Grammar::json_schema`] are.
    ///
    /// # Errors
    /// When it does not parse, or asks for what would need tokens taken back.
    pub fn lark(text: &str) -> Result<Grammar> {
        fits("Lark", text.len())?;
        deep(nesting::of_text(text), || {
            Self::checked("lark", text.to_owned(), Lowered::Lark(lark::checked(text)?), Vec::new())
        })
    }

    /// [`Grammar::lark`] with `inner` wherever the text has [`Grammar::HOLE`]: what stands around an answer whose form
    /// is `inner`, of any kind.
    ///
    /// # Errors
    /// As there.
    pub fn lark_around(text: &str, inner: &Grammar) -> Result<Grammar> {
        fits("Lark", text.len())?;
        let pieces = deep(nesting::of_text(text), || lark::checked(text))?;
        let inside = lark::nested(&inner.0.lowered);
        let warnings = inner.0.warnings.clone();
        // The source of what is inside tells such grammars apart.
        let source = text.replace(Self::HOLE, &format!("{} {}", inner.0.kind, inner.0.source));
        Self::checked("lark", source, Lowered::Lark(lark::filled(pieces, Self::HOLE, &inside)), warnings)
    }

    /// Stands for another grammar in [`Grammar::lark_around`]. No JSON and no expression has such a character.
    pub const HOLE: &'static str = "\u{1}";

    /// A structural tag, as vLLM and xgrammar write them, old form or new.
    ///
    /// # Errors
    /// When a part is unknown, or a schema in it is refused.
    pub fn structural_tag(tag: &Value) -> Result<Grammar> {
        let source = text_of(tag);
        fits("structural tag", source.len())?;
        deep(nesting::of_text(&source), || {
            let lowered = Lowered::Lark(tags::lark(tag)?);
            Self::checked("structural_tag", source, lowered, Vec::new())
        })
    }

    #[cfg(test)]
    pub(crate) fn lowered(&self) -> Arc<Lowered> {
        self.0.lowered.clone()
    }

    #[cfg(test)]
    pub(crate) fn of_lowered(lowered: Lowered) -> Result<Grammar> {
        Self::checked("lark", String::new(), lowered, Vec::new())
    }

    /// A grammar that no text satisfies, and why.
    fn of_nothing(kind: &'static str, source: String, why: GrammarError) -> Grammar {
        let lowered = Arc::new(Lowered::text(String::new()));
        let (read, warnings) = (Mutex::default(), Vec::new());
        Grammar(Arc::new(Checked { kind, source, lowered, read, warnings, judge: Err(why).into() }))
    }

    fn checked(
        kind: &'static str,
        source: String,
        lowered: Lowered,
        warnings: Vec<String>,
    ) -> Result<Grammar> {
        let (read, judge) = match read(&lowered) {
            Ok(read) => (read, OnceLock::new()),
            Err(e @ GrammarError::Unsatisfiable(_)) => (None, Err(e).into()),
            Err(e) => return Err(e),
        };
        let is_read = read.is_some();
        let (lowered, read) = (Arc::new(lowered), Mutex::new(read));
        let grammar = Grammar(Arc::new(Checked { kind, source, lowered, read, warnings, judge }));
        // What is read only together with a vocabulary is not yet checked at all.
        if !is_read {
            grammar.check()?;
        }
        Ok(grammar)
    }

    fn judge(&self) -> Result<Arc<Compiled>> {
        let make = || {
            let read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
            compile(&self.0.lowered, read, &Vocabulary::bytes()?).map(Arc::new)
        };
        self.0.judge.get_or_init(make).clone()
    }

    /// Compiles the grammar over bytes, as [`Grammar::matches`] does: nothing that is wrong with it stays unknown.
    ///
    /// # Errors
    /// When a limit is reached. One that no text satisfies is none: see [`Grammar::is_satisfiable`].
    pub fn check(&self) -> Result<()> {
        match self.judge() {
            Ok(_) | Err(GrammarError::Unsatisfiable(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Whether the whole of `text` satisfies the grammar, in a spelling that an answer could have. False too where a limit is
    /// reached: [`Grammar::verdict`] tells that apart.
    pub fn matches(&self, text: impl AsRef<[u8]>) -> bool {
        matches!(self.verdict(text), Ok(GrammarVerdict::Whole))
    }

    /// Whether some text that begins with `prefix` may satisfy the grammar. False too where a limit is reached.
    pub fn allows(&self, prefix: impl AsRef<[u8]>) -> bool {
        matches!(self.verdict(prefix), Ok(GrammarVerdict::Whole | GrammarVerdict::Beginning))
    }

    /// What a text is to the grammar, in a spelling that an answer could have.
    ///
    /// # Errors
    /// When a limit is reached before that is known: few texts of expressions that count what they repeat.
    pub fn verdict(&self, text: impl AsRef<[u8]>) -> Result<GrammarVerdict> {
        let judge = match self.judge() {
            Err(GrammarError::Unsatisfiable(_)) => return Ok(GrammarVerdict::Neither),
            judge => judge?,
        };
        let mut matcher = GrammarMatcher::new(&judge, &Vocabulary::bytes()?);
        // The byte 0xFF marks what is no text.
        let legal = |&byte: &u8| byte != 0xFF && matcher.accept(u32::from(byte)).is_ok();
        let verdict = match text.as_ref().iter().all(legal) {
            false => GrammarVerdict::Neither,
            true if matcher.is_accepting() => GrammarVerdict::Whole,
            true => GrammarVerdict::Beginning,
        };
        matcher.failed().map_or(Ok(verdict), Err)
    }

    /// The grammar beside an answer of tokens of `vocabulary`; compiled once, then taken from the vocabulary's cache.
    ///
    /// # Errors
    /// When no text satisfies the grammar, when it names tokens that the vocabulary lacks, or a limit is reached.
    pub fn matcher(&self, vocabulary: &Vocabulary) -> Result<GrammarMatcher> {
        if let Some(Err(e)) = self.0.judge.get() {
            return Err(e.clone());
        }
        let cache = || vocabulary.cache().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = cache().get(&self.0.source, &self.0.lowered) {
            return Ok(GrammarMatcher::new(&compiled, vocabulary));
        }
        let read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner).take();
        let compiled = Arc::new(compile(&self.0.lowered, read, vocabulary)?);
        cache().insert(&self.0.source, self.0.lowered.clone(), compiled.clone());
        Ok(GrammarMatcher::new(&compiled, vocabulary))
    }

    /// What was left out (`lenient`), and formats that are not known.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// What kind of source it was made from: `json`, `json_schema`, `regex`, `choice`, `gbnf`, `lark` or
    /// `structural_tag`.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// The text it was made from.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether any text at all satisfies it, as far as the compiler sees.
    pub fn is_satisfiable(&self) -> bool {
        self.judge().is_ok()
    }
}

impl PartialEq for Grammar {
    fn eq(&self, other: &Grammar) -> bool {
        let key = |g: &Grammar| (g.0.kind, g.0.lowered.clone());
        self.0.source == other.0.source && key(self) == key(other)
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("kind", &self.0.kind).field("source", &self.0.source).finish()
    }
}

/// JSON text; `Display` of a value takes three times as long.
fn text_of(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn fits(what: &str, bytes: usize) -> Result<()> {
    let limit = limits::SOURCE_BYTES;
    let too_large =
        || GrammarError::too_large(format!("a {what} of {bytes} bytes"), limit, "make it smaller");
    (bytes <= limit).then_some(()).ok_or_else(too_large)
}

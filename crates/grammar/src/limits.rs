//! Limits, each with its reason. They are counts, never clocks: a grammar that compiles on one machine compiles on
//! all, alone and under load.

use llguidance::api::ParserLimits;

/// Bytes of a source. Real schemas and grammars stay below 1 MB.
pub(crate) const SOURCE_BYTES: usize = 4 << 20;
/// Strings of a choice.
pub(crate) const CHOICES: usize = 10_000;
/// Bytes of all strings of a choice together.
pub(crate) const CHOICE_BYTES: usize = 1 << 20;
/// Nesting of groups and brackets: compilers recurse over them.
pub(crate) const NESTING: usize = 1_000;
/// Rules of a grammar: they are looked through recursively.
pub(crate) const RULES: usize = 10_000;
/// Terminals of a grammar with recursion: the library counts symbols in 16 bits.
pub(crate) const TERMINALS: usize = 20_000;
/// Nesting of a schema, references followed; the compiler recurses over it.
pub(crate) const SCHEMA_DEPTH: usize = 512;
/// The same along references, which the compiler follows as it meets them.
pub(crate) const REFERENCE_DEPTH: usize = 4_000;
/// Subschemas of a schema after references are resolved. FHIR, the largest in use, has 12,000.
pub(crate) const SUBSCHEMAS: usize = 40_000;
/// Members of an object that may be left out, and branches of `anyOf` and `oneOf`: a lexer that may meet `n` of them at
/// one place takes time in `n * n`, which is what is counted. Alone at one place, 2,000 take half a second.
pub(crate) const ALTERNATIVES: usize = 2_000 * 2_000;
/// Values of one `enum`.
pub(crate) const ENUM_VALUES: usize = 10_000;
/// Largest count in a repetition (`{m,n}`, `maxLength`, `maxItems`).
pub(crate) const REPETITION: u64 = 1_000_000;
/// Nesting up to which a source is read and compiled on the caller's stack: a megabyte is enough without optimization.
pub(crate) const SHALLOW: usize = 64;
/// Stack of the thread that reads and compiles: both recurse over the source. Only what is touched costs memory.
pub(crate) const STACK: usize = 256 << 20;
/// Compiled grammars that a vocabulary keeps; each use looks at all of them.
pub(crate) const CACHED_GRAMMARS: usize = 256;
/// Bytes of the compiled grammars that a vocabulary keeps.
pub(crate) const CACHED_BYTES: usize = 64 << 20;
/// Bytes of rules and symbols for each byte of a lowered source, at most: a rule has four words for what takes a few
/// bytes there.
pub(crate) const BYTES_OF_SOURCE: usize = 24;

/// Limits of the library: of the compilation, and of one mask.
pub(crate) fn parser() -> ParserLimits {
    ParserLimits {
        // A state takes 1 to 2 kB: 100 MB at most.
        max_lexer_states: 50_000,
        // Messages would carry the whole grammar and the text of the answer.
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

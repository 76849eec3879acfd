//! Expressions that schemas share, parsed once for the process.

use std::collections::HashMap;
use std::sync::OnceLock;

use llguidance::api::SkipSpec;
use llguidance::derivre::{ExprRef, JsonQuoteOptions, RegexAst};
use llguidance::earley::lexerspec::LexerSpec;
use llguidance::regex_to_lark;

use crate::schema::{ESCAPES, WHITE_SPACE, patterns_of_formats};

/// A lexer that has white space only, and the expressions that lexemes are made of.
pub(super) struct PreparedLexemes {
    pub spec: LexerSpec,
    pub integer: ExprRef,
    pub number: ExprRef,
    /// Any string, in quotes.
    pub string: ExprRef,
    /// A character, as strings of a pattern have it.
    pub character: ExprRef,
    /// The same as JSON writes it.
    pub written: ExprRef,
    /// The rest of any name after its quote.
    pub rest_of_name: ExprRef,
    /// Of patterns: those of formats.
    pub patterns: HashMap<String, ExprRef>,
}

impl PreparedLexemes {
    /// With white space between lexemes, or without.
    pub fn of(compact: bool) -> Option<&'static PreparedLexemes> {
        static PREPARED: [OnceLock<Option<PreparedLexemes>>; 2] = [OnceLock::new(), OnceLock::new()];
        PREPARED[usize::from(compact)].get_or_init(|| Self::make(compact)).as_ref()
    }

    fn make(compact: bool) -> Option<PreparedLexemes> {
        let mut spec = LexerSpec::new().ok()?;
        let space = if compact { RegexAst::NoMatch } else { RegexAst::Regex(WHITE_SPACE.to_owned()) };
        spec.setup_lexeme_class_with_skip(SkipSpec::once(space)).ok()?;
        let expressions = &mut spec.regex_builder;
        let mut parse = |text: &str| expressions.mk_regex(text).ok();
        let integer = parse("-?(0|[1-9][0-9]*)")?;
        let number = parse("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")?;
        let texts = parse("(?s:.*)")?;
        let character = parse("(?s:.)")?;
        let rest_of_name = parse("([^\"\\\\\\x00-\\x1F\\x7F]|\\\\[nrbtf\\\\\"])*\"")?;
        let written = expressions.mk(&quoted(RegexAst::ExprRef(character), true)).ok()?;
        let string = expressions.mk(&quoted(RegexAst::ExprRef(texts), false)).ok()?;
        let mut patterns = HashMap::new();
        for pattern in patterns_of_formats() {
            let expression = expressions.mk(&searched(&pattern)).ok()?;
            expressions.mk(&quoted(RegexAst::ExprRef(expression), false)).ok()?;
            patterns.insert(pattern, expression);
        }
        Some(PreparedLexemes { spec, integer, number, string, character, written, rest_of_name, patterns })
    }
}

/// A pattern of a normalized schema.
pub(super) fn searched(pattern: &str) -> RegexAst {
    RegexAst::SearchRegex(regex_to_lark(pattern, "dw"))
}

/// What JSON writes for the texts of `of`; without quotes where they are `bare`.
pub(super) fn quoted(of: RegexAst, bare: bool) -> RegexAst {
    let options = JsonQuoteOptions { allowed_escapes: ESCAPES.to_owned(), raw_mode: bare };
    RegexAst::JsonQuote(Box::new(of), options)
}

//! What can be wrong with a grammar, or with a token under it.

/// An error of this crate. Each message names the place in the grammar and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// A keyword or construct that is right but cannot be enforced. Nothing is ever ignored silently.
    #[error("{keyword} at {}: {why}", place(path))]
    Refused {
        /// The keyword or construct, as the source writes it.
        keyword: String,
        /// JSON pointer of the schema that holds it; empty for the root.
        path: String,
        /// Why, and what to do.
        why: String,
    },
    /// A JSON schema that is none.
    #[error("not a JSON schema: at {}: {why}", place(path))]
    Schema {
        /// JSON pointer of the schema that is wrong.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A text that is no grammar of its kind.
    #[error("{what}: line {line}, column {column}: {why}")]
    Syntax {
        /// The kind of grammar.
        what: &'static str,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// Something in the source has no sense at all.
    #[error("{what}: {why}")]
    Broken {
        /// The kind of grammar.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A limit was reached: in the source, while compiling, or while masks are made.
    #[error("{what} is beyond the limit of {limit}: {hint}")]
    TooLarge {
        /// What was counted.
        what: String,
        /// The limit.
        limit: usize,
        /// What to change.
        hint: String,
    },
    /// No text at all satisfies the grammar.
    #[error("no text satisfies this grammar: {0}")]
    Unsatisfiable(String),
    /// The tokenizer cannot be used with grammars.
    #[error("{0}")]
    Tokenizer(String),
    /// A token that the grammar does not allow here.
    #[error("token {token} is not allowed by the grammar after {after:?}")]
    Illegal {
        /// Its id.
        token: u32,
        /// The last characters of the text before it.
        after: String,
    },
    /// Only characters may come that the vocabulary has no tokens for; the request must end.
    #[error(
        "after {after:?} the grammar asks for a character that the model's vocabulary cannot write: it has no tokens for it"
    )]
    Unwritable {
        /// The last characters of the text.
        after: String,
    },
    /// The text began as the grammar allows, and nothing may follow that ends well: a rule of it can never be fulfilled,
    /// or its lexer is greedier than its rules. The request must end.
    #[error(
        "after {after:?} the grammar has no way on: no text that begins so satisfies it; mend the rule that is reached there"
    )]
    DeadEnd {
        /// The last characters of the text.
        after: String,
    },
    /// The library failed; the request must end, for its text can no longer be constrained.
    #[error("the grammar failed after {after:?}: {why}")]
    Failed {
        /// The last characters of the text.
        after: String,
        /// What the library said.
        why: String,
    },
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, GrammarError>;

/// A JSON pointer as messages name it.
pub(crate) fn place(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}

impl GrammarError {
    /// Of a model that takes token ids only.
    pub fn no_tokenizer() -> Self {
        GrammarError::Tokenizer(
            "this model has no tokenizer: grammars need one, since they constrain text".into(),
        )
    }

    /// True for what is right but cannot be enforced.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, GrammarError::Refused { .. })
    }

    /// True for what went wrong while an answer grew.
    pub fn is_failure(&self) -> bool {
        matches!(self, GrammarError::Failed { .. } | GrammarError::Unwritable { .. })
    }

    pub(crate) fn refused(
        keyword: impl Into<String>,
        path: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        GrammarError::Refused { keyword: keyword.into(), path: path.into(), why: why.into() }
    }

    pub(crate) fn schema(path: impl Into<String>, why: impl Into<String>) -> Self {
        GrammarError::Schema { path: path.into(), why: why.into() }
    }

    pub(crate) fn too_large(what: impl Into<String>, limit: usize, hint: impl Into<String>) -> Self {
        GrammarError::TooLarge { what: what.into(), limit, hint: hint.into() }
    }

    pub(crate) fn broken(what: &'static str, why: impl Into<String>) -> Self {
        GrammarError::Broken { what, why: why.into() }
    }
}

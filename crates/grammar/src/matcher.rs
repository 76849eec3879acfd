//! A grammar at one place of one text: which tokens may come, what happens when one does.

use llguidance::{Matcher as Library, api::StopReason};

use crate::cache::Compiled;
use crate::error::{GrammarError, Result};
use crate::vocab::Vocabulary;

/// Characters of the text that a message shows.
const SHOWN: usize = 40;

/// Why nothing but an end token is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The text is whole, and nothing may follow.
    Complete,
    /// An end token was accepted.
    Ended,
    /// The library failed or a limit was reached; what it said.
    Failed(String),
}

/// A grammar beside one answer. `Send`; a copy ([`GrammarMatcher::fork`]) goes its own way.
///
/// ```text
/// loop { matcher.mask(&mut words)?; let token = sample(logits, &words); matcher.accept(token)?; }
/// ```
pub struct GrammarMatcher {
    library: Library,
    vocabulary: Vocabulary,
    /// Accepted so far.
    tokens: Vec<u32>,
    /// The last token was an end token.
    ended: bool,
}

impl GrammarMatcher {
    pub(crate) fn new(compiled: &Compiled, vocabulary: &Vocabulary) -> GrammarMatcher {
        let library = compiled.library();
        GrammarMatcher { library, vocabulary: vocabulary.clone(), tokens: Vec::new(), ended: false }
    }

    /// Writes which tokens may come next into `mask`: one bit for each, the lowest first. Words beyond the
    /// vocabulary are zero.
    ///
    /// # Errors
    /// When no token may come, or a limit was reached: the request must end, never go on unconstrained.
    ///
    /// # Panics
    /// When `mask` is shorter than [`Vocabulary::mask_words`].
    pub fn mask(&mut self, mask: &mut [u32]) -> Result<()> {
        let words = self.vocabulary.mask_words();
        assert!(mask.len() >= words, "a mask has {words} words, the buffer only {}", mask.len());
        mask.fill(0);
        if self.stopped().is_some_and(|stop| !matches!(stop, Stop::Failed(_))) {
            self.vocabulary.end_tokens().iter().for_each(|&id| mask[id as usize / 32] |= 1 << (id % 32));
            return Ok(());
        }
        let allowed = self.library.compute_mask().map_err(|e| self.dead_end(&e.to_string()))?;
        mask[..words].copy_from_slice(&allowed.as_slice()[..words]);
        Ok(())
    }

    /// Takes `token` as the next one.
    ///
    /// # Errors
    /// When the grammar does not allow it here (nothing is changed then), or the library fails.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if !self.allows(token) {
            return Err(GrammarError::Illegal { token, after: self.tail() });
        }
        if self.is_end(token) {
            self.ended = true;
        } else {
            self.library.consume_token(token).map_err(|e| self.failure(&e.to_string()))?;
        }
        self.tokens.push(token);
        Ok(())
    }

    /// Whether the text may go on with `token`. Where text is forced, its canonical spelling is the only one in the
    /// mask, but any spelling is allowed here.
    pub fn allows(&mut self, token: u32) -> bool {
        self.legal(&[token]) == 1
    }

    /// How many of `tokens`, say of a draft, may come in turn. Nothing is accepted.
    pub fn legal(&mut self, tokens: &[u32]) -> usize {
        if self.ended {
            return 0;
        }
        let text = tokens.iter().position(|&t| self.is_end(t)).unwrap_or(tokens.len());
        let inside =
            tokens[..text].iter().position(|&t| t as usize >= self.vocabulary.size()).unwrap_or(text);
        let legal = if self.library.is_stopped() {
            0
        } else {
            self.library.validate_tokens(&tokens[..inside]).unwrap_or(0)
        };
        // Rare: an end token, legal only where the text before it may end.
        let ends = text < tokens.len() && legal == text;
        legal + usize::from(ends && self.may_end_after(&tokens[..text]))
    }

    fn may_end_after(&mut self, tokens: &[u32]) -> bool {
        if tokens.is_empty() {
            return self.is_accepting();
        }
        let mut ahead = self.fork();
        tokens.iter().all(|&token| ahead.accept(token).is_ok()) && ahead.is_accepting()
    }

    /// The tokens that must come next in any case: they need no sampling. Not yet accepted. Empty where a text could
    /// be cut otherwise further on, and where the tokenizer cannot spell all bytes ([`Vocabulary::forces_tokens`]).
    pub fn forced(&mut self) -> Vec<u32> {
        if self.ended || self.library.is_stopped() { Vec::new() } else { self.library.compute_ff_tokens() }
    }

    /// Takes back the last `count` tokens.
    ///
    /// # Errors
    /// When fewer were accepted, or the library failed before.
    pub fn rollback(&mut self, count: usize) -> Result<()> {
        let Some(left) = self.tokens.len().checked_sub(count) else {
            let why =
                format!("{count} tokens cannot be taken back, only {} were accepted", self.tokens.len());
            return Err(GrammarError::broken("rollback", why));
        };
        let ended = usize::from(self.ended && count > 0);
        self.ended &= count == 0;
        self.library.rollback(count - ended).map_err(|e| self.failure(&e.to_string()))?;
        self.tokens.truncate(left);
        Ok(())
    }

    /// Whether the text so far satisfies the grammar as it is.
    pub fn is_accepting(&mut self) -> bool {
        self.ended || (!self.library.is_error() && self.library.is_accepting().unwrap_or(false))
    }

    /// Why no more text may come; None while it may.
    pub fn stopped(&self) -> Option<Stop> {
        if self.ended {
            return Some(Stop::Ended);
        }
        match self.library.stop_reason() {
            StopReason::NotStopped => None,
            StopReason::NoExtension | StopReason::NoExtensionBias if !self.library.is_error() => {
                Some(Stop::Complete)
            }
            reason => Some(Stop::Failed(self.library.get_error().unwrap_or_else(|| reason.to_string()))),
        }
    }

    /// Why the library can say no more of the text; None where it can.
    pub(crate) fn failed(&self) -> Option<GrammarError> {
        let failed = self.library.is_error();
        failed.then(|| self.failure(&self.library.get_error().unwrap_or_default()))
    }

    /// A copy that goes its own way.
    pub fn fork(&self) -> GrammarMatcher {
        GrammarMatcher {
            library: self.library.deep_clone(),
            vocabulary: self.vocabulary.clone(),
            tokens: self.tokens.clone(),
            ended: self.ended,
        }
    }

    /// Number of tokens accepted so far.
    pub fn accepted(&self) -> usize {
        self.tokens.len()
    }

    /// The vocabulary that tokens are of.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn is_end(&self, token: u32) -> bool {
        self.vocabulary.end_tokens().contains(&token)
    }

    /// The last characters of the text so far, as messages show them.
    pub fn tail(&self) -> String {
        let from = self.tokens.len().saturating_sub(SHOWN);
        let text = self.vocabulary.text(&self.tokens[from..]);
        let skipped = text.chars().count().saturating_sub(SHOWN);
        text.chars().skip(skipped).collect()
    }

    /// The library looks at what the grammar allows byte by byte, not whether a whole text can go on from there: a rule
    /// that nothing fulfils is found when it is reached, and so is a place where nothing but bytes is legal that the
    /// vocabulary lacks.
    fn dead_end(&self, message: &str) -> GrammarError {
        let after = self.tail();
        match (message.contains(&StopReason::NoExtensionBias.to_string()), self.vocabulary.writes_all()) {
            (true, true) => GrammarError::DeadEnd { after },
            (true, false) => GrammarError::Unwritable { after },
            (false, _) => self.failure(message),
        }
    }

    fn failure(&self, message: &str) -> GrammarError {
        let why = message.split("\n<").next().unwrap_or(message).trim().to_owned();
        let why = if why.is_empty() { "no token may come here".to_owned() } else { why };
        GrammarError::Failed { after: self.tail(), why }
    }
}

impl Clone for GrammarMatcher {
    fn clone(&self) -> Self {
        self.fork()
    }
}

impl std::fmt::Debug for GrammarMatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrammarMatcher")
            .field("after", &self.tail())
            .field("stopped", &self.stopped())
            .finish()
    }
}

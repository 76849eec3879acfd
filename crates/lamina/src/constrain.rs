//! Grammars of requests: the model's vocabulary, made ready once, and what each answer must satisfy.

use crate::{Result, generate::GenerateOptions, model::Model};
use lamina_engine::{Constraint, EngineError};
use lamina_grammar::{Grammar, GrammarError, GrammarMatcher, Vocabulary};

impl Model {
    /// The vocabulary for grammars. It is made ready at the first use and keeps compiled grammars.
    ///
    /// # Errors
    /// When the model has no tokenizer, or one that cannot encode.
    pub fn vocabulary(&self) -> Result<&Vocabulary> {
        self.room_for_vocabulary()?;
        Ok(self.grammar_vocabulary().map_err(EngineError::from)?)
    }

    /// `grammar` beside an answer of this model, for those who sample themselves.
    ///
    /// # Errors
    /// As for [`Model::vocabulary`]; also when no text of this vocabulary satisfies the grammar, or a limit is reached.
    pub fn matcher(&self, grammar: &Grammar) -> Result<GrammarMatcher> {
        self.room_for_vocabulary()?;
        Ok(self.grammar_matcher(grammar).map_err(EngineError::from)?)
    }

    /// Refuses to make the vocabulary ready where there is no memory for it: a failure of that would stay.
    fn room_for_vocabulary(&self) -> std::result::Result<(), EngineError> {
        /// Bytes for each token while its tree is made; it keeps about 300.
        const EACH: usize = 600;
        let Some(tokenizer) = self.tokenizer().filter(|_| self.once_vocabulary().get().is_none()) else {
            return Ok(());
        };
        match lamina_reserve::affordable(EACH * tokenizer.vocab_size()) {
            true => Ok(()),
            false => Err(EngineError::OutOfMemory(
                "there is no memory to make the vocabulary ready for grammars: end other programs".into(),
            )),
        }
    }

    fn grammar_vocabulary(&self) -> std::result::Result<&Vocabulary, GrammarError> {
        let make = || {
            let Some(tokenizer) = self.tokenizer() else { return Err(GrammarError::no_tokenizer()) };
            // Some models end answers with tokens that their tokenizer does not know.
            let known = |id: &u32| (*id as usize) < tokenizer.vocab_size();
            let ends: Vec<u32> = self.end_tokens().iter().copied().filter(known).collect();
            Vocabulary::new(tokenizer, &ends)
        };
        self.once_vocabulary().get_or_init(make).as_ref().map_err(Clone::clone)
    }

    fn grammar_matcher(&self, grammar: &Grammar) -> std::result::Result<GrammarMatcher, GrammarError> {
        grammar.matcher(self.grammar_vocabulary()?)
    }

    /// What each answer to a request must satisfy.
    pub(crate) fn constraint(
        &self,
        options: &GenerateOptions,
    ) -> std::result::Result<Option<Constraint>, EngineError> {
        if options.grammar.is_some() {
            self.room_for_vocabulary()?;
        }
        let matcher = options.grammar.as_ref().map(|grammar| self.grammar_matcher(grammar)).transpose()?;
        let Some(boundary) = &options.reasoning else { return Ok(matcher.map(Constraint::grammar)) };
        let tokenizer = self.tokenizer().ok_or_else(GrammarError::no_tokenizer)?;
        Ok(Some(Constraint::reasoning(boundary.clone(), tokenizer, matcher)))
    }
}

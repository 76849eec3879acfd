//! What an answer's tokens must satisfy: a grammar, reasoning before it, and how long that may take.
//!
//! All of it depends on the answer's own tokens and nothing else: which tokens are legal, which are forced, and when the
//! budget is spent. So an answer is the same alone, batched, preempted, and with drafts.

use crate::error::{EngineError, Result};
use lamina_grammar::{GrammarMatcher, Stop};
use lamina_tokenize::Tokenizer;

/// Marks around a model's reasoning, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary {
    /// Opens the reasoning. Where a grammar follows, in these tokens and no others; an answer that begins as the mark
    /// does and goes on otherwise is the grammar's.
    pub open: Vec<u32>,
    /// Closes it, in whatever tokens its text is spelled.
    pub close: Vec<u32>,
    /// The prompt ends inside the reasoning.
    pub inside: bool,
    /// Tokens that the reasoning may have; none is no limit.
    pub budget: Option<usize>,
    /// Tokens that are forced when the budget is spent; they end with those of `close`.
    pub ending: Vec<u32>,
}

/// What the tokens of one answer must satisfy. A clone goes its own way.
#[derive(Clone, Debug)]
pub enum Constraint {
    /// A grammar from the first token on.
    Grammar(Box<GrammarMatcher>),
    /// Reasoning first; what comes after it satisfies `inner`, or is free.
    Budget {
        /// Of what follows the reasoning.
        inner: Option<Box<GrammarMatcher>>,
        /// Where the reasoning ends, and how long it may be.
        reasoning: Box<ReasoningState>,
    },
}

/// An answer's way through its reasoning.
#[derive(Clone, Debug)]
pub struct ReasoningState {
    boundary: Boundary,
    tokenizer: Tokenizer,
    /// A grammar follows.
    constrained: bool,
    /// Texts of the marks.
    open: Vec<u8>,
    close: Vec<u8>,
    /// Accepted so far, the answer's after the reasoning included.
    tokens: Vec<u32>,
    /// The phases so far; the last one is the present one.
    phases: Vec<PhaseStart>,
}

/// The beginning of a phase.
#[derive(Clone, Copy, Debug)]
struct PhaseStart {
    phase: ReasoningPhase,
    /// Its first token.
    from: usize,
    /// Tokens that had been accepted when it was known.
    seen: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasoningPhase {
    /// Nothing was said yet, or not enough to tell.
    Before,
    /// Between the marks.
    Inside,
    /// The budget is spent: the ending is forced.
    Closing,
    /// Behind the closing mark, or in an answer that never opened one.
    After,
}

/// Which tokens may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Legal {
    /// Any.
    All,
    /// Those of the mask.
    Masked,
}

impl Constraint {
    /// A grammar from the first token on.
    pub fn grammar(matcher: GrammarMatcher) -> Constraint {
        Constraint::Grammar(Box::new(matcher))
    }

    /// Reasoning within `boundary`, then a grammar or free text.
    pub fn reasoning(boundary: Boundary, tokenizer: &Tokenizer, inner: Option<GrammarMatcher>) -> Constraint {
        let reasoning = Box::new(ReasoningState::new(boundary, tokenizer, inner.is_some()));
        Constraint::Budget { inner: inner.map(Box::new), reasoning }
    }

    /// Tokens that must come next in any case. Not yet accepted.
    pub(crate) fn forced(&mut self) -> Vec<u32> {
        match self {
            Constraint::Grammar(grammar) => grammar.forced(),
            Constraint::Budget { inner, reasoning } => match (reasoning.phase(), inner) {
                (ReasoningPhase::Closing, _) => reasoning.ending().to_vec(),
                (ReasoningPhase::After, Some(grammar)) => grammar.forced(),
                _ => vec![],
            },
        }
    }

    /// Which tokens may come next; `mask` gets a bit for each where not all may. End tokens that are not among `ends`
    /// never may: the request has them as text, which the grammar does not know.
    ///
    /// # Errors
    /// When none may, or the grammar reached a limit.
    pub(crate) fn mask(&mut self, mask: &mut Vec<u32>, ends: &[u32]) -> Result<Legal> {
        match self {
            Constraint::Grammar(grammar) => fill(grammar, mask, ends),
            Constraint::Budget { inner, reasoning } => match (reasoning.phase(), inner) {
                (ReasoningPhase::After, Some(grammar)) => fill(grammar, mask, ends),
                // What the grammar asks for is still missing: the answer cannot end.
                (ReasoningPhase::Inside | ReasoningPhase::Closing, Some(grammar)) => {
                    all_but_ends(grammar, mask);
                    Ok(Legal::Masked)
                }
                (ReasoningPhase::Before, Some(grammar)) => {
                    // What may be the beginning of the mark is not yet the grammar's.
                    let mut ahead = grammar.fork();
                    let begins = reasoning.tokens.iter().all(|&token| ahead.accept(token).is_ok());
                    if !begins || fill(&mut ahead, mask, ends).is_err() {
                        mask.clear();
                        mask.resize(grammar.vocabulary().mask_words(), 0);
                    }
                    reasoning.opening().into_iter().for_each(|id| allow(mask, id));
                    Ok(Legal::Masked)
                }
                (_, None) => Ok(Legal::All),
            },
        }
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// When it is not legal, or the grammar reached a limit.
    pub(crate) fn accept(&mut self, token: u32) -> Result<()> {
        match self {
            Constraint::Grammar(grammar) => grammar.accept(token).map_err(EngineError::from),
            Constraint::Budget { inner, reasoning } => {
                let fresh = reasoning.accept(token);
                let Some(grammar) = inner else { return Ok(()) };
                fresh.iter().try_for_each(|&token| grammar.accept(token).map_err(EngineError::from))
            }
        }
    }

    /// How many of `tokens`, say of a draft, may come in turn in an answer that `ends` end. Nothing is accepted.
    pub fn legal(&mut self, tokens: &[u32], ends: &[u32]) -> usize {
        if let Constraint::Grammar(grammar) = self {
            return grammar.legal(tokens);
        }
        let mut ahead = self.clone();
        let mut mask = vec![];
        let mut may_come = |token: u32| {
            let forced = ahead.forced();
            let legal = match forced.first() {
                Some(&first) => first == token,
                None => match ahead.mask(&mut mask, ends) {
                    Ok(Legal::All) => true,
                    Ok(Legal::Masked) => has(&mask, token),
                    Err(_) => false,
                },
            };
            legal && ahead.accept(token).is_ok()
        };
        tokens.iter().take_while(|&&token| may_come(token)).count()
    }

    /// Takes back the last `count` tokens.
    ///
    /// # Errors
    /// When fewer were accepted, or the grammar failed before.
    pub fn rollback(&mut self, count: usize) -> Result<()> {
        match self {
            Constraint::Grammar(grammar) => grammar.rollback(count)?,
            Constraint::Budget { inner, reasoning } => {
                let of_grammar = reasoning.rollback(count);
                if let Some(grammar) = inner {
                    grammar.rollback(of_grammar)?;
                }
            }
        }
        Ok(())
    }

    /// True when nothing may follow: the answer has ended.
    pub(crate) fn is_over(&self) -> bool {
        let grammar = match self {
            Constraint::Grammar(grammar) => grammar,
            Constraint::Budget { inner: Some(grammar), reasoning }
                if reasoning.phase() == ReasoningPhase::After =>
            {
                grammar
            }
            Constraint::Budget { .. } => return false,
        };
        matches!(grammar.stopped(), Some(Stop::Complete | Stop::Ended))
    }

    /// Whether the answer satisfies the grammar as it is; none without a grammar. Until then it is a beginning of one
    /// that does.
    pub(crate) fn is_complete(&mut self) -> Option<bool> {
        match self {
            Constraint::Grammar(grammar) => Some(grammar.is_accepting()),
            Constraint::Budget { inner: None, .. } => None,
            Constraint::Budget { inner: Some(grammar), reasoning } => {
                Some(reasoning.phase() == ReasoningPhase::After && grammar.is_accepting())
            }
        }
    }

    /// The end of the text so far, for messages.
    pub(crate) fn tail(&self) -> String {
        match self {
            Constraint::Grammar(grammar) => grammar.tail(),
            Constraint::Budget { inner, .. } => {
                inner.as_ref().map(|grammar| grammar.tail()).unwrap_or_default()
            }
        }
    }
}

fn allow(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word |= 1 << (token % 32);
    }
}

fn has(mask: &[u32], token: u32) -> bool {
    mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}

fn forbid(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word &= !(1 << (token % 32));
    }
}

fn fill(grammar: &mut GrammarMatcher, mask: &mut Vec<u32>, ends: &[u32]) -> Result<Legal> {
    mask.resize(grammar.vocabulary().mask_words(), 0);
    grammar.mask(mask)?;
    let others = grammar.vocabulary().end_tokens().iter().filter(|id| !ends.contains(id));
    others.for_each(|&id| forbid(mask, id));
    Ok(Legal::Masked)
}

fn all_but_ends(grammar: &GrammarMatcher, mask: &mut Vec<u32>) {
    mask.clear();
    let vocabulary = grammar.vocabulary();
    mask.resize(vocabulary.mask_words(), u32::MAX);
    let beyond = mask.len() * 32 - vocabulary.size();
    if let Some(last) = mask.last_mut() {
        *last >>= beyond;
    }
    vocabulary.end_tokens().iter().for_each(|&id| forbid(mask, id));
}

impl ReasoningState {
    fn new(boundary: Boundary, tokenizer: &Tokenizer, constrained: bool) -> ReasoningState {
        let text = |ids: &[u32]| -> Vec<u8> {
            ids.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap_or_default()).copied().collect()
        };
        let phase = match (boundary.inside, boundary.open.is_empty()) {
            (true, _) => ReasoningPhase::Inside,
            (false, false) => ReasoningPhase::Before,
            (false, true) => ReasoningPhase::After,
        };
        let (open, close) = (text(&boundary.open), text(&boundary.close));
        let phases = vec![PhaseStart { phase, from: 0, seen: 0 }];
        let tokenizer = tokenizer.clone();
        let mut reasoning =
            ReasoningState { boundary, tokenizer, constrained, open, close, tokens: vec![], phases };
        reasoning.look_at_budget();
        reasoning
    }

    fn now(&self) -> PhaseStart {
        self.phases[self.phases.len() - 1]
    }

    fn phase(&self) -> ReasoningPhase {
        self.now().phase
    }

    /// Tokens of the present phase.
    fn said(&self) -> &[u32] {
        &self.tokens[self.now().from..]
    }

    /// What is left of the ending that is forced.
    fn ending(&self) -> &[u32] {
        &self.boundary.ending[self.said().len().min(self.boundary.ending.len())..]
    }

    fn turn(&mut self, phase: ReasoningPhase, from: usize) {
        self.phases.push(PhaseStart { phase, from, seen: self.tokens.len() });
    }

    /// The token by which the mark goes on that may open the reasoning.
    fn opening(&self) -> Option<u32> {
        self.boundary.open.get(self.tokens.len()).copied()
    }

    /// Takes a token; those that became the answer's after the reasoning, at the end of all.
    fn accept(&mut self, token: u32) -> &[u32] {
        self.tokens.push(token);
        match self.phase() {
            ReasoningPhase::Before => match self.opens() {
                Some(true) => self.turn(ReasoningPhase::Inside, self.tokens.len()),
                // The answer began with its first token.
                Some(false) => self.turn(ReasoningPhase::After, 0),
                None => {}
            },
            ReasoningPhase::Inside if self.ends_with_close() => {
                self.turn(ReasoningPhase::After, self.tokens.len())
            }
            ReasoningPhase::Closing if self.ending().is_empty() => {
                self.turn(ReasoningPhase::After, self.tokens.len())
            }
            ReasoningPhase::After => return &self.tokens[self.tokens.len() - 1..],
            ReasoningPhase::Inside | ReasoningPhase::Closing => {}
        }
        self.look_at_budget();
        if self.phase() == ReasoningPhase::After { self.said() } else { &[] }
    }

    /// Whether the first tokens open the reasoning; none while that cannot be told.
    fn opens(&self) -> Option<bool> {
        if self.constrained {
            let open = self.boundary.open.starts_with(&self.tokens);
            return (!open || self.tokens.len() == self.boundary.open.len()).then_some(open);
        }
        let said = self.bytes(&self.tokens);
        let text = said.trim_ascii_start();
        match text.starts_with(&self.open) {
            true => Some(true),
            false if self.open.starts_with(text) => None,
            false => Some(false),
        }
    }

    /// Goes over to closing when the budget is spent.
    fn look_at_budget(&mut self) {
        let spent = self.boundary.budget.is_some_and(|budget| self.said().len() >= budget);
        if self.phase() == ReasoningPhase::Inside && spent && !self.boundary.ending.is_empty() {
            self.turn(ReasoningPhase::Closing, self.tokens.len());
        }
    }

    /// Whether the last token brought the closing mark's end. Marks may be spelled by any tokens.
    fn ends_with_close(&self) -> bool {
        let (said, mark) = (self.said(), &self.close);
        let Some((last, _)) = said.split_last().filter(|_| !mark.is_empty()) else { return false };
        let text = self.bytes(&said[said.len().saturating_sub(mark.len())..]);
        let fresh = self.bytes(&[*last]).len();
        let from = text.len().saturating_sub(fresh + mark.len() - 1);
        text[from..].windows(mark.len()).any(|part| part == mark)
    }

    fn bytes(&self, tokens: &[u32]) -> Vec<u8> {
        tokens.iter().flat_map(|&id| self.tokenizer.token_bytes(id).unwrap_or_default()).copied().collect()
    }

    /// Takes back the last `count` tokens; how many of them were the answer's after the reasoning.
    fn rollback(&mut self, count: usize) -> usize {
        let answered = if self.phase() == ReasoningPhase::After { self.said().len() } else { 0 };
        let left = self.tokens.len().saturating_sub(count);
        self.tokens.truncate(left);
        while self.phases.len() > 1 && self.now().seen > left {
            self.phases.pop();
        }
        // What may be the beginning of the mark again is not the grammar's.
        if self.phase() == ReasoningPhase::After { count } else { answered }
    }
}

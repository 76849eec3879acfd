//! Random texts that a grammar allows.

use lamina_grammar::{Grammar, GrammarMatcher};

use super::vocabulary::Words;

/// Texts after which free text is over, tried now and then: random letters would hardly spell them.
const TURNS: &[&str] = &[
    "\"",
    "'",
    "<|\"|>",
    "</parameter>",
    "\n</parameter>",
    "</param>",
    "</arg_value>",
    "</arg_value:opensource>",
    "</｜DSML｜parameter>",
    "<|close|>argument<|sep|>",
    "]<]minimax[>[</city>",
    "</steptml:parameter>",
    "</atem:parameter>",
    "<|end|>",
    "<tool_call>",
    "<tool_calls>",
    "<tool_calls:opensource>",
    "[TOOL_CALLS]",
    "<|channel|>commentary",
    "<|channel|>final<|message|>",
    "<|tool_calls_section_begin|>",
    "<|open|>tools<|sep|>",
    "<｜tool▁calls▁begin｜>",
    "<｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>",
    "<|tool_call|>",
    "functools",
    "<TOOLCALL>",
    "<|START_ACTION|>",
    "Action: ```json",
    "[get_weather(",
    "{\"name\": \"",
    "<|python_tag|>",
    "<|tool_call_start|>",
    "<|action_start|><|plugin|>",
    "<|tool_call>",
    "<|function_call|>",
    "<function=",
    "<function name=\"",
    "<|tools_prefix|>",
    "<minimax:tool_call>",
    "<seed:tool_call>",
    "<|tool_calls|>",
    "<｜tool_calls_begin｜>",
    "]<]minimax[>[<tool_call>",
    " to=functions<|message|><atem:function_calls>",
    ">>>",
];

/// More tokens than this may come only in free text.
const MANY: usize = 120;
/// Tokens of a walk at most.
const LONGEST: usize = 900;

/// A way through a grammar.
pub struct Walk<'a> {
    matcher: GrammarMatcher,
    words: &'a Words,
    tokens: Vec<u32>,
    state: u64,
}

impl<'a> Walk<'a> {
    pub fn new(grammar: &Grammar, words: &'a Words, seed: u64) -> Walk<'a> {
        let matcher = grammar.matcher(&words.vocabulary).expect("a matcher");
        Walk { matcher, words, tokens: vec![], state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// From 0 to below `n`.
    fn random(&mut self, n: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 20) as usize % n
    }

    /// The text, if the walk came to an end.
    pub fn text(mut self) -> Option<String> {
        while self.tokens.len() < LONGEST {
            if self.matcher.stopped().is_some() {
                return Some(self.words.text(&self.tokens));
            }
            let forced = self.matcher.forced();
            if !forced.is_empty() {
                forced.into_iter().for_each(|token| self.take(token));
                continue;
            }
            let legal = legal(&mut self.matcher, self.words);
            let ends = legal.iter().any(|id| self.words.ends().contains(id));
            let patience = if legal.len() > MANY { 12 } else { 3 };
            if ends && (legal.len() == 1 || self.random(patience) == 0) {
                return Some(self.words.text(&self.tokens));
            }
            if legal.len() > MANY && self.random(3) == 0 && self.turn() {
                continue;
            }
            let text: Vec<u32> = legal.into_iter().filter(|id| !self.words.ends().contains(id)).collect();
            let letters: Vec<u32> = text.iter().copied().filter(|&id| (65..=90).contains(&id)).collect();
            let choice =
                if text.len() > MANY && self.random(4) > 0 && !letters.is_empty() { letters } else { text };
            let token = choice[self.random(choice.len())];
            self.take(token);
        }
        None
    }

    fn take(&mut self, token: u32) {
        self.matcher.accept(token).expect("a legal token");
        self.tokens.push(token);
    }

    /// Leaves free text, if one of the texts does.
    fn turn(&mut self) -> bool {
        let from = self.random(TURNS.len());
        for i in 0..TURNS.len() {
            let tokens = self.words.tokens(TURNS[(from + i) % TURNS.len()]);
            let mut ahead = self.matcher.fork();
            if !tokens.iter().all(|&token| ahead.accept(token).is_ok()) {
                continue;
            }
            if ahead.stopped().is_some() || legal(&mut ahead, self.words).len() <= MANY {
                tokens.into_iter().for_each(|token| self.take(token));
                return true;
            }
        }
        false
    }
}

fn legal(matcher: &mut GrammarMatcher, words: &Words) -> Vec<u32> {
    let mut mask = vec![0; words.vocabulary.mask_words()];
    matcher.mask(&mut mask).expect("a mask");
    (0..words.vocabulary.size() as u32).filter(|&id| mask[id as usize / 32] >> (id % 32) & 1 == 1).collect()
}

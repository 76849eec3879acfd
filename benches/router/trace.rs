//! Conversations that share beginnings by Zipf's law, as they come to a service.

use lamina_serve::router::{PIECE, RequestNames};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Tokens of a piece of text that has a name: of four bytes each.
pub const TOKENS: usize = 32;
/// Tokens that the machine knows.
pub const VOCAB: usize = 256;
/// Prompts of as many pieces are the last ones of their conversation.
const LONGEST: usize = 400;
/// Beginnings that conversations share, each with a prompt of its own.
const SYSTEMS: usize = 300;

/// SplitMix64, and what is made of it.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn wait(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    fn log_normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let angle = std::f64::consts::TAU * self.unit();
        (mean + deviation * (-2.0 * self.unit().ln()).sqrt() * angle.cos()).exp()
    }
}

/// A request: when it comes, its prompt, and how many tokens its answer has.
pub struct Asked {
    pub at: f64,
    pub tokens: Vec<u32>,
    pub names: RequestNames,
    pub answer: usize,
}

impl Asked {
    fn new(at: f64, tokens: Vec<u32>, answer: usize) -> Asked {
        let names = RequestNames { names: names(&tokens), bytes: tokens.len() * PIECE / TOKENS };
        Asked { at, tokens, names, answer }
    }
}

/// The token that the machine chooses behind this one at this place: a prompt holds what was answered before it.
pub fn next_token(token: u32, place: usize) -> u32 {
    (Random(u64::from(token) << 32 | place as u64).next() % VOCAB as u64) as u32
}

/// A name for each whole piece, which stands for all tokens up to its end (FNV-1a of 128 bits).
fn names(tokens: &[u32]) -> Vec<u128> {
    let take = |name: u128, token: &u32| (name ^ u128::from(*token)).wrapping_mul((1 << 88) + 0x13b);
    let mut name = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let piece = |piece: &[u32]| {
        name = piece.iter().fold(name, take);
        name
    };
    tokens.chunks_exact(TOKENS).map(piece).collect()
}

/// Appends pieces that nothing else begins with.
fn put(tokens: &mut Vec<u32>, whose: u64, pieces: usize) {
    let mut random = Random(whose << 20);
    tokens.extend((0..pieces * TOKENS).map(|_| random.below(VOCAB) as u32));
}

/// A turn of a conversation that is still to come: when in microseconds, whose, its beginning, turns behind it.
type Turn = (Reverse<u64>, u64, Vec<u32>, usize);

/// As many requests, by when they come: conversations begin `rate` times a second, and a turn follows the answer before it and
/// some thought. `alone`: no two prompts begin alike.
pub fn trace(count: usize, rate: f64, alone: bool) -> Vec<Asked> {
    let mut random = Random(1);
    let lengths: Vec<usize> = (0..SYSTEMS).map(|_| 4 + random.below(87)).collect();
    let (mut turns, mut asked, mut time, mut sessions) = (BinaryHeap::<Turn>::new(), vec![], 0.0, 0_u64);
    while asked.len() < count {
        while turns.peek().is_none_or(|turn| turn.0.0 as f64 / 1e6 > time) {
            time += random.wait(1.0 / rate);
            let system = zipf(&mut random);
            sessions += 1;
            let mut tokens = vec![];
            let whose = if alone { (1 << 40) + sessions } else { system as u64 };
            put(&mut tokens, whose, lengths[system]);
            let more = if alone { 0 } else { random.below(11) };
            turns.push((Reverse((time * 1e6) as u64), sessions, tokens, more));
        }
        let Some((Reverse(at), session, mut tokens, left)) = turns.pop() else { break };
        let question = (random.log_normal(1.3, 1.0) as usize).max(1);
        let answer = random.log_normal(5.0, 0.8).max(16.0) as usize;
        put(&mut tokens, (1 << 41) + (session << 4) + left as u64, question);
        asked.push(Asked::new(at as f64 / 1e6, tokens.clone(), answer));
        if left > 0 && tokens.len() < LONGEST * TOKENS {
            let last = |tokens: &[u32]| next_token(tokens[tokens.len() - 1], tokens.len() - 1);
            (0..answer).for_each(|_| tokens.push(last(&tokens)));
            let then = at as f64 / 1e6 + answer as f64 * 0.04 + random.wait(25.0);
            turns.push((Reverse((then * 1e6) as u64), session, tokens, left - 1));
        }
    }
    asked.sort_by(|a, b| a.at.total_cmp(&b.at));
    asked
}

/// A number below [`SYSTEMS`], the first ones more often.
fn zipf(random: &mut Random) -> usize {
    let weight = |place: usize| 1.0 / (place + 1) as f64;
    let mut at = random.unit() * (0..SYSTEMS).map(weight).sum::<f64>();
    let reached = |place: &usize| {
        at -= weight(*place);
        at <= 0.0
    };
    (0..SYSTEMS).find(reached).unwrap_or(0)
}

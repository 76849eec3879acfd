//! Random patterns as trees, and strings that they match or nearly match.

use lamina_fixtures::Numbers;

/// Characters of patterns and texts: those with a meaning in some dialect, line ends, and some beyond ASCII. Where
/// Python and Rust know another Unicode, or count U+001C as a space, there is nothing to compare.
const ALPHABET: &[char] = &[
    'a', 'b', 'c', 'A', 'Z', '0', '1', '9', '_', '-', ' ', '\n', '\t', '\r', '"', '\'', '\\', '/', '.', ',',
    ':', '#', '&', '~', '[', ']', '(', ')', '{', '}', '^', '$', '?', '*', '+', '|', '<', '>', '!', '=', '%',
    'é', '٣', '中', '😀', '\u{2028}',
];

/// Of texts: mostly few letters, so that parts of a pattern are mistaken for one another.
const LETTERS: &[char] = &['a', 'b', 'a', 'b', 'c', '0'];

#[derive(Debug, Clone)]
pub enum Tree {
    Text(String),
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    /// `\d`, `\D`, `\w`, `\W`, `\s` or `\S`.
    Kind(char),
    Any,
    Start,
    End,
    Sequence(Vec<Tree>),
    Choice(Vec<Tree>),
    Repeat {
        inner: Box<Tree>,
        least: u32,
        most: Option<u32>,
    },
}

/// What random trees may have.
#[derive(Clone, Copy)]
pub struct Has {
    pub kinds: bool,
    pub anchors: bool,
}

/// Random choices.
pub struct Dice(Numbers);

impl Dice {
    pub fn of(seed: &str) -> Dice {
        Dice(Numbers::of(seed))
    }

    /// From 0 to below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.0.uniform() + 1.0) / 2.0 * n as f32) as usize).min(n - 1)
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn character(&mut self) -> char {
        let from = if self.one_in(3) { ALPHABET } else { LETTERS };
        from[self.below(from.len())]
    }

    pub fn tree(&mut self, depth: usize, has: Has) -> Tree {
        let several = |dice: &mut Dice| (0..1 + dice.below(3)).map(|_| dice.tree(depth - 1, has)).collect();
        match self.below(if depth == 0 { 4 } else { 11 }) {
            0 | 1 => Tree::Text((0..1 + self.below(3)).map(|_| self.character()).collect()),
            2 => self.leaf(has),
            3 => Tree::Text(self.character().into()),
            4..=6 => Tree::Sequence(several(self)),
            7 | 8 => Tree::Choice(several(self)),
            _ => self.repeat(depth, has),
        }
    }

    fn leaf(&mut self, has: Has) -> Tree {
        match self.below(6) {
            0 if has.kinds => Tree::Kind(['d', 'D', 'w', 'W', 's', 'S'][self.below(6)]),
            1 => Tree::Any,
            2 if has.anchors => Tree::Start,
            3 if has.anchors => Tree::End,
            4 => Tree::Text(String::new()),
            _ => self.class(),
        }
    }

    fn class(&mut self) -> Tree {
        let mut range = |_| {
            let (a, b) = (self.character(), self.character());
            if self.one_in(2) { (a, a) } else { (a.min(b), a.max(b)) }
        };
        let ranges = (0..3).map(&mut range).collect::<Vec<_>>();
        Tree::Class { ranges: ranges[..1 + self.below(3)].to_vec(), negated: self.one_in(4) }
    }

    fn repeat(&mut self, depth: usize, has: Has) -> Tree {
        let inner = Box::new(self.tree(depth - 1, has));
        let least = self.below(3) as u32;
        let (least, most) = match self.below(6) {
            0 => (0, None),
            1 => (1, None),
            2 => (0, Some(1)),
            3 => (least, None),
            4 => (least, Some(least)),
            _ => (least, Some(least + self.below(3) as u32)),
        };
        Tree::Repeat { inner, least, most }
    }

    /// A string that `tree` matches, but for anchors.
    pub fn text(&mut self, tree: &Tree, out: &mut String) {
        match tree {
            Tree::Text(text) => out.push_str(text),
            Tree::Class { ranges, negated: false } => {
                let (low, high) = ranges[self.below(ranges.len())];
                out.push(if self.one_in(2) { low } else { high });
            }
            Tree::Class { .. } | Tree::Kind(_) | Tree::Any => out.push(self.character()),
            Tree::Start | Tree::End => {}
            Tree::Sequence(parts) => parts.iter().for_each(|part| self.text(part, out)),
            Tree::Choice(ways) => {
                let way = self.below(ways.len());
                self.text(&ways[way], out);
            }
            Tree::Repeat { inner, least, most } => {
                let most = most.unwrap_or(least + 2);
                let times = least + self.below((most - least + 1) as usize) as u32;
                (0..times).for_each(|_| self.text(inner, out));
            }
        }
    }

    /// `text` with one character more, less, or another.
    pub fn near(&mut self, text: &str) -> String {
        let mut near: Vec<char> = text.chars().collect();
        let at = self.below(near.len() + 1);
        match self.below(5) {
            0 | 1 if at < near.len() => drop(near.remove(at)),
            2 if at < near.len() => near[at] = self.character(),
            3 if at < near.len() => near.insert(at, near[at]),
            _ => near.insert(at, self.character()),
        }
        near.into_iter().collect()
    }
}

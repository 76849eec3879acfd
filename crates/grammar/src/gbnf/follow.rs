//! Which terminals may follow which, and which may be possible at one place.

use super::part::RulePart;

/// A set of terminals, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Set(Vec<u64>);

impl Set {
    pub fn with_room(count: usize) -> Set {
        Set(vec![0; count.div_ceil(64)])
    }

    pub fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    /// Whether anything is new.
    pub fn add(&mut self, other: &Set) -> bool {
        let mut new = 0;
        for (word, &more) in self.0.iter_mut().zip(&other.0) {
            new |= more & !*word;
            *word |= more;
        }
        new != 0
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(|&i| self.contains(i))
    }
}

/// FIRST and FOLLOW of a grammar of parts.
pub(super) struct Follow {
    nullable: Vec<bool>,
    first: Vec<Set>,
    after_rule: Vec<Set>,
    /// Terminals that may come right after each.
    pub next: Vec<Set>,
    room: usize,
    changed: bool,
}

impl Follow {
    /// Of the rules that have parts, with `count` terminals.
    pub fn new(parts: &[Option<RulePart>], count: usize) -> Follow {
        let empty = Set::with_room(count);
        let mut follow = Follow {
            nullable: vec![false; parts.len()],
            first: vec![empty.clone(); parts.len()],
            after_rule: vec![empty.clone(); parts.len()],
            next: vec![empty; count],
            room: count,
            changed: true,
        };
        while follow.take_changed() {
            for (rule, part) in parts.iter().enumerate() {
                let Some(part) = part else { continue };
                let (first, nullable) = (follow.first(part), follow.nullable(part));
                follow.changed |= follow.first[rule].add(&first) || nullable != follow.nullable[rule];
                follow.nullable[rule] = nullable;
            }
        }
        follow.changed = true;
        while follow.take_changed() {
            for (rule, part) in parts.iter().enumerate() {
                let Some(part) = part else { continue };
                let after = follow.after_rule[rule].clone();
                follow.walk(part, &after);
            }
        }
        follow
    }

    fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn nullable(&self, part: &RulePart) -> bool {
        match part {
            RulePart::Leaf { nullable, .. } => *nullable,
            RulePart::Token { .. } => false,
            RulePart::Rule(rule) => self.nullable[*rule],
            RulePart::Sequence(parts) => parts.iter().all(|part| self.nullable(part)),
            RulePart::Choice(parts) => parts.iter().any(|part| self.nullable(part)),
            RulePart::Repeat { inner, least, .. } => *least == 0 || self.nullable(inner),
        }
    }

    /// Terminals that a part may begin with.
    pub fn first(&self, part: &RulePart) -> Set {
        let mut out = Set::with_room(self.room);
        match part {
            RulePart::Leaf { number, .. } | RulePart::Token { number, .. } => out.insert(*number),
            RulePart::Rule(rule) => return self.first[*rule].clone(),
            RulePart::Repeat { inner, .. } => return self.first(inner),
            RulePart::Choice(parts) => parts.iter().for_each(|part| {
                out.add(&self.first(part));
            }),
            RulePart::Sequence(parts) => {
                for part in parts {
                    out.add(&self.first(part));
                    if !self.nullable(part) {
                        break;
                    }
                }
            }
        }
        out
    }

    fn walk(&mut self, part: &RulePart, after: &Set) {
        match part {
            RulePart::Leaf { number, .. } | RulePart::Token { number, .. } => {
                self.changed |= self.next[*number].add(after)
            }
            RulePart::Rule(rule) => self.changed |= self.after_rule[*rule].add(after),
            RulePart::Choice(parts) => parts.iter().for_each(|part| self.walk(part, after)),
            RulePart::Repeat { inner, .. } => {
                let mut around = after.clone();
                around.add(&self.first(inner));
                self.walk(inner, &around);
            }
            RulePart::Sequence(parts) => {
                let mut after = after.clone();
                for part in parts.iter().rev() {
                    self.walk(part, &after);
                    let mut before = self.first(part);
                    if self.nullable(part) {
                        before.add(&after);
                    }
                    after = before;
                }
            }
        }
    }
}

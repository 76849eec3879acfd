//! Arrays.

use llguidance::earley::SymIdx;
use serde_json::{Map, Value};

use super::RuleBuilder;

/// Bounds up to which each item has a symbol of its own; beyond, the library's rules grow slower.
const COUNTED: u64 = 32;

impl<'s> RuleBuilder<'s> {
    pub(super) fn array(&mut self, map: &'s Map<String, Value>) -> Option<Vec<SymIdx>> {
        if map.contains_key("prefixItems") || map.contains_key("additionalItems") {
            return None;
        }
        let count = |key: &str| map.get(key).map(|n| n.as_u64().filter(|n| *n <= COUNTED).ok_or(()));
        let least = count("minItems").transpose().ok()?.unwrap_or(0);
        let most = count("maxItems").transpose().ok()?;
        if most.is_some_and(|most| least > most) {
            return None;
        }
        let item = match map.get("items") {
            Some(schema) => {
                let row = self.schema(schema)?;
                self.single(row)?
            }
            None => self.any()?,
        };
        self.items(item, least, most)
    }

    /// Between `least` and `most` of `item`, in brackets: symbols in a row.
    pub(super) fn items(&mut self, item: SymIdx, least: u64, most: Option<u64>) -> Option<Vec<SymIdx>> {
        let (open, close) = (self.literal("[")?, self.literal("]")?);
        let comma = self.literal(",")?;
        if most == Some(0) {
            return Some(vec![open, close]);
        }
        let first = least.max(1);
        let mut inside = vec![item];
        (1..first).for_each(|_| inside.extend([comma, item]));
        match most {
            None => {
                // Repeated on the left: the parser keeps no more for a long list than for a short one.
                let list = self.fresh();
                self.rule(list, inside)?;
                self.rule(list, vec![list, comma, item])?;
                inside = vec![list];
            }
            Some(most) => {
                let mut more: Option<SymIdx> = None;
                for _ in first..most {
                    let way = [comma, item].into_iter().chain(more).collect();
                    more = Some(self.choice(vec![way, Vec::new()])?);
                }
                inside.extend(more);
            }
        }
        if least == 0 {
            inside = vec![self.choice(vec![inside, Vec::new()])?];
        }
        Some([vec![open], inside, vec![close]].concat())
    }
}

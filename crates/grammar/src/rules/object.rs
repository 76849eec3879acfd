//! Objects.

use llguidance::derivre::RegexAst;
use llguidance::earley::SymIdx;
use serde_json::{Map, Value};

use super::RuleBuilder;
use super::stock::{quoted, searched};

/// A member that the schema names.
pub(super) struct NamedMember {
    name: SymIdx,
    value: Vec<SymIdx>,
    required: bool,
}

impl<'s> RuleBuilder<'s> {
    pub(super) fn object(&mut self, map: &'s Map<String, Value>) -> Option<Vec<SymIdx>> {
        if map.contains_key("minProperties") || map.contains_key("maxProperties") {
            return None;
        }
        let required: Vec<&str> = match map.get("required") {
            Some(names) => names.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?,
            None => Vec::new(),
        };
        let none = Map::new();
        let properties = match map.get("properties") {
            Some(properties) => properties.as_object()?,
            None => &none,
        };
        // The library gives these the schema of a pattern or of the others.
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return None;
        }
        let mut members = Vec::with_capacity(properties.len());
        let mut taken = Vec::with_capacity(properties.len());
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_required = required.contains(&name.as_str());
            let name = Value::from(name.as_str()).to_string();
            taken.push(RegexAst::Literal(name[1..].to_owned()));
            if *schema == Value::Bool(false) && !is_required {
                continue;
            }
            let (value, name) = (self.schema(schema)?, self.literal(&name)?);
            members.push(NamedMember { name, value, required: is_required });
        }
        let others = self.others(map, taken)?;
        self.members(&members, others)
    }

    /// Names and values of members that the schema does not name.
    fn others(
        &mut self,
        map: &'s Map<String, Value>,
        mut taken: Vec<RegexAst>,
    ) -> Option<Vec<(SymIdx, SymIdx)>> {
        let mut others = Vec::new();
        if let Some(patterns) = map.get("patternProperties") {
            let mut patterns = patterns.as_object()?.iter();
            let (Some((pattern, schema)), None, true) = (patterns.next(), patterns.next(), taken.is_empty())
            else {
                return None;
            };
            let expression = self.expression(&searched(pattern))?;
            let name = self.terminal(quoted(RegexAst::ExprRef(expression), false))?;
            let row = self.schema(schema)?;
            others.push((name, self.single(row)?));
            let rest = vec![quoted(RegexAst::ExprRef(expression), true), RegexAst::Byte(b'"')];
            taken.push(RegexAst::Concat(rest));
        }
        let value = match map.get("additionalProperties") {
            Some(Value::Bool(false)) => return Some(others),
            Some(schema) => {
                let row = self.schema(schema)?;
                self.single(row)?
            }
            None => self.any()?,
        };
        let name = if taken.is_empty() { self.any_name()? } else { self.other_name(taken)? };
        others.push((name, value));
        Some(others)
    }

    /// An object of `members` in their order, and then any number of `others`: symbols in a row.
    pub(super) fn members(
        &mut self,
        members: &[NamedMember],
        others: Vec<(SymIdx, SymIdx)>,
    ) -> Option<Vec<SymIdx>> {
        let (open, close) = (self.literal("{")?, self.literal("}")?);
        let (colon, comma) = (self.literal(":")?, self.literal(",")?);
        let mut items: Vec<(Vec<SymIdx>, bool)> =
            members.iter().map(|m| ([&[m.name, colon], m.value.as_slice()].concat(), m.required)).collect();
        if !others.is_empty() {
            let list = self.fresh();
            for (name, value) in others {
                self.rule(list, vec![name, colon, value])?;
                self.rule(list, vec![list, comma, name, colon, value])?;
            }
            items.push((vec![list], false));
        }
        let leading = items.iter().take_while(|(_, required)| !required).count();
        // What may follow after the first member, from each place on.
        let mut after: Vec<Vec<SymIdx>> = vec![Vec::new(); items.len() + 1];
        for (at, (item, required)) in items.iter().enumerate().skip(1).rev() {
            let with_comma = [&[comma], item.as_slice()].concat();
            let mut rest =
                if *required { with_comma } else { vec![self.choice(vec![with_comma, Vec::new()])?] };
            rest.extend_from_slice(&after[at + 1]);
            after[at] = if at <= leading { vec![self.choice(vec![rest])?] } else { rest };
        }
        // The first member that is there: one that may be left out, or the first that may not.
        let ways = items.iter().enumerate().take(leading + 1);
        let mut ways: Vec<Vec<SymIdx>> =
            ways.map(|(at, (item, _))| [item.as_slice(), &after[at + 1]].concat()).collect();
        if leading == items.len() {
            ways.push(Vec::new());
        }
        let inside = match ways.as_slice() {
            [_] => ways.remove(0),
            _ => vec![self.choice(ways)?],
        };
        Some([vec![open], inside, vec![close]].concat())
    }
}

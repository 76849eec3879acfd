//! Values that are one lexeme: strings, numbers, listed values.

use llguidance::derivre::{ExprRef, RegexAst};
use llguidance::earley::SymIdx;
use serde_json::{Map, Value};

use super::stock::{quoted, searched};
use super::{Alternatives, RuleBuilder, Ways, integers};

/// Steps that deciding whether a pattern matches anything may take, as the library has it.
const EMPTINESS_FUEL: u64 = 10_000;

impl<'s> RuleBuilder<'s> {
    pub(super) fn number(&mut self, map: &'s Map<String, Value>) -> Option<ExprRef> {
        let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
        bounds.iter().all(|key| !map.contains_key(*key)).then_some(self.prepared.number)
    }

    pub(super) fn integer(&mut self, map: &'s Map<String, Value>) -> Option<ExprRef> {
        if map.contains_key("multipleOf") {
            return None;
        }
        let bound = |key: &str| map.get(key).map(|value| value.as_i64().ok_or(())).transpose().ok();
        let (least, above) = (bound("minimum")?, bound("exclusiveMinimum")?.map(|n| n + 1));
        let (most, below) = (bound("maximum")?, bound("exclusiveMaximum")?.map(|n| n - 1));
        let low = least.into_iter().chain(above).max();
        let high = most.into_iter().chain(below).min();
        match (low, high) {
            (None, None) => Some(self.prepared.integer),
            (Some(low), Some(high)) if low > high => None,
            (low, high) => self.expression(&integers::range(low, high)?),
        }
    }

    pub(super) fn string(&mut self, map: &'s Map<String, Value>) -> Option<ExprRef> {
        let count =
            |key: &str| map.get(key).map(|n| n.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or(()));
        let least = count("minLength").transpose().ok()?.unwrap_or(0);
        let most = count("maxLength").transpose().ok()?;
        if map.contains_key("format") || most.is_some_and(|most| least > most) {
            return None;
        }
        let bounded = least > 0 || most.is_some();
        let most = most.unwrap_or(u32::MAX);
        let several = |of: ExprRef| RegexAst::Repeat(Box::new(RegexAst::ExprRef(of)), least, most);
        let Some(pattern) = map.get("pattern") else {
            if !bounded {
                return Some(self.prepared.string);
            }
            let quote = || RegexAst::Byte(b'"');
            return self.expression(&RegexAst::Concat(vec![
                quote(),
                several(self.prepared.written),
                quote(),
            ]));
        };
        let pattern = pattern.as_str()?;
        let mut expression = match self.prepared.patterns.get(pattern) {
            Some(&known) => known,
            None => self.expression(&searched(pattern))?,
        };
        if bounded {
            let both = vec![RegexAst::ExprRef(expression), several(self.prepared.character)];
            expression = self.expression(&RegexAst::And(both))?;
        }
        self.matches_something(expression)?;
        self.expression(&quoted(RegexAst::ExprRef(expression), false))
    }

    /// None where no text matches, or that is not found out soon.
    fn matches_something(&self, expression: ExprRef) -> Option<()> {
        let expressions = &self.spec.regex_builder;
        if expressions.exprset().is_positive(expression) {
            return Some(());
        }
        let mut decided = expressions.to_regex_limited(expression, EMPTINESS_FUEL).ok()?;
        (!decided.always_empty()).then_some(())
    }

    /// The values of `enum` or `const`, which may stand beside a type; `said` counts the keywords.
    pub(super) fn listed(&mut self, map: &'s Map<String, Value>, said: usize) -> Option<Alternatives> {
        let values = match (map.get("enum"), map.get("const")) {
            (Some(list), None) => list.as_array()?.as_slice(),
            (None, Some(value)) => std::slice::from_ref(value),
            _ => return None,
        };
        let kind = map.get("type");
        if said != 1 + usize::from(kind.is_some()) {
            return None;
        }
        let of_type = |name: &str| match kind {
            None => true,
            Some(Value::String(only)) => only == name,
            Some(Value::Array(names)) => names.iter().any(|n| n == name),
            Some(_) => false,
        };
        let mut ways = Ways::default();
        for value in values {
            match value {
                Value::Null if of_type("null") => ways.words.push(value.to_string()),
                Value::Bool(_) if of_type("boolean") => ways.words.push(value.to_string()),
                Value::String(_) if of_type("string") => ways.strings.push(self.written(value)?),
                Value::Number(n) if n.is_i64() && (of_type("integer") || of_type("number")) => {
                    ways.numbers.push(self.written(value)?);
                }
                Value::Number(n) if !n.is_i64() => return None,
                Value::Array(_) | Value::Object(_) => return None,
                _ => {}
            }
        }
        Some(Alternatives::Some(ways))
    }

    fn written(&mut self, value: &Value) -> Option<ExprRef> {
        self.expression(&RegexAst::Literal(value.to_string()))
    }

    /// Any name of a member.
    pub(super) fn any_name(&mut self) -> Option<SymIdx> {
        self.terminal(RegexAst::ExprRef(self.prepared.string))
    }

    /// Names but `taken`, each without its first quote. The quote stands before the difference and not inside of it: so
    /// the lexer sees at once that no other byte begins one.
    pub(super) fn other_name(&mut self, taken: Vec<RegexAst>) -> Option<SymIdx> {
        let free = RegexAst::Not(Box::new(RegexAst::Or(taken)));
        let rest = RegexAst::And(vec![RegexAst::ExprRef(self.prepared.rest_of_name), free]);
        self.terminal(RegexAst::Concat(vec![RegexAst::Byte(b'"'), rest]))
    }
}

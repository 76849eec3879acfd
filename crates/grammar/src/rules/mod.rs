//! Schemas as rules and lexemes of the library, made without its compiler of schemas.
//!
//! That compiler parses a regular expression for each value that it meets, most of them the same in every schema, and its
//! rules are then simplified twice. Here a schema begins with a copy of expressions that were parsed once for the process
//! ([`stock`]), and its rules are written as they stay. The language is the same. What is rare is left to the library:
//! [`read`] gives None for it.

mod array;
mod integers;
mod object;
mod stock;
mod values;

use std::collections::HashMap;

use llguidance::derivre::{ExprRef, RegexAst};
use llguidance::earley::lexerspec::{LexemeClass, LexemeIdx, LexerSpec};
use llguidance::earley::{Grammar as Rules, SymIdx, SymbolProps};
use serde_json::{Map, Value};

use crate::limits;
use stock::PreparedLexemes;

/// The rules and lexemes of a schema that was normalized; None where it has what only the library's compiler knows, or
/// what it refuses.
pub(crate) fn read(schema: &Value) -> Option<(Rules, LexerSpec)> {
    let map = schema.as_object()?;
    let compact = map.get("x-guidance")?.get("whitespace_flexible") == Some(&Value::Bool(false));
    let none = Map::new();
    let defs = map.get("$defs").and_then(Value::as_object).unwrap_or(&none);
    let prepared = PreparedLexemes::of(compact)?;
    let mut rules = RuleBuilder::new(prepared, defs);
    let start = rules.symbol("start");
    rules.rules.sym_props_mut(start).is_start = true;
    let root = rules.schema_of(map)?;
    rules.rule(start, root)?;
    while let Some((name, symbol)) = rules.pending.pop() {
        let target = defs.get(&name)?;
        // One that is only a reference may lead back to itself.
        target.as_object().filter(|map| !map.contains_key("$ref"))?;
        let row = rules.schema(target)?;
        rules.rule(symbol, row)?;
    }
    rules.within_limits().then_some((rules.rules, rules.spec))
}

/// Parses what schemas share, which takes some milliseconds once for the process.
pub(crate) fn prepare() {
    PreparedLexemes::of(false);
}

/// What may stand at one place.
enum Alternatives {
    /// Any value.
    Any,
    Some(Ways),
}

/// Ways to write a value. Those of a kind become one lexeme, apart from other kinds: the lexer sees at the first byte that a
/// lexeme in quotes, or a word, is none.
#[derive(Default)]
struct Ways {
    strings: Vec<ExprRef>,
    numbers: Vec<ExprRef>,
    words: Vec<String>,
    /// Symbols in a row.
    rows: Vec<Vec<SymIdx>>,
}

impl Ways {
    fn extend(&mut self, other: Ways) {
        self.strings.extend(other.strings);
        self.numbers.extend(other.numbers);
        self.words.extend(other.words);
        self.rows.extend(other.rows);
    }
}

/// The rules of one schema while they are made.
struct RuleBuilder<'s> {
    rules: Rules,
    spec: LexerSpec,
    prepared: &'static PreparedLexemes,
    defs: &'s Map<String, Value>,
    /// Symbols of definitions that were met.
    named: HashMap<&'s str, SymIdx>,
    /// Definitions without their rules as yet.
    pending: Vec<(String, SymIdx)>,
    terminals: HashMap<LexemeIdx, SymIdx>,
    any: Option<SymIdx>,
    /// Of fresh symbols' names, which nobody reads.
    count: usize,
}

impl<'s> RuleBuilder<'s> {
    fn new(prepared: &'static PreparedLexemes, defs: &'s Map<String, Value>) -> RuleBuilder<'s> {
        RuleBuilder {
            rules: Rules::new(None),
            spec: prepared.spec.clone(),
            prepared,
            defs,
            named: HashMap::new(),
            pending: Vec::new(),
            terminals: HashMap::new(),
            any: None,
            count: 0,
        }
    }

    /// The limits that the library's compiler of schemas looks at.
    fn within_limits(&self) -> bool {
        let limits = limits::parser();
        self.spec.cost() <= limits.initial_lexer_fuel
            && self.rules.num_symbols() <= limits.max_grammar_size.min(limits::TERMINALS)
    }

    fn symbol(&mut self, name: &str) -> SymIdx {
        let props = SymbolProps { grammar_id: LexemeClass::ROOT, ..SymbolProps::default() };
        self.rules.fresh_symbol_ext(name, props)
    }

    fn fresh(&mut self) -> SymIdx {
        self.count += 1;
        let name = format!("s{}", self.count);
        self.symbol(&name)
    }

    fn rule(&mut self, symbol: SymIdx, right: Vec<SymIdx>) -> Option<()> {
        self.rules.add_rule(symbol, right).ok()
    }

    /// A symbol of several right sides.
    fn choice(&mut self, ways: Vec<Vec<SymIdx>>) -> Option<SymIdx> {
        let symbol = self.fresh();
        ways.into_iter().try_for_each(|way| self.rule(symbol, way))?;
        Some(symbol)
    }

    fn expression(&mut self, of: &RegexAst) -> Option<ExprRef> {
        self.spec.regex_builder.mk(of).ok()
    }

    fn terminal(&mut self, of: RegexAst) -> Option<SymIdx> {
        let lexeme = self.spec.add_greedy_lexeme(String::new(), of, false, None, usize::MAX).ok()?;
        if let Some(&symbol) = self.terminals.get(&lexeme) {
            return Some(symbol);
        }
        let symbol = self.fresh();
        self.rules.make_terminal(symbol, lexeme, &self.spec).ok()?;
        self.terminals.insert(lexeme, symbol);
        Some(symbol)
    }

    fn literal(&mut self, text: &str) -> Option<SymIdx> {
        self.terminal(RegexAst::Literal(text.to_owned()))
    }

    /// One symbol for `row`.
    fn single(&mut self, row: Vec<SymIdx>) -> Option<SymIdx> {
        match row.as_slice() {
            [only] => Some(*only),
            _ => self.choice(vec![row]),
        }
    }

    /// The symbols of `schema` in a row.
    fn schema(&mut self, schema: &'s Value) -> Option<Vec<SymIdx>> {
        match schema {
            Value::Bool(true) => Some(vec![self.any()?]),
            Value::Object(map) => self.schema_of(map),
            _ => None,
        }
    }

    fn schema_of(&mut self, map: &'s Map<String, Value>) -> Option<Vec<SymIdx>> {
        let mut ways = match self.alternatives(map)? {
            Alternatives::Any => return Some(vec![self.any()?]),
            Alternatives::Some(ways) => ways,
        };
        for kind in [ways.strings, ways.numbers] {
            let lexeme = match kind.as_slice() {
                [] => continue,
                [only] => RegexAst::ExprRef(*only),
                _ => RegexAst::Or(kind.into_iter().map(RegexAst::ExprRef).collect()),
            };
            ways.rows.push(vec![self.terminal(lexeme)?]);
        }
        ways.words.sort_unstable();
        ways.words.dedup();
        for word in &ways.words {
            ways.rows.push(vec![self.literal(word)?]);
        }
        match ways.rows.as_slice() {
            [] => None,
            [_] => ways.rows.pop(),
            _ => Some(vec![self.choice(ways.rows)?]),
        }
    }

    fn alternatives(&mut self, map: &'s Map<String, Value>) -> Option<Alternatives> {
        let said: Vec<&str> =
            map.keys().map(String::as_str).filter(|key| !matches!(*key, "x-guidance" | "$defs")).collect();
        let only = |key: &str| said.as_slice() == [key];
        if said.is_empty() {
            return Some(Alternatives::Any);
        }
        if let Some(reference) = map.get("$ref") {
            let symbol = self.definition(reference.as_str().filter(|_| only("$ref"))?)?;
            return Some(Alternatives::Some(Ways { rows: vec![vec![symbol]], ..Ways::default() }));
        }
        if let Some(list) = map.get("allOf") {
            let [schema] = list.as_array().filter(|_| only("allOf"))?.as_slice() else { return None };
            return self.alternatives(schema.as_object()?);
        }
        if let Some(list) = map.get("anyOf") {
            return self.any_of(list.as_array().filter(|_| only("anyOf"))?);
        }
        if map.contains_key("enum") || map.contains_key("const") {
            return self.listed(map, said.len());
        }
        self.typed(map)
    }

    fn any_of(&mut self, list: &'s [Value]) -> Option<Alternatives> {
        let mut ways = Ways::default();
        for schema in list {
            match self.alternatives(schema.as_object()?)? {
                Alternatives::Any => return Some(Alternatives::Any),
                Alternatives::Some(more) => ways.extend(more),
            }
        }
        Some(Alternatives::Some(ways))
    }

    fn definition(&mut self, reference: &'s str) -> Option<SymIdx> {
        let name = reference.strip_prefix("#/$defs/").filter(|name| self.defs.contains_key(*name))?;
        if let Some(&symbol) = self.named.get(name) {
            return Some(symbol);
        }
        let symbol = self.fresh();
        self.named.insert(name, symbol);
        self.pending.push((name.to_owned(), symbol));
        Some(symbol)
    }

    /// Values of one type or several.
    fn typed(&mut self, map: &'s Map<String, Value>) -> Option<Alternatives> {
        let types: Vec<&str> = match map.get("type")? {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
            _ => return None,
        };
        let mut ways = Ways::default();
        for name in types {
            match name {
                "object" => ways.rows.push(self.object(map)?),
                "array" => ways.rows.push(self.array(map)?),
                "string" => ways.strings.push(self.string(map)?),
                "integer" => ways.numbers.push(self.integer(map)?),
                "number" => ways.numbers.push(self.number(map)?),
                "boolean" => ways.words.extend(["true".into(), "false".into()]),
                "null" => ways.words.push("null".into()),
                _ => return None,
            }
        }
        Some(Alternatives::Some(ways))
    }

    /// Any JSON.
    fn any(&mut self) -> Option<SymIdx> {
        if let Some(symbol) = self.any {
            return Some(symbol);
        }
        let symbol = self.fresh();
        self.any = Some(symbol);
        for word in ["null", "true", "false"] {
            let word = self.literal(word)?;
            self.rule(symbol, vec![word])?;
        }
        for expression in [self.prepared.number, self.prepared.string] {
            let lexeme = self.terminal(RegexAst::ExprRef(expression))?;
            self.rule(symbol, vec![lexeme])?;
        }
        let items = self.items(symbol, 0, None)?;
        let name = self.any_name()?;
        let members = self.members(&[], vec![(name, symbol)])?;
        self.rule(symbol, items)?;
        self.rule(symbol, members)?;
        Some(symbol)
    }
}

#[cfg(test)]
mod tests;

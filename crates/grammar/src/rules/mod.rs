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
    rules.rule(start, vec![root])?;
    while let Some((name, symbol)) = rules.pending.pop() {
        let target = defs.get(&name)?;
        // One that is only a reference may lead back to itself.
        target.as_object().filter(|map| !map.contains_key("$ref"))?;
        let node = rules.schema(target)?;
        rules.rule(symbol, vec![node])?;
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
    /// Expressions of whole values, which become one lexeme, and symbols.
    Some(Vec<ExprRef>, Vec<SymIdx>),
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

    /// The symbol of `schema`.
    fn schema(&mut self, schema: &'s Value) -> Option<SymIdx> {
        match schema {
            Value::Bool(true) => self.any(),
            Value::Object(map) => self.schema_of(map),
            _ => None,
        }
    }

    fn schema_of(&mut self, map: &'s Map<String, Value>) -> Option<SymIdx> {
        match self.alternatives(map)? {
            Alternatives::Any => self.any(),
            Alternatives::Some(expressions, mut symbols) => {
                if let [first, rest @ ..] = expressions.as_slice() {
                    let all = RegexAst::Or(expressions.iter().map(|&e| RegexAst::ExprRef(e)).collect());
                    let lexeme = if rest.is_empty() { RegexAst::ExprRef(*first) } else { all };
                    symbols.push(self.terminal(lexeme)?);
                }
                match symbols.as_slice() {
                    [] => None,
                    [only] => Some(*only),
                    _ => self.choice(symbols.into_iter().map(|symbol| vec![symbol]).collect()),
                }
            }
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
            return Some(Alternatives::Some(Vec::new(), vec![symbol]));
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
        let (mut expressions, mut symbols) = (Vec::new(), Vec::new());
        for schema in list {
            match self.alternatives(schema.as_object()?)? {
                Alternatives::Any => return Some(Alternatives::Any),
                Alternatives::Some(more_expressions, more_symbols) => {
                    expressions.extend(more_expressions);
                    symbols.extend(more_symbols);
                }
            }
        }
        Some(Alternatives::Some(expressions, symbols))
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
        let (mut expressions, mut symbols) = (Vec::new(), Vec::new());
        for name in types {
            match name {
                "object" => symbols.push(self.object(map)?),
                "array" => symbols.push(self.array(map)?),
                name => expressions.push(self.value(name, map)?),
            }
        }
        Some(Alternatives::Some(expressions, symbols))
    }

    /// Any JSON.
    fn any(&mut self) -> Option<SymIdx> {
        if let Some(symbol) = self.any {
            return Some(symbol);
        }
        let symbol = self.fresh();
        self.any = Some(symbol);
        let null = self.literal("null")?;
        let [boolean, number, string] = [self.prepared.boolean, self.prepared.number, self.prepared.string]
            .map(|expression| self.terminal(RegexAst::ExprRef(expression)));
        let items = self.items(symbol, 0, None)?;
        let name = self.any_name()?;
        let members = self.members(&[], Some(vec![(name, symbol)]))?;
        for way in [null, boolean?, number?, string?, items, members] {
            self.rule(symbol, vec![way])?;
        }
        Some(symbol)
    }
}

#[cfg(test)]
mod tests;

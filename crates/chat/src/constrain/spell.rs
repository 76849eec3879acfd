//! Schemas of values that are not spelled as JSON: Python's literals, Gemma's, tags within tags.

use serde_json::Value;

use super::lark::{LarkText, any_of, escaped};
use crate::parse::resolve_reference;

/// A spelling of values.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueSpelling {
    /// `{'a': [1, True, "x"]}`.
    Python,
    /// `{a:[1,true,<|"|>x<|"|>]}`.
    Gemma,
    /// `M<a>M<item>1M</item>M</a>`.
    Nested(&'static str),
}

/// Nesting at most; deeper values may be anything.
const DEPTH: usize = 12;

/// Keywords that narrow a value in ways that only JSON's grammar knows.
const NARROWING: &[&str] = &[
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "prefixItems",
    "contains",
    "not",
    "if",
    "allOf",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
];

/// Writes values of a schema.
pub(super) struct Speller<'s> {
    pub spelling: ValueSpelling,
    pub root: &'s Value,
    /// Keywords that were met and are not enforced.
    pub loose: Vec<String>,
}

impl Speller<'_> {
    /// An expression for values of `schema`; `end` is what follows a text without an end of its own.
    pub fn value(&mut self, out: &mut LarkText<'_>, schema: &Value, end: &str, depth: usize) -> String {
        let schema = resolve_reference(self.root, schema);
        self.note(schema);
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let all: Vec<String> = values.iter().map(|value| self.constant(out, value, end)).collect();
            return any_of(&all);
        }
        if let Some(value) = schema.get("const") {
            return self.constant(out, value, end);
        }
        let branches = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array());
        if let Some(branches) = branches.filter(|_| depth < DEPTH) {
            let all: Vec<String> = branches.iter().map(|b| self.value(out, b, end, depth + 1)).collect();
            return any_of(&all);
        }
        let types: Vec<&str> = match schema.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ if schema.get("properties").is_some() => vec!["object"],
            _ if depth < DEPTH => vec!["string", "number", "boolean", "null"],
            _ => vec!["string"],
        };
        let all: Vec<String> =
            types.into_iter().map(|name| self.of_type(out, name, schema, end, depth)).collect();
        any_of(&all)
    }

    fn note(&mut self, schema: &Value) {
        let met = NARROWING.iter().filter(|word| schema.get(**word).is_some());
        self.loose.extend(met.map(|word| (*word).to_owned()));
    }

    fn of_type(
        &mut self,
        out: &mut LarkText<'_>,
        name: &str,
        schema: &Value,
        end: &str,
        depth: usize,
    ) -> String {
        let closed = |text: String| self.closed(out, text, end);
        match name {
            // As many digits as every reader of numbers keeps.
            "integer" => closed("/-?(0|[1-9][0-9]{0,17})/".into()),
            "number" => closed("/-?(0|[1-9][0-9]{0,14})(\\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?/".into()),
            "boolean" => match self.spelling {
                ValueSpelling::Python => "(/True/ | /False/)".into(),
                _ => closed("(/true/ | /false/)".into()),
            },
            "null" => match self.spelling {
                ValueSpelling::Python => "/None/".into(),
                ValueSpelling::Gemma => "/null/".into(),
                ValueSpelling::Nested(_) => out.literal(end),
            },
            "array" => self.array(out, schema, end, depth),
            "object" => self.object(out, schema, end, depth),
            _ => self.string(out, end),
        }
    }

    /// A value that does not tell its own end, with what follows it.
    fn closed(&self, out: &LarkText<'_>, value: String, end: &str) -> String {
        match self.spelling {
            ValueSpelling::Nested(_) => format!("({value} {})", out.literal(end)),
            _ => value,
        }
    }

    fn string(&self, out: &mut LarkText<'_>, end: &str) -> String {
        match self.spelling {
            ValueSpelling::Python => r#"(/"([^"\\\n]|\\[ntr\\'"])*"/ | /'([^'\\\n]|\\[ntr\\'"])*'/)"#.into(),
            ValueSpelling::Gemma => {
                let open = out.literal("<|\"|>");
                let rest = out.up_to("<|\"|>");
                format!("({open} {rest})")
            }
            ValueSpelling::Nested(_) => format!("({})", out.up_to(end)),
        }
    }

    /// A value as it is.
    fn constant(&self, out: &mut LarkText<'_>, value: &Value, end: &str) -> String {
        let text = spelled(self.spelling, value);
        match self.spelling {
            ValueSpelling::Nested(_) => format!("({})", out.literal(&format!("{text}{end}"))),
            _ => format!("({})", out.literal(&text)),
        }
    }

    fn array(&mut self, out: &mut LarkText<'_>, schema: &Value, end: &str, depth: usize) -> String {
        let any = Value::Bool(true);
        let items = if depth < DEPTH { schema.get("items").unwrap_or(&any) } else { &any };
        if let ValueSpelling::Nested(mark) = self.spelling {
            let item = self.value(out, items, &format!("{mark}</item>"), depth + 1);
            let open = out.literal(&format!("{mark}<item>"));
            return format!("(({open} {item})+ {})", out.literal(end));
        }
        let item = self.value(out, items, "", depth + 1);
        let item = out.rule(&item);
        let comma = escaped(self.comma());
        format!("(/\\[/ ({item} (/{comma}/ {item})*)? /\\]/)")
    }

    fn comma(&self) -> &'static str {
        if matches!(self.spelling, ValueSpelling::Gemma) { "," } else { ", " }
    }

    fn object(&mut self, out: &mut LarkText<'_>, schema: &Value, end: &str, depth: usize) -> String {
        if depth >= DEPTH {
            return self.string(out, end);
        }
        if let ValueSpelling::Nested(_) = self.spelling {
            let all = self.tags(out, schema, depth);
            return format!("({all} {})", out.literal(end));
        }
        let (before, after) = match self.spelling {
            ValueSpelling::Python => ("'", "': "),
            _ => ("", ":"),
        };
        let members = self.members(out, schema, (before, after), depth);
        format!("(/\\{{/ {members} /\\}}/)")
    }

    /// Tags within tags, one for each property.
    pub fn tags(&mut self, out: &mut LarkText<'_>, schema: &Value, depth: usize) -> String {
        let ValueSpelling::Nested(mark) = self.spelling else { return "\"\"".into() };
        let mut all = String::from("\"\"");
        for (key, property, required) in properties(self.root, schema) {
            let open = out.literal(&format!("{mark}<{key}>"));
            let value = self.value(out, property, &format!("{mark}</{key}>"), depth + 1);
            all += &format!(" ({open} {value}){}", if required { "" } else { "?" });
        }
        all
    }

    /// Keys and values with commas between them; those that are not required may be left out.
    pub fn members(
        &mut self,
        out: &mut LarkText<'_>,
        schema: &Value,
        (before, after): (&str, &str),
        depth: usize,
    ) -> String {
        let comma = out.literal(self.comma());
        let mut all = properties(self.root, schema);
        if matches!(self.spelling, ValueSpelling::Gemma) {
            // Its template sorts them.
            all.sort_by_key(|(key, ..)| key.to_lowercase());
        }
        // What may follow where nothing was written yet, and where something was.
        let (mut first, mut more) = ("\"\"".to_owned(), "\"\"".to_owned());
        for (key, property, required) in all.into_iter().rev() {
            let value = self.value(out, property, "", depth + 1);
            let member = out.rule(&format!("{} {value}", out.literal(&format!("{before}{key}{after}"))));
            let (with_first, with_more) = (format!("{member} {more}"), format!("{comma} {member} {more}"));
            first = out.rule(&if required { with_first } else { format!("{with_first} | {first}") });
            more = out.rule(&if required { with_more } else { format!("{with_more} | {more}") });
        }
        first
    }
}

/// Properties with their schemas, and whether they are required.
pub(super) fn properties<'s>(root: &'s Value, schema: &'s Value) -> Vec<(&'s str, &'s Value, bool)> {
    let schema = resolve_reference(root, schema);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|all| all.iter().any(|name| name == key));
    let all = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    all.map(|(key, property)| (key.as_str(), property, is_required(key))).collect()
}

/// A value in this spelling.
fn spelled(spelling: ValueSpelling, value: &Value) -> String {
    let list = |items: &[Value], comma: &str| {
        items.iter().map(|item| spelled(spelling, item)).collect::<Vec<_>>().join(comma)
    };
    match (spelling, value) {
        (ValueSpelling::Python, Value::Bool(true)) => "True".into(),
        (ValueSpelling::Python, Value::Bool(false)) => "False".into(),
        (ValueSpelling::Python, Value::Null) => "None".into(),
        (ValueSpelling::Python, Value::Array(items)) => format!("[{}]", list(items, ", ")),
        (ValueSpelling::Gemma, Value::String(text)) => format!("<|\"|>{text}<|\"|>"),
        (ValueSpelling::Gemma, Value::Array(items)) => format!("[{}]", list(items, ",")),
        (ValueSpelling::Nested(_), Value::String(text)) => text.clone(),
        (ValueSpelling::Nested(_), Value::Null) => String::new(),
        (_, other) => other.to_string(),
    }
}

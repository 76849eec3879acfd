//! What the tools declare about their arguments: formats that write values without quotes need it.

use serde_json::Value;

use super::literal;

/// The tools of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolTypes {
    /// Names with the JSON schemas of their arguments.
    schemas: Vec<(String, Value)>,
}

/// What a value may be, as a set of JSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// Only a string: as it is written.
    Text,
    /// A string or one of these types.
    TextOr(TypeSet),
    /// Declared, and no string.
    Json,
    /// Nothing is said about it.
    Unknown,
}

/// Types of JSON beside strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeSet(u8);

const STRING: u8 = 1;
const NUMBER: u8 = 2;
const BOOLEAN: u8 = 4;
const NULL: u8 = 8;
const ARRAY: u8 = 16;
const OBJECT: u8 = 32;

impl TypeSet {
    fn of(value: &Value) -> TypeSet {
        TypeSet(match value {
            Value::String(_) => STRING,
            Value::Number(_) => NUMBER,
            Value::Bool(_) => BOOLEAN,
            Value::Null => NULL,
            Value::Array(_) => ARRAY,
            Value::Object(_) => OBJECT,
        })
    }

    fn named(name: &str) -> TypeSet {
        TypeSet(match name {
            "string" => STRING,
            "number" | "integer" => NUMBER,
            "boolean" => BOOLEAN,
            "null" => NULL,
            "array" => ARRAY,
            "object" => OBJECT,
            _ => 0,
        })
    }

    fn has(self, other: TypeSet) -> bool {
        self.0 & other.0 != 0
    }
}

impl ToolTypes {
    /// Tools as `{"type": "function", "function": {..}}`, or the function alone with `parameters` or `input_schema`.
    pub fn new(tools: &[Value]) -> ToolTypes {
        let schema = |tool: &Value| {
            let function = tool.get("function").filter(|f| f.is_object()).unwrap_or(tool);
            let schema = function.get("parameters").or_else(|| function.get("input_schema"));
            Some((function.get("name")?.as_str()?.to_owned(), schema.cloned().unwrap_or(Value::Null)))
        };
        ToolTypes { schemas: tools.iter().filter_map(schema).collect() }
    }

    /// The type of an argument.
    pub fn argument(&self, tool: &str, key: &str) -> ValueType {
        self.schema(tool, key).map_or(ValueType::Unknown, |(root, schema)| ValueType::of(root, schema))
    }

    /// The schema of an argument, with its root.
    pub fn schema(&self, tool: &str, key: &str) -> Option<(&Value, &Value)> {
        let root = self.schemas.iter().find(|(name, _)| name == tool).map(|(_, schema)| schema);
        root.and_then(|root| property(root, root, key, 0))
    }
}

/// The schema that a reference within `root` means.
pub(crate) fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    target.and_then(|path| root.pointer(path)).unwrap_or(schema)
}

/// The schema of a property, with its root.
pub(super) fn property<'s>(
    root: &'s Value,
    schema: &'s Value,
    key: &str,
    depth: usize,
) -> Option<(&'s Value, &'s Value)> {
    let schema = resolve(root, schema);
    let own = schema.get("properties").and_then(|all| all.get(key));
    let branch = || {
        let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|word| schema.get(word)?.as_array());
        lists.flatten().find_map(|branch| property(root, branch, key, depth + 1))
    };
    own.map(|own| (root, own)).or_else(|| if depth < 8 { branch() } else { None })
}

/// The types that a schema allows; none where it says nothing.
fn types(root: &Value, schema: &Value, depth: usize) -> TypeSet {
    let schema = resolve(root, schema);
    let own = match schema.get("type") {
        Some(Value::String(name)) => TypeSet::named(name).0,
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).fold(0, |all, name| all | TypeSet::named(name).0)
        }
        _ => match (schema.get("enum").and_then(Value::as_array), schema.get("const")) {
            (Some(values), _) => values.iter().fold(0, |all, value| all | TypeSet::of(value).0),
            (None, Some(value)) => TypeSet::of(value).0,
            (None, None) => 0,
        },
    };
    if own != 0 || depth == 8 {
        return TypeSet(own);
    }
    let branches = ["anyOf", "oneOf", "allOf"].iter().filter_map(|word| schema.get(word)?.as_array());
    TypeSet(branches.flatten().fold(0, |all, branch| all | types(root, branch, depth + 1).0))
}

fn value_type(types: TypeSet) -> ValueType {
    match (types.0, types.0 & STRING) {
        (0, _) => ValueType::Unknown,
        (STRING, _) => ValueType::Text,
        (all, STRING) => ValueType::TextOr(TypeSet(all & !STRING)),
        _ => ValueType::Json,
    }
}

impl ValueType {
    /// The type of a value whose schema this is.
    pub fn of(root: &Value, schema: &Value) -> ValueType {
        value_type(types(root, schema, 0))
    }

    /// JSON text of a value as a tag has it.
    pub fn json(self, text: &str) -> String {
        let bare = text.trim();
        let parsed = || serde_json::from_str::<Value>(bare).ok();
        let as_json = match self {
            ValueType::Text => None,
            ValueType::TextOr(types) => {
                parsed().filter(|value| types.has(TypeSet::of(value))).map(|_| bare.to_owned())
            }
            ValueType::Json => parsed().map(|_| bare.to_owned()).or_else(|| literal::python(bare)),
            ValueType::Unknown => parsed().map(|_| bare.to_owned()),
        };
        as_json.unwrap_or_else(|| Value::from(text).to_string())
    }
}

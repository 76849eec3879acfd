//! Fields that say what form an answer has: OpenAI's, llama-server's and vLLM's.

use crate::{
    body::{Body, FieldSpec, FieldTable, json_of, kind, taken, typed},
    error::ApiError,
    run::{FormSource, WantedForm, Wishes},
};
use serde_json::Value;

/// What makes a form of a field's value.
type Maker = fn(Value, &str) -> Result<Option<WantedForm>, ApiError>;

/// Fields that all dialects with sampling have. An answer has one form.
const FIELDS: &[(&str, Maker)] = &[
    ("response_format", response_format),
    ("json_schema", schema),
    ("grammar", grammar),
    ("guided_json", schema),
    ("guided_regex", regex),
    ("guided_choice", choice),
    ("guided_grammar", grammar),
    ("structured_outputs", structured_outputs),
];

/// Fields of vLLM's `structured_outputs`.
const STRUCTURED: &[(&str, Maker)] = &[
    ("json", schema),
    ("regex", regex),
    ("choice", choice),
    ("grammar", grammar),
    ("json_object", json_object),
    ("structural_tag", tag),
];

/// A schema with its name.
const SCHEMA: &[FieldSpec] = &[
    taken("name", "what the schema is called"),
    taken("description", "what it is for"),
    taken("schema", "the schema"),
    taken("strict", "false: what cannot be enforced is left out"),
];
/// Fields of `json_schema` in `response_format`.
pub const NAMED_SCHEMA: FieldTable =
    FieldTable { name: "json_schema", sampling: false, fields: &[], also: &[SCHEMA] };
/// Fields of `response_format`.
pub const FORMAT: FieldTable = FieldTable {
    name: "response_format",
    sampling: false,
    fields: &[
        taken("type", "text, json_object, json_schema or structural_tag"),
        taken("json_schema", "a schema with its name; its fields may stand beside the type"),
    ],
    also: &[SCHEMA],
};

/// Reads the form that a body asks for.
///
/// # Errors
/// When a field is none of its kind, or several say what form the answer has.
pub(super) fn forms(body: &mut Body, wishes: &mut Wishes) -> Result<(), ApiError> {
    FIELDS.iter().try_for_each(|(name, make)| match body.value(name) {
        Some(value) => wishes.ask_form(make(value, &body.path(name))?),
        None => Ok(()),
    })
}

/// OpenAI's `response_format`, with what llama-server and vLLM add: none where any text will do.
///
/// # Errors
/// When it has no such type, or lacks its schema.
pub fn response_format(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    if value["type"] == "structural_tag" {
        return Ok(Some(WantedForm { path: path.to_owned(), source: FormSource::Tag(value) }));
    }
    let mut format = Body::new(value, &FORMAT, path, false)?;
    let kind: String = format.need("type")?;
    let form = match kind.as_str() {
        "text" => None,
        "json_object" => Some(match format.value("schema") {
            Some(schema) => WantedForm::schema(format.path("schema"), schema),
            None => WantedForm { path: path.to_owned(), source: FormSource::Json },
        }),
        "json_schema" => Some(match format.nested("json_schema", &NAMED_SCHEMA, false)? {
            Some(mut named) => named_schema(&mut named)?,
            // Responses and llama-server write it flat.
            None => named_schema(&mut format)?,
        }),
        _ => {
            let text = format!("{path}.type must be text, json_object, json_schema or structural_tag");
            return Err(ApiError::at(format!("{path}.type"), text));
        }
    };
    match format.unread().next() {
        Some(other) => {
            Err(ApiError::at(&other, format!("{other} has no meaning where {path}.type is {kind}")))
        }
        None => Ok(form),
    }
}

/// `{name, schema, strict}`. Where it need not be exact, what cannot be enforced is left out.
fn named_schema(named: &mut Body) -> Result<WantedForm, ApiError> {
    named.take::<String>("name")?;
    named.take::<String>("description")?;
    let lenient = named.take::<bool>("strict")? == Some(false);
    let path = named.path("schema");
    let schema = named.need("schema")?;
    Ok(WantedForm { path, source: FormSource::Schema { schema, lenient } })
}

/// A schema, or one as text.
fn schema(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    let schema = match value {
        Value::String(text) => {
            json_of(text.as_bytes(), path).map_err(|e| ApiError { param: Some(path.into()), ..e })?
        }
        other => other,
    };
    Ok(Some(WantedForm::schema(path, schema)))
}

fn grammar(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    match value {
        // llama-server's clients send an empty one where there is none.
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => {
            Ok(Some(WantedForm { path: path.to_owned(), source: FormSource::Grammar(text) }))
        }
        other => Err(wrong(path, &other, "a text")),
    }
}

fn regex(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    let source = FormSource::Regex(typed(value, path)?);
    Ok(Some(WantedForm { path: path.to_owned(), source }))
}

fn choice(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    let source = FormSource::Choice(typed(value, path)?);
    Ok(Some(WantedForm { path: path.to_owned(), source }))
}

fn json_object(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    let wanted: bool = typed(value, path)?;
    Ok(wanted.then(|| WantedForm { path: path.to_owned(), source: FormSource::Json }))
}

fn tag(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    let tag = match value {
        Value::String(text) => {
            json_of(text.as_bytes(), path).map_err(|e| ApiError { param: Some(path.into()), ..e })?
        }
        other => other,
    };
    Ok(Some(WantedForm { path: path.to_owned(), source: FormSource::Tag(tag) }))
}

fn structured_outputs(value: Value, path: &str) -> Result<Option<WantedForm>, ApiError> {
    let Value::Object(map) = value else { return Err(wrong(path, &value, "an object")) };
    let mut given = map.into_iter().filter(|(_, value)| !value.is_null() && *value != false);
    let one = given.next().filter(|_| given.next().is_none());
    let known = one.and_then(|(name, value)| {
        let (known, make) = STRUCTURED.iter().find(|(known, _)| *known == name)?;
        Some((format!("{path}.{known}"), make, value))
    });
    match known {
        Some((path, make, value)) => make(value, &path),
        None => {
            let names: Vec<&str> = STRUCTURED.iter().map(|(name, _)| *name).collect();
            Err(ApiError::at(path, format!("{path} must have one of {}", names.join(" "))))
        }
    }
}

fn wrong(path: &str, value: &Value, want: &str) -> ApiError {
    ApiError::at(path, format!("{path} is {}, but must be {want}", kind(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Option<FormSource>, String> {
        response_format(value, "f").map(|f| f.map(|f| f.source)).map_err(|e| e.param.unwrap_or_default())
    }

    #[test]
    fn formats_are_read_in_all_spellings() {
        let schema = |lenient| Ok(Some(FormSource::Schema { schema: json!({ "type": "null" }), lenient }));
        assert_eq!(read(json!({ "type": "text" })), Ok(None));
        assert_eq!(read(json!({ "type": "json_object" })), Ok(Some(FormSource::Json)));
        let inner = json!({ "name": "x", "schema": { "type": "null" }, "strict": false });
        assert_eq!(read(json!({ "type": "json_schema", "json_schema": inner })), schema(true));
        assert_eq!(read(json!({ "type": "json_schema", "schema": { "type": "null" } })), schema(false));
        assert_eq!(read(json!({ "type": "json_object", "schema": { "type": "null" } })), schema(false));
        assert_eq!(read(json!({ "type": "yaml" })), Err("f.type".into()));
        assert_eq!(
            read(json!({ "type": "json_schema", "json_schema": {} })),
            Err("f.json_schema.schema".into())
        );
        assert_eq!(read(json!("json")), Err("f".into()));
    }

    #[test]
    fn one_of_the_structured_outputs() {
        let read = |value| structured_outputs(value, "s").map(|f| f.map(|f| f.source)).map_err(|e| e.param);
        assert_eq!(read(json!({ "regex": "a+", "json": null })), Ok(Some(FormSource::Regex("a+".into()))));
        assert_eq!(read(json!({ "choice": ["a"], "regex": "a" })), Err(Some("s".into())));
        assert_eq!(read(json!({ "choice": "a" })), Err(Some("s.choice".into())));
        assert_eq!(read(json!({})), Err(Some("s".into())));
    }
}

//! JSON schemas, keyword by keyword, from the specification (2020-12): what a schema that compiles accepts is valid,
//! and what is valid is accepted, in the spelling that answers have.

use lamina_grammar::{Grammar, GrammarError, SchemaOptions};
use serde_json::{Value, json};

fn grammar(schema: &Value) -> Grammar {
    Grammar::json_schema(schema, SchemaOptions::default()).unwrap_or_else(|e| panic!("{schema}: {e}"))
}

#[track_caller]
fn check(schema: Value, valid: &[&str], invalid: &[&str]) {
    let grammar = grammar(&schema);
    for text in valid {
        assert!(grammar.matches(text), "{schema} refuses {text}");
    }
    for text in invalid {
        assert!(!grammar.matches(text), "{schema} accepts {text}");
    }
}

#[track_caller]
fn refused(schema: Value, keyword: &str, path: &str) {
    match Grammar::json_schema(&schema, SchemaOptions::default()) {
        Err(GrammarError::Refused { keyword: k, path: p, .. }) => {
            assert_eq!((k.as_str(), p.as_str()), (keyword, path), "{schema}")
        }
        other => panic!("{schema} is not refused: {other:?}"),
    }
}

#[test]
fn any_value_satisfies_an_empty_schema() {
    let texts = ["1", "-2.5e3", "\"a\"", "true", "null", "[]", "[1, {}]", "{\"a\": [null]}"];
    check(json!({}), &texts, &["", "nul", "[1,]", "{a: 1}", "01", "+1", "\"a", "1 2", "'a'"]);
    check(json!(true), &texts, &["tru"]);
    check(json!({ "$comment": "x", "title": "t", "default": 3, "x-own": 1 }), &texts, &["x"]);
}

#[test]
fn nothing_satisfies_false_and_contradictions() {
    for schema in [
        json!(false),
        json!({ "enum": [] }),
        json!({ "not": {} }),
        json!({ "type": "integer", "minimum": 3, "maximum": 2 }),
        json!({ "type": "string", "minLength": 3, "maxLength": 2 }),
        json!({ "allOf": [{ "type": "string" }, { "type": "number" }] }),
        json!({ "type": "object", "required": ["a"], "properties": { "a": false } }),
    ] {
        let grammar = grammar(&schema);
        assert!(!grammar.is_satisfiable(), "{schema}");
        assert!(!grammar.matches("1") && !grammar.matches("{}") && !grammar.allows(""));
    }
}

#[test]
fn types() {
    check(json!({ "type": "null" }), &["null"], &["0", "\"null\""]);
    check(json!({ "type": "boolean" }), &["true", "false"], &["1", "null"]);
    check(json!({ "type": "integer" }), &["0", "-7", "12345678901234567890"], &["1.5", "\"1\"", "01"]);
    check(json!({ "type": "number" }), &["0", "-7.25", "1e5", "2E-3"], &["\"1\"", ".5", "1."]);
    check(json!({ "type": "string" }), &["\"\"", "\"é\\n\""], &["1", "\"\n\""]);
    check(json!({ "type": "array" }), &["[]", "[1, \"a\"]"], &["{}", "[1 2]"]);
    check(json!({ "type": "object" }), &["{}", "{\"a\": 1}"], &["[]"]);
    check(json!({ "type": ["null", "integer"] }), &["null", "3"], &["true", "\"3\""]);
}

#[test]
fn enum_and_const() {
    check(
        json!({ "enum": [1, "a", null, [1, 2], { "k": true }] }),
        &["1", "\"a\"", "null", "[1, 2]", "{\"k\": true}"],
        &["2", "\"b\"", "[2, 1]", "{\"k\": false}", "{}"],
    );
    check(json!({ "const": "a\"b\n" }), &["\"a\\\"b\\n\""], &["\"a\"", "\"ab\""]);
    check(json!({ "const": 2.5 }), &["2.5"], &["2.4", "2"]);
    check(json!({ "const": false }), &["false"], &["0", "true"]);
    check(json!({ "type": "string", "enum": ["ab", "abc", 3] }), &["\"ab\"", "\"abc\""], &["3", "\"a\""]);
}

#[test]
fn bounds_of_numbers() {
    check(
        json!({ "type": "integer", "minimum": -2, "maximum": 11 }),
        &["-2", "0", "9", "10", "11"],
        &["-3", "12", "100"],
    );
    check(
        json!({ "type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3 }),
        &["1", "2"],
        &["0", "3"],
    );
    check(
        json!({ "type": "number", "minimum": 0.5, "maximum": 1.25 }),
        &["0.5", "1", "1.25", "0.75"],
        &["0.4", "1.26", "2", "-1"],
    );
    check(json!({ "type": "number", "exclusiveMinimum": 1 }), &["1.5", "2", "100.25"], &["1", "0", "-3"]);
    check(json!({ "type": "integer", "multipleOf": 7 }), &["0", "7", "-14", "700"], &["1", "8", "-6"]);
    check(json!({ "type": "number", "multipleOf": 0.5 }), &["0", "1.5", "-2"], &["0.25", "1.3"]);
    check(json!({ "minimum": 5 }), &["5", "\"a\"", "null", "[]"], &["4"]);
    check(
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 3, "exclusiveMinimum": true }),
        &["4"],
        &["3"],
    );
    refused(json!({ "properties": { "a": { "const": 9007199254740993u64 } } }), "const", "/properties/a");
    refused(json!({ "maximum": 1e300 }), "maximum", "");
}

#[test]
fn strings() {
    check(
        json!({ "type": "string", "minLength": 2, "maxLength": 3 }),
        &["\"ab\"", "\"éé\"", "\"😀\\n\\\"\""],
        &["\"a\"", "\"abcd\"", "\"\""],
    );
    check(
        json!({ "type": "string", "pattern": "^a+$" }),
        &["\"a\"", "\"aaa\""],
        &["\"\"", "\"ab\"", "\"ba\""],
    );
    check(json!({ "type": "string", "pattern": "b" }), &["\"b\"", "\"abc\""], &["\"\"", "\"ac\""]);
    check(
        json!({ "type": "string", "pattern": "^\\d{3}-[A-Z]|x$" }),
        &["\"123-Aq\"", "\"qx\""],
        &["\"12-A\"", "\"xq\""],
    );
    check(json!({ "type": "string", "pattern": "^.$" }), &["\"a\"", "\"é\""], &["\"\\n\"", "\"ab\""]);
    check(json!({ "pattern": "^a" }), &["\"ab\"", "1", "null", "{}"], &["\"b\""]);
    check(json!({ "type": "string", "pattern": "^a", "maxLength": 2 }), &["\"a\"", "\"ab\""], &["\"abc\""]);
    refused(json!({ "items": { "pattern": "(?=a)b" } }), "pattern", "/items");
}

#[test]
fn formats() {
    let format = |name: &str| json!({ "type": "string", "format": name });
    let quoted = |texts: &[&str]| texts.iter().map(|t| json!(t).to_string()).collect::<Vec<_>>();
    let check = |name: &str, valid: &[&str], invalid: &[&str]| {
        let (valid, invalid) = (quoted(valid), quoted(invalid));
        let refs = |v: &[String]| v.to_vec();
        let (valid, invalid) = (refs(&valid), refs(&invalid));
        let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
        let invalid: Vec<&str> = invalid.iter().map(String::as_str).collect();
        self::check(format(name), &valid, &invalid);
    };
    check(
        "date",
        &["2024-02-29", "1999-12-31", "2000-02-29"],
        &["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "2024-1-1"],
    );
    check(
        "time",
        &["12:00:00Z", "23:59:60Z", "08:30:06.25-08:00"],
        &["24:00:00Z", "12:00:60Z", "12:00:00", "12:60:00Z"],
    );
    check(
        "date-time",
        &["2024-02-29T12:00:00Z", "1998-12-31t23:59:60.5z"],
        &["2023-02-29T12:00:00Z", "2024-02-28 12:00:00Z"],
    );
    check(
        "duration",
        &["P1D", "PT36H", "P1Y2M3DT4H5M6S", "P4W", "P1M"],
        &["P", "PT", "P1YT", "P1D2H", "P2S", "P1Y2W"],
    );
    check(
        "email",
        &["joe@example.com", "a.b+c@d", "\"a b\"@x.org", "x@[127.0.0.1]"],
        &["joe", "a..b@x", ".a@x", "a@", "a@-x", "a@[300.0.0.1]"],
    );
    check(
        "hostname",
        &["a", "www.example.com", "x-1.y", "a--b.c"],
        &["-a", "a-", "a_b", "", "a..b", "xn--X"],
    );
    check("ipv4", &["0.0.0.0", "255.1.99.10"], &["256.0.0.0", "1.2.3", "01.2.3.4"]);
    check(
        "ipv6",
        &["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2::3:4"],
        &["1:2:3:4:5:6:7", ":::", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "::1.2.3", "1:2:3:4:5:6:7::8:9"],
    );
    check(
        "uuid",
        &["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
        &["2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380"],
    );
    check(
        "uri",
        &["http://x.y/z?q#f", "urn:a:b", "mailto:a@b", "http://[::1]:80/"],
        &["//x", "a b:c", "http://a b", "\\\\x", "abc", "http://[x]"],
    );
    check("uri-reference", &["", "/a", "a/b", "http://x", "#f"], &["\\\\a", "a b"]);
    check("json-pointer", &["", "/a/b~1c~0"], &["a", "/~2", "/~"]);
    check("relative-json-pointer", &["0", "1/a", "2#"], &["/a", "-1", "01"]);
    refused(json!({ "properties": { "a/b": { "format": "iri" } } }), "format", "/properties/a~1b");
    let unknown = grammar(&json!({ "format": "int32" }));
    assert!(unknown.matches("\"x\"") && unknown.warnings().len() == 1);
}

#[test]
fn arrays() {
    check(
        json!({ "type": "array", "items": { "type": "integer" } }),
        &["[]", "[1]", "[1, 2,3]"],
        &["[\"a\"]", "[1, null]"],
    );
    check(
        json!({ "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "string" }] }),
        &["[]", "[1]", "[1, \"a\"]", "[1, \"a\", null]"],
        &["[\"a\"]", "[1, 2]"],
    );
    check(
        json!({ "type": "array", "prefixItems": [{ "const": 1 }], "items": false }),
        &["[]", "[1]"],
        &["[1, 2]"],
    );
    check(
        json!({ "type": "array", "items": [{ "const": 1 }], "additionalItems": { "const": 2 } }),
        &["[]", "[1]", "[1, 2, 2]"],
        &["[2]", "[1, 1]"],
    );
    check(
        json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": true }),
        &["[1]", "[1, 2]"],
        &["[]", "[1, 2, 3]"],
    );
    check(json!({ "type": "array", "uniqueItems": true, "maxItems": 1 }), &["[]", "[1]"], &["[1, 1]"]);
    check(
        json!({ "type": "array", "unevaluatedItems": false, "prefixItems": [true] }),
        &["[]", "[1]"],
        &["[1, 2]"],
    );
    check(json!({ "type": "array", "contains": {}, "minContains": 2 }), &["[1, 2]"], &["[1]"]);
    refused(
        json!({ "properties": { "tags": { "type": "array", "uniqueItems": true } } }),
        "uniqueItems",
        "/properties/tags",
    );
    refused(json!({ "contains": { "const": 1 } }), "contains", "");
}

#[test]
fn objects() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "string" } }, "required": ["a"] });
    check(
        schema,
        &["{\"a\": 1}", "{\"a\":1,\"b\":\"x\"}", "{\"a\": 1, \"c\": null}"],
        &["{}", "{\"b\": \"x\"}", "{\"a\": \"1\"}", "{\"a\": 1, \"b\": 2}"],
    );
    check(
        json!({ "type": "object", "properties": { "a": true }, "additionalProperties": false }),
        &["{}", "{\"a\": 1}"],
        &["{\"b\": 1}", "{\"a\": 1, \"a\": 2}"],
    );
    check(
        json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
        &["{}", "{\"x\": 1, \"y\": 2}"],
        &["{\"x\": \"1\"}"],
    );
    check(
        json!({ "type": "object", "patternProperties": { "^i_": { "type": "integer" } }, "additionalProperties": false }),
        &["{}", "{\"i_a\": 1}"],
        &["{\"i_a\": \"x\"}", "{\"j\": 1}"],
    );
    check(
        json!({ "additionalProperties": false, "anyOf": [{ "type": "object" }, { "type": "null" }], "patternProperties": { "a": true } }),
        &["{\"a\": 1}", "null"],
        &["{\"b\": 1}", "3"],
    );
    check(
        json!({ "type": "object", "minProperties": 1, "maxProperties": 2 }),
        &["{\"a\": 1}", "{\"a\": 1, \"b\": 2}"],
        &["{}", "{\"a\": 1, \"b\": 2, \"c\": 3}"],
    );
    check(
        json!({ "type": "object", "propertyNames": { "pattern": "^[a-c]+$" } }),
        &["{}", "{\"ab\": 1}"],
        &["{\"d\": 1}"],
    );
    check(
        json!({ "type": "object", "propertyNames": { "enum": ["x", "y"] } }),
        &["{}", "{\"x\": 1, \"y\": 2}"],
        &["{\"z\": 1}"],
    );
    check(
        json!({ "type": "object", "propertyNames": { "maxLength": 2 } }),
        &["{\"ab\": 1}"],
        &["{\"abc\": 1}"],
    );
    refused(json!({ "minProperties": 2 }), "minProperties", "");
    refused(
        json!({ "properties": { "a": { "propertyNames": { "format": "date" } } } }),
        "propertyNames",
        "/properties/a",
    );
}

/// A key in a second spelling must not slip past `properties` into `additionalProperties`.
#[test]
fn keys_have_one_spelling() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    check(schema, &["{\"a\": 1, \"b\": \"x\"}"], &["{\"\\u0061\": \"x\"}", "{\"b\": 1, \"\\u0061\": \"x\"}"]);
    let schema = json!({ "type": "object", "properties": { "a\n": { "type": "integer" } } });
    check(schema, &["{\"a\\n\": 1}"], &["{\"a\\u000a\": \"x\"}"]);
}

#[test]
fn dependencies() {
    let required = json!({ "type": "object", "properties": { "a": true, "b": true }, "dependentRequired": { "a": ["b"] }, "additionalProperties": false });
    check(required, &["{}", "{\"b\": 1}", "{\"a\": 1, \"b\": 2}"], &["{\"a\": 1}"]);
    let schemas = json!({ "type": "object", "properties": { "a": true, "b": true }, "dependentSchemas": { "a": { "properties": { "b": { "type": "null" } } } } });
    check(schemas, &["{}", "{\"b\": 1}", "{\"a\": 1, \"b\": null}", "{\"a\": 1}"], &["{\"a\": 1, \"b\": 1}"]);
    check(
        json!({ "type": "object", "properties": { "a": true, "b": true }, "dependencies": { "a": ["b"] } }),
        &["{\"a\": 1, \"b\": 2}"],
        &["{\"a\": 1}"],
    );
}

#[test]
fn combinations() {
    check(
        json!({ "allOf": [{ "type": "integer" }, { "minimum": 3 }, { "maximum": 5 }] }),
        &["3", "5"],
        &["2", "6", "\"a\""],
    );
    check(
        json!({ "anyOf": [{ "type": "integer" }, { "type": "string", "maxLength": 1 }] }),
        &["3", "\"a\""],
        &["\"ab\"", "null"],
    );
    check(json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] }), &["3", "\"a\""], &["null"]);
    check(
        json!({ "oneOf": [{ "type": "integer", "minimum": 2 }, { "type": "integer", "maximum": 4 }] }),
        &["1", "5"],
        &["2", "3", "4"],
    );
    check(
        json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }], "type": "object", "properties": { "a": true, "b": true }, "additionalProperties": false }),
        &["{\"a\": 1}", "{\"b\": 1}"],
        &["{}", "{\"a\": 1, \"b\": 1}"],
    );
    let tagged = json!({
        "oneOf": [{ "$ref": "#/$defs/cat" }, { "$ref": "#/$defs/dog" }],
        "$defs": {
            "cat": { "type": "object", "properties": { "kind": { "const": "cat" }, "lives": { "type": "integer" } }, "required": ["kind"] },
            "dog": { "type": "object", "properties": { "kind": { "const": "dog" }, "tricks": { "type": "array" } }, "required": ["kind"] },
        },
    });
    check(
        tagged,
        &["{\"kind\": \"cat\", \"lives\": 9}", "{\"kind\": \"dog\", \"lives\": \"x\"}"],
        &["{\"kind\": \"cow\"}", "{}", "{\"kind\": \"cat\", \"lives\": \"x\"}"],
    );
    check(json!({ "anyOf": [{ "const": 1 }], "oneOf": [{ "const": 1 }, { "const": 2 }] }), &["1"], &["2"]);
    refused(
        json!({ "properties": { "a": { "oneOf": [{ "pattern": "a" }, { "pattern": "b" }] } } }),
        "oneOf",
        "/properties/a",
    );
}

#[test]
fn not_is_pushed_inwards() {
    check(json!({ "not": { "type": "string" } }), &["1", "null", "{}"], &["\"a\""]);
    check(
        json!({ "type": "string", "not": { "enum": ["a", "ab", ""] } }),
        &["\"b\"", "\"abc\"", "\"aa\""],
        &["\"a\"", "\"ab\"", "\"\""],
    );
    check(json!({ "type": "integer", "not": { "const": 3 } }), &["2", "4", "-3"], &["3"]);
    check(json!({ "type": "object", "not": { "required": ["a"] } }), &["{}", "{\"b\": 1}"], &["{\"a\": 1}"]);
    check(
        json!({ "type": "object", "properties": { "a": true }, "not": { "properties": { "a": { "const": 1 } } } }),
        &["{\"a\": 2}"],
        &["{}", "{\"a\": 1}"],
    );
    check(
        json!({ "type": "integer", "not": { "anyOf": [{ "minimum": 5 }, { "maximum": 2 }] } }),
        &["3", "4"],
        &["2", "5"],
    );
    check(json!({ "not": false }), &["1"], &[]);
    refused(json!({ "not": { "pattern": "a" } }), "not", "");
}

#[test]
fn conditions() {
    let schema = json!({
        "type": "object",
        "properties": { "kind": { "enum": ["n", "s"] }, "value": true },
        "required": ["kind", "value"],
        "if": { "properties": { "kind": { "const": "n" } } },
        "then": { "properties": { "value": { "type": "number" } } },
        "else": { "properties": { "value": { "type": "string" } } },
    });
    check(
        schema,
        &["{\"kind\": \"n\", \"value\": 1}", "{\"kind\": \"s\", \"value\": \"x\"}"],
        &["{\"kind\": \"n\", \"value\": \"x\"}", "{\"kind\": \"s\", \"value\": 1}"],
    );
    check(json!({ "then": false, "type": "null" }), &["null"], &[]);
    refused(json!({ "if": { "pattern": "a" }, "then": { "minLength": 3 } }), "if", "");
}

#[test]
fn what_has_no_form_is_named_with_its_place() {
    // The opposite of a pattern has no form in patterns.
    let code = json!({ "if": { "properties": { "a": { "pattern": "^x" } } }, "then": { "required": ["b"] } });
    refused(json!({ "properties": { "p/q": code } }), "if", "/properties/p~1q");
    refused(json!({ "items": { "not": { "multipleOf": 3 } } }), "not", "/items");
    let members: serde_json::Map<String, Value> =
        (0..2_001).map(|i| (format!("m{i}"), json!(true))).collect();
    let branches: Vec<Value> = (0..2_001).map(|i| json!({ "const": i })).collect();
    for (schema, place) in [
        (json!({ "items": { "type": "object", "properties": members } }), "properties at /items: "),
        (json!({ "anyOf": branches }), "anyOf at the root: "),
        (json!({ "items": { "oneOf": branches } }), "oneOf at /items: "),
    ] {
        let error = Grammar::json_schema(&schema, SchemaOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains("2001 optional members"), "{error}");
    }
}

#[test]
fn unevaluated_members() {
    let schema = json!({
        "type": "object",
        "allOf": [{ "properties": { "a": true } }, { "$ref": "#/$defs/b" }],
        "unevaluatedProperties": false,
        "$defs": { "b": { "properties": { "b": { "type": "integer" } } } },
    });
    check(schema, &["{}", "{\"a\": 1, \"b\": 2}"], &["{\"c\": 1}", "{\"b\": \"x\"}"]);
    refused(
        json!({ "anyOf": [{ "properties": { "a": true } }], "unevaluatedProperties": false }),
        "unevaluatedProperties",
        "",
    );
}

#[test]
fn references() {
    let list = json!({ "$ref": "#/$defs/node", "$defs": { "node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/node" } }, "additionalProperties": false } } });
    check(list, &["{}", "{\"next\": {\"next\": {}}}"], &["{\"next\": 1}", "{\"x\": {}}"]);
    check(
        json!({ "properties": { "a": { "$ref": "#" } }, "type": "object", "additionalProperties": false }),
        &["{\"a\": {\"a\": {}}}"],
        &["{\"a\": 1}"],
    );
    check(json!({ "$ref": "#/$defs/a%25b~1c", "$defs": { "a%b/c": { "type": "null" } } }), &["null"], &["1"]);
    check(
        json!({ "$id": "http://x.y/root.json", "$ref": "item.json", "$defs": { "i": { "$id": "item.json", "$ref": "#it", "$defs": { "z": { "$anchor": "it", "type": "null" } } } } }),
        &["null"],
        &["1"],
    );
    check(
        json!({ "$ref": "#/$defs/a", "minimum": 3, "$defs": { "a": { "type": "integer" } } }),
        &["3"],
        &["2", "\"a\""],
    );
    check(
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "minimum": 3, "definitions": { "a": { "type": "integer" } } }),
        &["2", "3"],
        &["\"a\""],
    );
    check(
        json!({ "properties": { "$ref": { "type": "integer" } }, "type": "object" }),
        &["{\"$ref\": 1}"],
        &["{\"$ref\": \"a\"}"],
    );
    refused(json!({ "items": { "$ref": "http://example.com/other.json" } }), "$ref", "/items");
    let missing = Grammar::json_schema(&json!({ "$ref": "#/$defs/x" }), SchemaOptions::default());
    assert!(matches!(missing, Err(GrammarError::Schema { .. })), "{missing:?}");
}

#[test]
fn a_schema_that_is_none_is_named_with_its_place() {
    for (schema, path) in [
        (json!({ "properties": { "a": 3 } }), "/properties/a"),
        (json!({ "items": { "type": "strin" } }), "/items/type"),
        (json!({ "minLength": -1 }), "/minLength"),
        (json!({ "required": "a" }), "/required"),
        (json!({ "allOf": {} }), "/allOf"),
        (json!({ "multipleOf": 0 }), "/multipleOf"),
        (json!(3), ""),
    ] {
        match Grammar::json_schema(&schema, SchemaOptions::default()) {
            Err(GrammarError::Schema { path: p, .. }) => assert_eq!(p, path, "{schema}"),
            other => panic!("{schema}: {other:?}"),
        }
    }
}

#[test]
fn lenient_names_what_it_leaves_out() {
    let schema = json!({ "type": "array", "uniqueItems": true, "items": { "format": "iri", "not": { "pattern": "a" } } });
    let grammar =
        Grammar::json_schema(&schema, SchemaOptions { lenient: true, ..SchemaOptions::default() }).unwrap();
    assert!(grammar.matches("[\"a\", \"a\"]"));
    let warnings = grammar.warnings().join("\n");
    for place in ["uniqueItems at the root", "format at /items", "not at /items"] {
        assert!(warnings.contains(place), "{warnings}");
    }
}

#[test]
fn an_open_door_of_the_library_is_shut() {
    let schema = json!({ "type": "integer", "x-guidance": { "lenient": true, "coerce_one_of": true } });
    check(schema, &["1"], &["\"a\""]);
    refused(json!({ "x-guidance": { "lenient": true }, "uniqueItems": true }), "uniqueItems", "");
}

#[test]
fn white_space_is_bounded_or_none() {
    let schema = json!({ "type": "array", "items": { "type": "integer" } });
    let any = grammar(&schema);
    let line = |indent| format!("[\n{}1,\r\n\t2, 3 ]", " ".repeat(indent));
    assert!(any.matches(line(0)) && any.matches(line(40)) && !any.matches(line(41)));
    assert!(!any.matches("[  1]") && !any.matches("[\n\n1]") && !any.matches("[ \n1]"));
    let compact =
        Grammar::json_schema(&schema, SchemaOptions { compact: true, ..SchemaOptions::default() }).unwrap();
    assert!(compact.matches("[1,2]") && !compact.matches("[1, 2]"));
}

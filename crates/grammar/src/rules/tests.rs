//! Random schemas by both compilers: the masks along random texts have the same bits.

use lamina_fixtures::Numbers;
use serde_json::{Map, Value, json};

use crate::compile::{ReadSchema, by_library, compile, read};
use crate::lowered::{Lowered, SchemaOptions};
use crate::matcher::{GrammarMatcher, Stop};
use crate::schema;
use crate::slices::slices;
use crate::vocab::Vocabulary;

/// Tokens of bytes, and of what schemas write.
fn vocabulary() -> Vocabulary {
    let parts = [
        "a", "b1", "\"", "\": ", ",\n ", "{\"", "\"}", "[", "]", "12", "-", "0.", "tr", "ue", "null", "\\n",
        "é", "x@y.z",
    ];
    let pairs = parts.iter().flat_map(|a| parts.iter().map(move |b| format!("{a}{b}").into_bytes()));
    let words: Vec<Vec<u8>> =
        (0..255u8).map(|byte| vec![byte]).chain(pairs).chain([b"\xFF<end>".to_vec()]).collect();
    Vocabulary::of_words(&words, &[words.len() as u32 - 1], None, &slices()).expect("a vocabulary")
}

fn leaf(random: &mut Numbers) -> Value {
    let bounds = [-1200, -35, -9, -1, 0, 1, 7, 10, 64, 99, 100, 1000, 65535];
    let mut bounded = json!({ "type": "integer" });
    for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
        if random.below(3) == 0 {
            bounded[key] = json!(random.pick(&bounds));
        }
    }
    let mut text = json!({ "type": "string" });
    for key in ["minLength", "maxLength"] {
        if random.below(3) == 0 {
            text[key] = json!(random.below(6));
        }
    }
    if random.below(2) == 0 {
        let patterns = ["^[a-z]+$", "b[0-9]", "^(a|b\"|é)*$", "^$", "^x{2,4}@", "\\n", "[^a]"];
        text["pattern"] = json!(random.pick(&patterns));
    }
    let formats = ["date", "email", "uri", "uuid", "ipv4", "date-time", "ipv6"];
    random
        .pick(&[
            bounded,
            text,
            json!({ "type": "string", "format": random.clone().pick(&formats) }),
            json!({ "enum": ["a", "b1", "say \"a\"\n", null, 12, -1, true] }),
            json!({ "type": "string", "enum": ["a", "ab", "abc", 1] }),
            json!({ "const": "a" }),
            json!({ "type": ["string", "null", "integer"], "maxLength": 3 }),
            json!({ "type": "number" }),
            json!({ "type": "number", "minimum": 0 }),
            json!({ "type": "boolean" }),
            json!({ "$ref": "#/$defs/one" }),
            json!({ "$ref": "#/$defs/two" }),
            json!({}),
        ])
        .clone()
}

fn random_schema(random: &mut Numbers, depth: usize) -> Value {
    match if depth == 0 { 9 } else { random.below(8) } {
        0..=2 => random_object(random, depth),
        3 => {
            let mut list = json!({ "type": "array", "items": random_schema(random, depth - 1) });
            for key in ["minItems", "maxItems"] {
                if random.below(2) == 0 {
                    list[key] = json!(random.below(5));
                }
            }
            list
        }
        4 | 5 => {
            let branches: Vec<Value> =
                (0..1 + random.below(3)).map(|_| random_schema(random, depth - 1)).collect();
            json!({ "anyOf": branches })
        }
        6 => {
            json!({ "type": ["object", "array", "boolean"], "additionalProperties": random_schema(random, depth - 1) })
        }
        _ => leaf(random),
    }
}

fn random_object(random: &mut Numbers, depth: usize) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for name in ["a", "b1", "say \"a\"", "é", "ab"] {
        if random.below(2) == 0 {
            properties.insert(
                name.into(),
                if random.below(12) == 0 { json!(false) } else { random_schema(random, depth - 1) },
            );
            if random.below(2) == 0 {
                required.push(name);
            }
        }
    }
    let mut object = json!({ "type": "object", "properties": properties, "required": required });
    match random.below(5) {
        0 => object["additionalProperties"] = json!(false),
        1 => object["additionalProperties"] = random_schema(random, depth - 1),
        2 => {
            object = json!({ "type": "object", "patternProperties": { "^b[0-9]": random_schema(random, depth - 1) }, "additionalProperties": random.below(2) == 0 })
        }
        _ => {}
    }
    object
}

fn mask(matcher: &mut GrammarMatcher, vocabulary: &Vocabulary) -> Vec<u32> {
    let mut mask = vec![0; vocabulary.mask_words()];
    // A place that nothing follows is an error of both.
    let _ = matcher.mask(&mut mask);
    mask
}

/// The masks of both along a random text.
fn same_along(
    ours: &mut GrammarMatcher,
    theirs: &mut GrammarMatcher,
    vocabulary: &Vocabulary,
    random: &mut Numbers,
    schema: &Value,
) {
    for _ in 0..40 {
        let (our_mask, their_mask) = (mask(ours, vocabulary), mask(theirs, vocabulary));
        assert_eq!(our_mask, their_mask, "after {:?} of {schema}", theirs.tail());
        let legal: Vec<u32> = (0..vocabulary.size() as u32)
            .filter(|id| their_mask[*id as usize / 32] >> (id % 32) & 1 == 1)
            .collect();
        if legal.is_empty() || theirs.stopped() == Some(Stop::Complete) {
            return;
        }
        // Long tokens and quotes as often as all others together: else texts never leave their first string.
        let word = |id: &&u32| **id >= 255 || **id == u32::from(b'"');
        let words: Vec<u32> = legal.iter().filter(word).copied().collect();
        let any = words.is_empty() || random.below(2) == 0;
        let token = *random.pick(if any { &legal } else { &words });
        ours.accept(token).expect("a legal token");
        theirs.accept(token).expect("a legal token");
        if ours.stopped().is_some() {
            assert_eq!(ours.stopped(), theirs.stopped(), "{schema}");
            return;
        }
    }
}

#[test]
fn masks_are_those_of_the_librarys_compiler() {
    let vocabulary = vocabulary();
    let mut random = Numbers::fuzz(27);
    let (mut read_here, mut refused) = (0, 0);
    let rounds = 150;
    for _ in 0..rounds {
        let mut schema = random_schema(&mut random, 3);
        let (one, two) = (random_object(&mut random, 2), random_schema(&mut random, 1));
        schema["$defs"] = json!({ "one": one, "two": { "type": "array", "items": two } });
        let Ok((normal, _)) = schema::normalize(&schema, SchemaOptions::default()) else { continue };
        let Some(ours) = super::read(&normal) else { continue };
        read_here += 1;
        let lowered = Lowered::Schema(normal.clone());
        let theirs = by_library(&lowered, &normal);
        let Ok(theirs) = theirs.and_then(|read| compile(&lowered, Some(read), &vocabulary)) else {
            refused += 1;
            println!("only here: {schema}");
            continue;
        };
        let ours = ReadSchema { rules: ours.0, lexer: ours.1 };
        let ours = compile(&lowered, Some(ours), &vocabulary).expect("a grammar");
        for _ in 0..4 {
            let [mut ours, mut theirs] =
                [&ours, &theirs].map(|compiled| GrammarMatcher::new(compiled, &vocabulary));
            same_along(&mut ours, &mut theirs, &vocabulary, &mut random, &schema);
        }
    }
    assert!(read_here * 3 > rounds, "only {read_here} of {rounds} were read here");
    assert_eq!(refused, 0, "schemas that the library refuses");
}

#[test]
fn what_is_rare_is_left_to_the_library() {
    for schema in [
        json!({ "type": "array", "prefixItems": [{ "type": "null" }] }),
        json!({ "type": "object", "maxProperties": 2 }),
        json!({ "type": "string", "minLength": 3, "maxLength": 2 }),
        json!({ "type": "integer", "minimum": 3, "maximum": 2 }),
        json!({ "type": "string", "pattern": "a", "enum": ["a"] }),
        json!({ "type": "number", "maximum": 2.5 }),
    ] {
        let (normal, _) = schema::normalize(&schema, SchemaOptions::default()).expect("a schema");
        assert!(super::read(&normal).is_none(), "{schema}");
        let unsatisfiable = schema["minLength"] == 3 || schema["minimum"] == 3;
        assert_eq!(read(&Lowered::Schema(normal)).is_err(), unsatisfiable, "{schema}");
    }
}

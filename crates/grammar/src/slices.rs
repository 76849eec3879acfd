//! Slices: sets of tokens that a mask takes whole, without a walk over them, where the lexer allows each of their texts.

/// Expressions of the slices' tokens; one whose texts another has as well lies inside of it.
///
/// Measured over the masks of `benches/record/masks`: letters and digits, which addresses, identifiers and most patterns
/// allow and whose tokens are a third of a vocabulary, make the 99th percentile a seventh smaller. More
/// slices (of digits, lower case, ten letters, the characters of a URI) changed nothing beyond the noise.
pub(crate) fn slices() -> Vec<String> {
    const LETTERS: &str = "[a-zA-Z0-9]+";
    const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]+";
    // Of strings in JSON: of any length, and as far as a `maxLength` of that many characters.
    const STRING: &str = r#"[^"\\\x00-\x1F\x7F]"#;
    let strings = ["{1,10}", "{1,30}", "+"].map(|count| format!("{STRING}{count}"));
    [WHITE_SPACE, LETTERS].map(str::to_owned).into_iter().chain(strings).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Grammar, GrammarMatcher, SchemaOptions, Vocabulary};
    use serde_json::{Value, json};

    /// Bytes, and words of letters, digits, quotes and white space of which masks are made.
    fn words() -> Vec<Vec<u8>> {
        let parts = ["ab", "C3", "x-", "://", "@e", ".c", "\": \"", "\n  ", "é", "0", "\\n", " w", "/", "12"];
        let pairs = parts.iter().flat_map(|a| parts.iter().map(move |b| format!("{a}{b}").into_bytes()));
        let long = ["abcdefghijk", "a1B2c3D4e5F6g7", "a long text of words and more than thirty letters"];
        let long = long.iter().map(|word| word.as_bytes().to_vec());
        (0..255u8).map(|byte| vec![byte]).chain(pairs).chain(long).chain([b"\xFF<end>".to_vec()]).collect()
    }

    fn cases() -> Vec<(Value, &'static str)> {
        let one = |of: Value| json!({ "type": "object", "properties": { "a": of }, "required": ["a"] });
        let text = |key: &str, value: Value| one(json!({ "type": "string", key: value }));
        vec![
            (text("format", json!("uri")), r#"{"a": "https://ab.example/C3?x=12#C3"}"#),
            (text("format", json!("email")), r#"{"a": "ab.C3@example.org"}"#),
            (text("pattern", json!("^[a-z][a-z0-9-]*$")), r#"{"a": "ab-12-abcdefghijk"}"#),
            (text("pattern", json!("^[a-zA-Z0-9]{3,12}$")), r#"{"a": "abcdefghijk"}"#),
            (text("maxLength", json!(12)), r#"{"a": "ab\n12 w"}"#),
            (text("enum", json!(["ab", "abC3", "é"])), r#"{"a": "abC3"}"#),
            (one(json!({ "type": "string" })), "{\n  \"a\": \"ab w\", \"C3\": [12.0, {\"x\": null}]}"),
        ]
    }

    fn mask(matcher: &mut GrammarMatcher, vocabulary: &Vocabulary) -> Vec<u32> {
        let mut mask = vec![0; vocabulary.mask_words()];
        matcher.mask(&mut mask).expect("a mask");
        mask
    }

    #[test]
    fn masks_are_the_same_without_slices() {
        let (words, end) = (words(), words().len() as u32 - 1);
        let made =
            |slices: &[String]| Vocabulary::of_words(&words, &[end], None, slices).expect("a vocabulary");
        let (sliced, plain) = (made(&super::slices()), made(&[]));
        for (schema, text) in cases() {
            let grammar = Grammar::json_schema(&schema, SchemaOptions::default()).expect("a schema");
            let mut fast = grammar.matcher(&sliced).expect("a matcher");
            let mut slow = grammar.matcher(&plain).expect("a matcher");
            for (at, byte) in text.bytes().enumerate() {
                let (fast_mask, slow_mask) = (mask(&mut fast, &sliced), mask(&mut slow, &plain));
                assert_eq!(
                    fast_mask,
                    slow_mask,
                    "{schema} after {:?}",
                    &text.as_bytes()[..at].escape_ascii().to_string()
                );
                fast.accept(u32::from(byte)).expect("a byte of the text");
                slow.accept(u32::from(byte)).expect("a byte of the text");
            }
            assert!(fast.is_accepting(), "{schema}: {text}");
        }
    }
}

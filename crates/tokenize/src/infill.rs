//! Tokens around a gap in a text, for models that were trained to fill it.

use crate::tokenizer::Tokenizer;

/// The tokens around a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfillMarks {
    /// Before the text that precedes the gap.
    pub prefix: u32,
    /// Before the text that follows it.
    pub suffix: u32,
    /// Where the text of the gap begins.
    pub middle: u32,
    /// Before each file, in models that were given several.
    pub file: Option<u32>,
}

/// Well-known texts of these tokens, by the families that have them: prefix, suffix, middle, file.
const TEXTS: &[[&str; 4]] = &[
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<file-sep>"],
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", ""],
    [
        "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
        "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
        "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
        "",
    ],
    ["\u{2581}<PRE>", "\u{2581}<SUF>", "\u{2581}<MID>", ""],
    ["[PREFIX]", "[SUFFIX]", "[MIDDLE]", ""],
];

impl Tokenizer {
    /// The tokens around a gap: those that the model names, else those with well-known texts. None where the model
    /// has none.
    pub fn infill_marks(&self) -> Option<InfillMarks> {
        let ids = self.special_ids().infill;
        let named = || {
            let (prefix, suffix, middle) = (ids.prefix?, ids.suffix?, ids.middle?);
            Some(InfillMarks { prefix, suffix, middle, file: ids.file })
        };
        let known = |[prefix, suffix, middle, file]: &[&str; 4]| {
            let id = |text: &str| self.token_to_id(text);
            let (prefix, suffix, middle) = (id(prefix)?, id(suffix)?, id(middle)?);
            Some(InfillMarks { prefix, suffix, middle, file: ids.file.or_else(|| id(file)) })
        };
        named().or_else(|| TEXTS.iter().find_map(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{source::gguf::GgufVocab, special::InfillIds};

    fn marks(tokens: &[&str], infill: InfillIds) -> Option<InfillMarks> {
        let tokens = ["<unk>", "<s>", "</s>"].iter().chain(tokens).map(|t| (*t).to_owned()).collect();
        let source = GgufVocab { model: "llama".into(), tokens, infill, ..GgufVocab::default() };
        Tokenizer::from_gguf(source).expect("a tokenizer").infill_marks()
    }

    #[test]
    fn marks_are_those_that_are_named_or_well_known() {
        let texts = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "a"];
        let known = InfillMarks { prefix: 3, suffix: 4, middle: 5, file: Some(6) };
        assert_eq!(marks(&texts, InfillIds::default()), Some(known));
        let ids = InfillIds { prefix: Some(7), suffix: Some(4), middle: Some(5), file: None };
        assert_eq!(marks(&texts, ids).map(|m| (m.prefix, m.file)), Some((7, None)));
        assert_eq!(marks(&texts, InfillIds { middle: None, ..ids }), Some(known), "half of them are none");
        assert_eq!(
            marks(&texts, InfillIds { prefix: Some(99), ..ids }),
            Some(known),
            "not in the vocabulary"
        );
        assert_eq!(marks(&["a", "b"], InfillIds::default()), None);
    }
}

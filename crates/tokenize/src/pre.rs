//! What each value of GGUF's `tokenizer.ggml.pre` means: how text is cut before merging, and a few habits of the
//! tokenizer that the file does not spell out. One row per family; to add one is to add a row.
//!
//! Facts: the `tokenizer.json` of each family where it is published (their regexes are used in their original
//! form), and the list of names that llama.cpp writes and reads.

use crate::split::{SplitRule, Triples, patterns as p};

/// How the texts of a BPE vocabulary are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// Bytes in the GPT-2 alphabet.
    ByteLevel,
    /// Plain characters; spaces as U+2581, other bytes as `<0x..>`.
    Spaced,
    /// Plain characters; spaces only separate pieces and are dropped.
    Words,
}

/// One family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pre {
    pub names: &'static [&'static str],
    pub rules: &'static [SplitRule],
    pub alphabet: Alphabet,
    /// A piece that is a token is that token, whatever its merges say.
    pub whole_pieces: WholePieces,
    /// Begin with BOS unless the file says otherwise.
    pub add_bos: bool,
    /// Whether the family has a BOS where the file names none (the id that the format defaults to).
    pub default_bos: bool,
}

/// Which pieces are looked up before merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholePieces {
    Never,
    Always,
    /// Only runs of line ends (Gemma 4, whose runs have no merges).
    LineEnds,
}

const BASE: Pre = Pre {
    names: &[],
    rules: &[],
    alphabet: Alphabet::ByteLevel,
    whole_pieces: WholePieces::Never,
    add_bos: false,
    default_bos: true,
};
const WHOLE: Pre = Pre { whole_pieces: WholePieces::Always, ..BASE };

const LINES: SplitRule = SplitRule::Match(&[r"[^\n]+|\n+"]);
const DIGIT: SplitRule = SplitRule::Match(&[r"\p{N}"]);
const DIGITS_3: SplitRule = SplitRule::Match(&[r"\p{N}{1,3}"]);
const LINE_END: SplitRule = SplitRule::Match(&[r"[\r\n]"]);
const DIGIT_THEN_GPT2: &[SplitRule] = &[DIGIT, SplitRule::Match(p::GPT2)];

/// The family used where the file names none or an unknown one.
pub(crate) const DEFAULT: Pre = Pre {
    names: &["default"],
    rules: &[
        SplitRule::Match(&[r"[\p{P}$+<=>\^~|]+"]),
        SplitRule::Match(p::GPT2),
        SplitRule::Match(&[r"\p{N}+"]),
        SplitRule::Match(&["[0-9][0-9][0-9]"]),
    ],
    ..BASE
};

pub(crate) const ALL: &[Pre] = &[
    DEFAULT,
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
        ],
        rules: &[SplitRule::Match(p::GPT2)],
        ..BASE
    },
    Pre {
        names: &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        rules: &[SplitRule::Match(p::LLAMA3)],
        add_bos: true,
        ..WHOLE
    },
    Pre { names: &["dbrx", "smaug-bpe"], rules: &[SplitRule::Match(p::LLAMA3)], ..BASE },
    Pre { names: &["chatglm-bpe"], rules: &[SplitRule::Match(p::LLAMA3)], default_bos: false, ..BASE },
    Pre { names: &["glm4", "glm5"], rules: &[SplitRule::Match(p::LLAMA3)], default_bos: false, ..WHOLE },
    Pre { names: &["jais-2"], rules: &[SplitRule::Match(p::JAIS2)], ..BASE },
    Pre { names: &["minicpm5"], rules: &[DIGITS_3, SplitRule::Match(p::MINICPM5)], ..WHOLE },
    Pre {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        rules: &[SplitRule::Match(p::QWEN2)],
        ..BASE
    },
    Pre { names: &["qwen35"], rules: &[SplitRule::Match(p::QWEN35)], ..BASE },
    Pre { names: &["ufakzeka"], rules: &[SplitRule::Match(p::UFAKZEKA)], ..BASE },
    Pre { names: &["laguna"], rules: &[LINES, SplitRule::Match(p::QWEN2)], ..BASE },
    Pre {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        rules: DIGIT_THEN_GPT2,
        ..BASE
    },
    Pre {
        names: &["falcon"],
        rules: &[
            SplitRule::Match(&[r"[\p{P}$+<=>\^~|`]+"]),
            SplitRule::Match(p::GPT2),
            SplitRule::Match(&["[0-9][0-9][0-9]"]),
        ],
        ..BASE
    },
    Pre {
        names: &["deepseek-llm"],
        rules: &[
            LINE_END,
            SplitRule::Match(p::DEEPSEEK_LETTERS),
            SplitRule::Match(p::DEEPSEEK_PUNCTUATION),
            SplitRule::Match(&[r"\s+$"]),
            SplitRule::Match(p::DEEPSEEK_CJK),
            SplitRule::Match(&[r"\p{N}+"]),
        ],
        ..BASE
    },
    Pre {
        names: &["deepseek-coder"],
        rules: &[
            LINE_END,
            SplitRule::Match(&[r"\s?\p{L}+"]),
            SplitRule::Match(&[r"\s?\p{P}+"]),
            SplitRule::Match(p::DEEPSEEK_CJK),
            DIGIT,
        ],
        ..BASE
    },
    Pre {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        rules: &[DIGITS_3, SplitRule::Match(p::HAN_KANA), SplitRule::Match(p::DEEPSEEK3)],
        ..BASE
    },
    Pre {
        names: &["spark2_5"],
        rules: &[DIGITS_3, SplitRule::Match(p::HAN_KANA), SplitRule::Match(p::SPARK), DIGIT],
        ..BASE
    },
    Pre {
        names: &["afmoe"],
        rules: &[
            SplitRule::Triples(Triples::Number),
            SplitRule::Match(p::AFMOE_ASIAN),
            SplitRule::Match(p::DEEPSEEK3),
        ],
        ..BASE
    },
    Pre {
        names: &["youtu"],
        rules: &[SplitRule::Match(p::YOUTU_EAST_ASIAN), SplitRule::Match(p::YOUTU)],
        ..WHOLE
    },
    Pre { names: &["poro-chat", "bloom", "gpt3-finnish"], rules: &[SplitRule::Match(p::BLOOM)], ..BASE },
    Pre { names: &["viking"], rules: &[SplitRule::Match(p::BLOOM), DIGIT], ..BASE },
    Pre { names: &["tekken"], rules: &[SplitRule::Match(p::TEKKEN)], add_bos: true, ..WHOLE },
    Pre {
        names: &["chameleon"],
        rules: &[
            SplitRule::Match(&["<sentinel:[0-9]+>"]),
            SplitRule::Match(&["IMGIMG[A-I]{1,4}Z"]),
            SplitRule::Match(&[r"[\t\n]|    |  "]),
            DIGIT,
            SplitRule::Match(&[r"[\p{P}!-/:-@\[-`{-~]"]),
            SplitRule::Match(p::GPT2),
        ],
        add_bos: true,
        ..BASE
    },
    Pre {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        rules: &[SplitRule::Match(p::O200K)],
        ..BASE
    },
    Pre { names: &["granite-embed-multi-97m"], rules: &[SplitRule::Match(p::O200K)], ..WHOLE },
    Pre {
        names: &["tiny_aya", "cohere2moe"],
        rules: &[SplitRule::Triples(Triples::DecimalWord), SplitRule::Match(p::O200K)],
        ..BASE
    },
    Pre { names: &["kimi-k2"], rules: &[SplitRule::Match(p::KIMI_K2)], ..BASE },
    Pre {
        names: &["superbpe"],
        rules: &[SplitRule::Match(&[r"\p{N}+"]), SplitRule::Triples(Triples::Decimal)],
        ..BASE
    },
    Pre {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        rules: &[SplitRule::Match(p::BAILING)],
        ..BASE
    },
    Pre { names: &["seed-coder"], rules: &[SplitRule::Match(p::SEED_CODER)], ..BASE },
    Pre { names: &["exaone-moe"], rules: &[SplitRule::Match(p::EXAONE_MOE)], ..BASE },
    Pre {
        names: &["gemma4", "granite-embed-multi-311m"],
        rules: &[LINES],
        alphabet: Alphabet::Spaced,
        whole_pieces: WholePieces::LineEnds,
        add_bos: true,
        ..BASE
    },
    Pre { names: &["sarvam-moe"], rules: &[LINES], alphabet: Alphabet::Spaced, ..BASE },
    Pre { names: &["whitespace"], rules: &[SplitRule::Match(&[r"\S+"])], alphabet: Alphabet::Words, ..BASE },
];

/// The family with this name.
pub(crate) fn find(name: &str) -> Option<&'static Pre> {
    ALL.iter().find(|pre| pre.names.contains(&name))
}

/// Every name, for the message about an unknown one and for tests.
pub fn pre_tokenizer_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|pre| pre.names.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::Splitter;

    #[test]
    fn every_family_compiles_and_no_name_is_listed_twice() {
        let mut seen = std::collections::HashSet::new();
        for pre in ALL {
            Splitter::new(pre.rules).unwrap_or_else(|e| panic!("{:?}: {e}", pre.names));
            assert!(pre.names.iter().all(|name| seen.insert(*name)), "{:?}", pre.names);
        }
    }
}

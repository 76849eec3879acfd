//! What the tests share: texts, and a minimal reader of GGUF metadata (the real one is a floor above).

pub mod gguf;
pub mod oracle;

use lamina_fixtures::Numbers;
use std::path::{Path, PathBuf};

/// A Python interpreter for oracles, or a loud skip.
pub fn python() -> Option<PathBuf> {
    let python = std::env::var_os("LAMINA_PYTHON").map(PathBuf::from);
    if python.is_none() {
        eprintln!("SKIPPED: LAMINA_PYTHON names no Python with tiktoken, sentencepiece and llama_cpp");
    }
    python
}

pub fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn read_text(path: impl AsRef<Path>) -> String {
    String::from_utf8(read(path)).unwrap()
}

/// Text of many scripts, with spaces, digits, code, contractions, emoji and control characters.
pub fn text(random: &mut Numbers) -> String {
    text_with(random, 0x2_0000)
}

/// As [`text`]; with any single code points below `wild` among the parts.
pub fn text_with(random: &mut Numbers, wild: usize) -> String {
    const PARTS: &[&str] = &[
        " ",
        "  ",
        "   ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        " \n ",
        "\u{a0}",
        "\u{3000}",
        "\u{85}",
        "\u{200b}",
        "the",
        "Hello",
        " world",
        "don't",
        "I'LL",
        "we're",
        "'s",
        "'S",
        "'T",
        "'ve",
        "'M",
        "HTTPServer",
        "camelCase",
        "a",
        "Z",
        "0",
        "12",
        "345",
        "1234567",
        "3.14",
        "\u{bd}",
        "\u{b2}",
        "\u{663}\u{664}",
        "!",
        "?!",
        "...",
        "(x)",
        "{}",
        "[]",
        "==",
        "->",
        "//",
        "/* */",
        "#",
        "$",
        "`",
        "<|im_end|>",
        "<s>",
        "<0x0A>",
        "\u{e9}",
        "e\u{301}",
        "\u{e4}\u{f6}\u{fc}\u{df}",
        "\u{c5}ngstr\u{f6}m",
        "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}",
        "\u{395}\u{3bb}\u{3bb}",
        "\u{4f60}\u{597d}",
        "\u{4e2d}\u{6587}",
        "\u{3053}\u{3093}\u{306b}\u{3061}\u{306f}",
        "\u{30ab}\u{30bf}",
        "\u{d55c}\u{ad6d}\u{c5b4}",
        "\u{e44}\u{e17}\u{e22}",
        "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
        "\u{627}\u{644}\u{639}\u{631}",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        "\u{1f600}",
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
        "\u{1f1e9}\u{1f1ea}",
        "\u{fb01}",
        "\u{ff21}\u{ff22}",
        "\u{2581}",
        "\u{1}",
        "\u{1f}",
        "\u{7f}",
        "\u{fffd}",
        "\u{feff}",
        "\u{2028}",
        "\u{10ffff}",
        "\u{2026}",
        "\u{300c}",
        "\u{2014}",
        "\u{20ac}",
        "\u{2122}",
        "\0",
    ];
    let count = random.below(24);
    let mut text = String::new();
    for _ in 0..count {
        match random.below(8) {
            0 => text.extend(char::from_u32(random.below(wild) as u32)),
            1 => text.push(char::from(32 + random.below(95) as u8)),
            _ => text.push_str(PARTS[random.below(PARTS.len())]),
        }
    }
    text
}

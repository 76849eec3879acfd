//! Names of files: a file is about a thing, so it has a noun. A participle says what happened to something and not to what.

use super::{root, sources};
use std::path::Path;

/// Participles that do not end like one.
const IRREGULAR: &[&str] = &[
    "built", "chosen", "found", "gone", "held", "hidden", "kept", "known", "lent", "lost", "made", "said",
    "seen", "sent", "shown", "spoken", "taken", "told", "written",
];

/// Nouns that end like a participle, and words of the trade.
const NOUNS: &[&str] = &[
    "embed",
    "compressed",
    "embedding",
    "feed",
    "fused",
    "grouping",
    "need",
    "nested",
    "nesting",
    "pairing",
    "ping",
    "pinned",
    "pooling",
    "reasoning",
    "ring",
    "routing",
    "sampling",
    "seed",
    "setting",
    "shared",
    "speed",
    "staging",
    "string",
    "testing",
    "timing",
    "unfused",
];

/// Files that are still to be renamed. Take one out once it is; add none.
const KNOWN: &[&str] = &["counted", "kept", "logged", "lowered", "recorded", "seen", "swapped", "unfolded"];

/// True for a name whose last word is a participle.
fn is_participle(name: &str) -> bool {
    let word = name.rsplit('_').next().unwrap_or(name);
    let regular = word.len() > 3 && (word.ends_with("ed") || word.ends_with("ing"));
    (regular || IRREGULAR.contains(&word)) && !NOUNS.contains(&word)
}

#[test]
fn files_have_nouns_for_names() {
    let stem = |file: &Path| file.file_stem().map(|name| name.to_string_lossy().into_owned());
    let inside = |file: &Path| {
        let path = file.strip_prefix(root()).expect("inside");
        // Files of tests say what holds; files of families and formats have names that others gave them.
        !path.iter().any(|part| matches!(part.to_str(), Some("tests" | "families" | "formats")))
    };
    let files = sources().into_iter().filter(|file| inside(file));
    let found: Vec<_> = files
        .filter(|file| stem(file).is_some_and(|name| is_participle(&name) && !KNOWN.contains(&&*name)))
        .collect();
    assert!(found.is_empty(), "files named by participles: {found:#?}");
}

#[test]
fn participles_are_told_from_nouns() {
    assert!(["swapped", "layer_paged", "drafting", "told"].iter().all(|name| is_participle(name)));
    assert!(["embedding", "seed", "ring", "swap", "paged_layers"].iter().all(|name| !is_participle(name)));
}

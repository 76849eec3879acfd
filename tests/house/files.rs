//! Whoever reads a file that a folder or a user names goes through `lamina_base::files`.

use super::{collect, root};
use std::fs;

/// What opens a file without asking what it is.
const OPENERS: &[&str] =
    &["File::open(", "File::options(", "OpenOptions::new(", "fs::read(", "fs::read_to_string(", "pem_file"];

/// Files that may: the one place for all others, what reads the system's own files, what writes in places, and tests of pages.
const ALLOWED: &[&str] = &[
    "crates/base/src/files.rs",
    "crates/base/src/cpu.rs",
    "crates/base/src/memory.rs",
    "crates/base/src/memory/groups.rs",
    "crates/cli/src/page.rs",
    "crates/cuda/src/library.rs",
    "crates/hub/src/client/partial_file.rs",
    "crates/planner/src/cpu_share.rs",
    "crates/serve/src/api/fields.rs",
    "crates/serve/src/metrics/process.rs",
];

#[test]
fn files_are_opened_in_one_place() {
    let mut sources = vec![];
    collect(&root().join("crates"), &mut sources);
    let (mut found, mut seen) = (vec![], 0);
    for file in sources {
        let inside = file.strip_prefix(root()).expect("inside").display().to_string();
        let product = inside.contains("/src/");
        if !product || inside.starts_with("crates/fixtures/") || inside.contains("/tests") {
            continue;
        }
        seen += 1;
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.split("#[cfg(test)]").next().unwrap_or(&text);
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let bare: Vec<_> = code.filter(|line| opens(line)).collect();
        assert!(!ALLOWED.contains(&inside.as_str()) || !bare.is_empty(), "{inside} opens nothing any more");
        if !ALLOWED.contains(&inside.as_str()) {
            found.extend(bare.into_iter().map(|line| format!("{inside}: {}", line.trim())));
        }
    }
    assert!(seen > 500, "sources were not found");
    assert!(found.is_empty(), "use lamina_base::files:\n{}", found.join("\n"));
}

/// True where a word of a line is one of [`OPENERS`]: `ModelFile::open` is none.
fn opens(line: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    OPENERS.iter().any(|opener| line.match_indices(opener).any(|(at, _)| begins(at)))
}

//! A model family is one small file: no other code asks for its name.

use super::{collect, root};
use std::{fs, path::PathBuf};

/// Lines of a model family: what is common to several has its place in the building blocks.
const MOST_FAMILY_LINES: usize = 45;

/// Crates that read or write what names a family: checkpoints and their tokenizers, adapters, chat formats; and models of tests.
const READ_NAMES: &[&str] = &["arch", "chat", "convert", "fixtures", "lora", "store", "text", "tokenize"];

/// Programs that have a family's name in theirs.
const PROGRAMS: &[&str] = &["ollama", "llama.cpp", "llama-server", "llama-cpp-python"];

/// Files of families with their names.
fn files() -> Vec<(String, PathBuf)> {
    let mut files = vec![];
    collect(&root().join("crates/arch/src/families"), &mut files);
    let named = files.into_iter().map(|f| (f.file_stem().expect("a name").to_string_lossy().into_owned(), f));
    named.filter(|(name, _)| name != "mod").collect()
}

#[test]
fn a_family_is_one_small_file_and_a_word_in_the_list() {
    let list = fs::read_to_string(root().join("crates/arch/src/families/mod.rs")).expect("readable");
    let files = files();
    for (name, file) in &files {
        let lines = fs::read_to_string(file).expect("readable").lines().count();
        assert!(lines <= MOST_FAMILY_LINES, "{name} has {lines} lines, {MOST_FAMILY_LINES} are allowed");
        assert!(list.split_whitespace().any(|word| word == *name), "{name} is not in the list");
    }
    assert!(files.len() > 50, "families were not found");
}

/// True when a line of code has the name of a family in it; short names may be parts of other words.
fn names_one(line: &str, families: &[String]) -> bool {
    let line = PROGRAMS.iter().fold(line.to_lowercase(), |line, program| line.replace(program, ""));
    let is_word = |name: &str| line.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
    families.iter().any(|name| if name.len() < 5 { is_word(name) } else { line.contains(name.as_str()) })
}

/// A new family needs no change elsewhere.
#[test]
fn other_crates_name_no_family() {
    // One has the name of a kind of layer.
    let families: Vec<_> =
        files().into_iter().map(|(name, _)| name).filter(|name| name != "mamba2").collect();
    let (mut files, mut found) = (vec![], vec![]);
    for folder in fs::read_dir(root().join("crates")).expect("readable").flatten() {
        if !READ_NAMES.iter().any(|name| folder.file_name() == *name) {
            collect(&folder.path().join("src"), &mut files);
        }
    }
    assert!(files.len() > 300, "the crates were not found");
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.split("#[cfg(test)]").next().unwrap_or(&text);
        let lines = code.lines().filter(|l| !l.trim_start().starts_with("//") && names_one(l, &families));
        found.extend(lines.map(|line| format!("{}: {}", file.display(), line.trim())));
    }
    assert!(found.is_empty(), "families by name:\n{}", found.join("\n"));
}

#[test]
fn names_are_found_and_programs_are_none() {
    let families = ["llama", "opt"].map(str::to_owned);
    assert!(names_one("if name == \"Llama\" {", &families) && names_one("\"opt\" => 3,", &families));
    assert!(!names_one("// as llama.cpp and Ollama", &families) && !names_one("options", &families));
}

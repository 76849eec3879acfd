//! One name, one meaning: a type name is declared in one file. The list of exceptions only shrinks.

use super::{collect, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Names that more than one file still declares. Take a name out once it is unique; add none.
const SHARED_NAMES: &[&str] = &[
    "Candidate",
    "Copy",
    "Edit",
    "Embed",
    "Group",
    "Kind",
    "Lanes",
    "Memory",
    "Model",
    "Piece",
    "Pool",
    "Products",
    "Queue",
    "Rows",
    "Select",
    "Shared",
    "Snapshot",
    "Step",
    "Stream",
    "Task",
    "Value",
];

#[test]
fn a_type_name_is_declared_in_one_file() {
    let several: Vec<_> = declared().into_iter().filter(|(_, files)| files.len() > 1).collect();
    let new: Vec<_> = several.iter().filter(|(name, _)| !SHARED_NAMES.contains(&&**name)).collect();
    assert!(new.is_empty(), "declared in several files: {new:?}");
    let gone: Vec<_> =
        SHARED_NAMES.iter().filter(|name| !several.iter().any(|(other, _)| other == *name)).collect();
    if !gone.is_empty() {
        eprintln!("unique by now, and to be taken out of the list: {gone:?}");
    }
}

/// Names of structs, enums, traits and unions outside of tests, with the files that declare them.
fn declared() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = vec![];
    collect(&root().join("crates"), &mut files);
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let inside = file.strip_prefix(root()).expect("inside").display().to_string();
        if inside.split(['/', '\\', '.']).any(|part| matches!(part, "tests" | "testing" | "benches")) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
        for name in code.lines().filter_map(type_name) {
            names.entry(name.to_owned()).or_default().insert(inside.clone());
        }
    }
    names
}

/// The name that a line declares.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line =
        ["pub(crate) ", "pub(super) ", "pub "].iter().find_map(|p| line.strip_prefix(p)).unwrap_or(line);
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest = ["struct ", "enum ", "trait ", "union "].iter().find_map(|p| line.strip_prefix(p))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

//! Test binaries: each is compiled with its own instances of generics and linked, so a crate has one, and all of its files of
//! tests are modules of it.

use super::{collect, packages};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// One for each crate that has tests, and those that need a process of their own: for its allocations, its memory, its
/// drivers or its times. With one for each file there were 119, and linking them took minutes of every run.
const MOST_TEST_TARGETS: usize = 39;

/// Packages of others in `Cargo.lock`, for all systems and for tests. Each is fetched, compiled and, on most systems, linked and
/// licensed: there were 419 before the client of our own, and a further one should be worth a minute of everybody's first
/// build. Sixteen are decoders of pictures and six of sound; four small ones write what shells complete and the manual's pages
/// from the command line's own definition, which hand-written ones would not keep up with.
const MOST_PACKAGES: usize = 420;

/// Targets of the workspace of one kind, each with the folder of its package.
fn targets(kind: &str) -> Vec<(PathBuf, Value)> {
    let of_kind =
        |target: &Value| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind));
    let of_package = |package: Value| {
        let folder =
            Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a folder");
        let targets = package["targets"].as_array().expect("a list").iter().filter(|t| of_kind(t));
        targets.map(|target| (folder.to_owned(), target.clone())).collect::<Vec<_>>()
    };
    packages().into_iter().flat_map(of_package).collect()
}

fn source(target: &Value) -> PathBuf {
    target["src_path"].as_str().expect("a path").into()
}

#[test]
fn test_binaries_do_not_multiply() {
    let all = targets("test");
    let names: Vec<_> = all.iter().map(|(_, target)| source(target)).collect();
    assert!(
        names.len() <= MOST_TEST_TARGETS,
        "{} test binaries, {MOST_TEST_TARGETS} are allowed; a new file is a module of `tests/it/main.rs`: {names:#?}",
        names.len()
    );
}

#[test]
fn packages_do_not_multiply() {
    let lock = fs::read_to_string(super::root().join("Cargo.lock")).expect("readable");
    let packages = lock.lines().filter(|line| line.starts_with("source = ")).count();
    assert!(packages <= MOST_PACKAGES, "{packages} packages, {MOST_PACKAGES} are allowed");
}

/// A file that no `mod` line names is not compiled, and its tests never run.
#[test]
fn every_test_file_is_listed() {
    let all = targets("test");
    let mut listed = BTreeSet::new();
    all.iter().for_each(|(_, target)| follow(&source(target), true, &mut listed));
    let of_crates = all.into_iter().map(|(folder, _)| folder.join("tests"));
    let folders: BTreeSet<_> = of_crates.chain([super::root().join("tests")]).collect();
    let mut files = vec![];
    folders.iter().for_each(|folder| collect(folder, &mut files));
    files.retain(|file| !listed.contains(&file.canonicalize().expect("a file")));
    assert!(files.is_empty(), "no `mod` line of a test binary names {files:#?}");
}

/// Adds a file and those that its `mod` lines name. Modules of a crate's root, and of a `mod.rs`, lie beside it.
fn follow(file: &Path, is_root: bool, listed: &mut BTreeSet<PathBuf>) {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    if !listed.insert(file.canonicalize().expect("a file")) {
        return;
    }
    let beside = file.parent().expect("a folder");
    let below = if is_root || file.ends_with("mod.rs") { beside.to_owned() } else { file.with_extension("") };
    for (module, path) in modules(&text) {
        let places = match path {
            Some(path) => vec![beside.join(path)],
            None => vec![below.join(format!("{module}.rs")), below.join(module).join("mod.rs")],
        };
        let found = places.iter().find(|place| place.is_file());
        follow(
            found.unwrap_or_else(|| panic!("{}: no file of `mod {module}`", file.display())),
            false,
            listed,
        );
    }
}

/// Modules that a text names, with the path where one is given.
fn modules(text: &str) -> Vec<(&str, Option<&str>)> {
    let (mut out, mut path) = (vec![], None);
    for line in text.lines() {
        let declared = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        if let Some(given) = line.strip_prefix("#[path = \"") {
            path = given.strip_suffix("\"]");
        } else if let Some(name) = declared.and_then(|rest| rest.strip_suffix(';')) {
            out.push((name, path.take()));
        } else if !line.starts_with("#[") {
            path = None;
        }
    }
    out
}

/// rustdoc compiles a library for its examples alone: crates without any switch that off, and no example goes unrun.
#[test]
fn examples_in_docs_are_run_and_nothing_else_is() {
    for (folder, target) in targets("lib") {
        let mut files = vec![];
        collect(source(&target).parent().expect("a folder"), &mut files);
        let example = files.iter().find(|file| has_example(&fs::read_to_string(file).expect("readable")));
        assert_eq!(
            target["doctest"].as_bool(),
            Some(example.is_some()),
            "`doctest` of {}; its first example is in {example:?}",
            folder.join("Cargo.toml").display()
        );
    }
}

/// True for docs with Rust code: a block that begins without the name of another language.
fn has_example(text: &str) -> bool {
    let doc = |line: &str| {
        let line = line.trim_start();
        Some(line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim().to_owned())
    };
    let fences = text.lines().filter_map(doc).filter(|line| line.starts_with("```"));
    let mut begins = fences.step_by(2);
    begins.any(|fence| !matches!(fence.trim_start_matches('`'), "text" | "toml" | "json" | "ignore"))
}

#[test]
fn module_lines_and_examples_are_found() {
    let text = "//! mod no;\nmod a;\n#[cfg(unix)]\npub mod b;\n#[path = \"../c/x.rs\"]\n#[expect(x)]\nmod c;\nmod d {\nmod e;";
    assert_eq!(modules(text), [("a", None), ("b", None), ("c", Some("../c/x.rs")), ("e", None)]);
    assert!(has_example("/// x\n/// ```no_run\n/// let a = 1;\n/// ```\n"));
    assert!(has_example("    //! ```\n    //! ```\n"));
    assert!(!has_example("/// ```text\n/// a\n/// ```\nlet code = \"```\";\n"));
}

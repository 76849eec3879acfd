//! Rules of the house that a program can check: floors, circles, words, unsafe code, sizes, test binaries.

mod circles;
mod families;
mod features;
mod files;
mod names;
mod options;
mod targets;
mod words;

use serde_json::Value;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A crate knows only crates on lower floors.
const FLOORS: &[(&str, u32)] = &[
    ("lamina-base", 5),
    ("lamina-http", 5),
    ("lamina-image", 5),
    ("lamina-sound", 5),
    ("lamina-simd", 0),
    ("lamina-pool", 0),
    ("lamina-reserve", 0),
    ("lamina-fixtures", 0),
    ("lamina-disk", 10),
    ("lamina-quant", 10),
    ("lamina-tokenize", 10),
    ("lamina-chat", 15),
    ("lamina-grammar", 15),
    ("lamina-hub", 15),
    ("lamina-sample", 15),
    ("lamina-store", 20),
    ("lamina-arch", 30),
    ("lamina-lora", 33),
    ("lamina-convert", 35),
    ("lamina-plan", 40),
    ("lamina-oracle", 45),
    ("lamina-gpu", 45),
    ("lamina-kernels", 45),
    ("lamina-cpu", 50),
    ("lamina-stream", 50),
    ("lamina-emu", 50),
    ("lamina-cuda", 50),
    ("lamina-metal", 50),
    ("lamina-candle", 50),
    ("lamina-planner", 55),
    ("lamina-ranks", 45),
    ("lamina-speculate", 55),
    ("lamina-engine", 60),
    ("lamina-load", 65),
    ("lamina", 70),
    ("lamina-see", 72),
    ("lamina-tools", 75),
    ("lamina-serve", 75),
    ("lamina-cli", 80),
    ("lamina-capi", 80),
    ("lamina-py", 90),
];

/// Crates that may hold unsafe code; all others forbid it.
const UNSAFE: &[&str] = &[
    "lamina-disk",
    "lamina-simd",
    "lamina-pool",
    "lamina-reserve",
    "lamina-kernels",
    "lamina-cpu",
    "lamina-cuda",
    "lamina-emu",
    "lamina-metal",
    "lamina-py",
    "lamina-capi",
];

/// Lines of a source file, tests apart.
const MOST_LINES: usize = 400;
/// Lines of a file of kernels: an instruction set, or a loop over blocks in all its forms, is one thing.
const MOST_KERNEL_LINES: usize = 800;
/// Where kernels are.
const KERNELS: &[&str] = &["crates/simd/", "crates/kernels/src/"];
/// Lines of a function.
const MOST_FUNCTION_LINES: usize = 60;

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates of the workspace lie in `crates/`").to_owned()
}

fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

#[test]
fn crates_know_only_lower_floors() {
    let floors: HashMap<_, _> = FLOORS.iter().copied().collect();
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let floor = *floors.get(name).unwrap_or_else(|| panic!("{name} has no floor"));
        for dependency in package["dependencies"].as_array().expect("a list") {
            let other = dependency["name"].as_str().expect("a name");
            // Tests may look at every floor.
            let Some(&below) = floors.get(other).filter(|_| dependency["kind"].is_null()) else { continue };
            assert!(below < floor, "{name} (floor {floor}) must not know {other} (floor {below})");
        }
    }
}

/// The oracle is what tests hold backends against: nothing that is installed links it.
#[test]
fn the_oracle_is_a_dependency_of_tests_alone() {
    for package in packages() {
        for dependency in package["dependencies"].as_array().expect("a list") {
            let (name, kind) = (&package["name"], &dependency["kind"]);
            assert!(dependency["name"] != "lamina-oracle" || kind == "dev", "{name} links lamina-oracle");
        }
    }
}

#[test]
fn only_kernels_pools_and_bindings_hold_unsafe_code() {
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let targets = package["targets"].as_array().expect("a list");
        let library = targets
            .iter()
            .find(|t| t["kind"].as_array().is_some_and(|k| k.iter().any(|k| k == "lib" || k == "cdylib")));
        let Some(library) = library.filter(|_| !UNSAFE.contains(&name)) else { continue };
        let source = fs::read_to_string(library["src_path"].as_str().expect("a path")).expect("readable");
        assert!(source.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
    }
}

/// Every unsafe block, function and implementation says in a note of its own why it is sound.
#[test]
fn every_unsafe_site_has_a_note_of_its_own() {
    let mut bare = vec![];
    for file in sources() {
        let text = fs::read_to_string(&file).expect("readable");
        let lines: Vec<&str> = text.lines().collect();
        let sites = (0..lines.len()).filter(|&i| is_unsafe_site(lines[i]) && !has_note(&lines[..i]));
        let inside = file.strip_prefix(root()).expect("inside").display().to_string();
        bare.extend(sites.map(|i| format!("{inside}:{}: {}", i + 1, lines[i].trim())));
    }
    assert!(bare.is_empty(), "{} sites without `SAFETY:` or `# Safety`:\n{}", bare.len(), bare.join("\n"));
}

/// A block, an implementation or a function with a name: `unsafe fn(..)` is a type.
fn is_unsafe_site(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    code.match_indices("unsafe ").any(|(at, word)| {
        let before = &code[..at];
        let in_text = before.matches('"').count() % 2 == 1;
        let word_begins = !in_text && !before.ends_with(|c: char| c.is_alphanumeric() || "_`".contains(c));
        let next = &code[at + word.len()..];
        let begins = ["{", "impl ", "impl<", "trait ", "fn ", "extern "].iter().any(|p| next.starts_with(p));
        // A type of functions: who calls one argues.
        word_begins && begins && !next.starts_with("extern \"C\" fn(")
    })
}

/// True when the comments and attributes directly above a line argue for it.
fn has_note(above: &[&str]) -> bool {
    let belongs = |line: &&&str| line.trim_start().starts_with("//") || line.trim_start().starts_with("#[");
    let note = above.iter().rev().take_while(belongs);
    note.into_iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

/// Only `crates/lamina` decides between backends.
/// Where parts of a build are chosen: devices in `lamina`, commands and the line editor in lists of the command, what
/// quantizers need in `tools`, what fetches in `hub`, what sends spans in `serve`.
const FEATURED: &[&str] = &[
    "crates/lamina",
    "crates/cli/src/args/mod.rs",
    "crates/cli/src/chat/mod.rs",
    "crates/cli/src/commands/mod.rs",
    "crates/cli/src/error.rs",
    "crates/cli/src/lib.rs",
    "crates/cli/src/parts.rs",
    "crates/hub/src/lib.rs",
    "crates/serve/src/spans/mod.rs",
    "crates/tools/src/lib.rs",
    "tests",
];

#[test]
fn features_are_decided_in_one_place() {
    for file in sources() {
        let text = fs::read_to_string(&file).expect("readable");
        let inside = file.strip_prefix(root()).expect("inside");
        if FEATURED.iter().any(|place| inside.starts_with(place)) {
            continue;
        }
        assert!(!text.contains("cfg(feature"), "{} asks for a feature", inside.display());
    }
}

#[test]
fn files_and_functions_keep_their_size() {
    let mut long = vec![];
    for file in sources() {
        let text = fs::read_to_string(&file).expect("readable");
        let inside = file.strip_prefix(root()).expect("inside").display().to_string();
        if inside.contains("tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
        let lines = code.lines().count();
        let kernels = KERNELS.iter().any(|k| inside.starts_with(k));
        if lines > if kernels { MOST_KERNEL_LINES } else { MOST_LINES } {
            long.push(format!("{inside}: {lines} lines"));
        }
        long.extend(
            functions(code)
                .filter(|(_, n)| *n > MOST_FUNCTION_LINES)
                .map(|(f, n)| format!("{inside}: {f}: {n} lines")),
        );
    }
    assert!(long.is_empty(), "too long:\n{}", long.join("\n"));
}

/// Functions of formatted code with their number of lines: from `fn` to the brace that closes at its indentation.
fn functions(code: &str) -> impl Iterator<Item = (String, usize)> + '_ {
    let lines: Vec<&str> = code.lines().collect();
    (0..lines.len()).filter_map(move |i| {
        let line = lines[i];
        let body = line.trim_start();
        let indent = line.len() - body.len();
        let is_fn = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "unsafe fn ",
            "pub unsafe fn ",
            "const fn ",
            "pub const fn ",
        ]
        .iter()
        .any(|p| body.starts_with(p));
        // A macro's line may declare a function by another one: `fn kernel() = product(job: &Job)`.
        if !is_fn || body.ends_with(';') || body.contains(") = ") {
            return None;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let end = (i..lines.len()).find(|&j| lines[j] == close)?;
        let name = body.split('(').next().unwrap_or(body).to_owned();
        Some((name, end - i + 1))
    })
}

fn sources() -> Vec<PathBuf> {
    let mut out = vec![];
    collect(&root().join("crates"), &mut out);
    collect(&root().join("tests"), &mut out);
    out
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

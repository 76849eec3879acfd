//! Packages have the same features whether one crate is tested or all are: the compiler's work is shared between the two.

use super::{packages, root};
use std::{collections::BTreeSet, process::Command};

/// Others' packages with the features that they have where `selected` is built with its tests.
fn features(selected: &[String]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "--locked", "--edges", "normal,build,dev", "--prefix", "none"]);
    tree.args(["--format", "{p}, {f}"]).args(selected.iter().flat_map(|name| ["--package", name]));
    let out = tree.current_dir(root()).output().expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let lines = String::from_utf8(out.stdout).expect("text");
    let others = lines.lines().filter(|line| !line.is_empty() && !line.starts_with("lamina"));
    others.map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// Members whose packages may differ: candle's are not built by day, and the extension has no tests in Rust.
const APART: &[&str] = &["lamina-candle", "lamina-py"];

#[test]
fn a_crate_alone_has_the_packages_of_all() {
    let names = packages().into_iter().map(|p| p["name"].as_str().expect("a name").to_owned());
    let (apart, members): (Vec<_>, Vec<_>) = names.partition(|name| APART.contains(&name.as_str()));
    let all: Vec<_> = members.iter().cloned().chain(apart.into_iter().filter(|n| n == "lamina-py")).collect();
    let whole = features(&all);
    for name in members {
        let alone = features(std::slice::from_ref(&name));
        let other: Vec<_> = alone.difference(&whole).collect();
        assert!(
            other.is_empty(),
            "{name} alone would compile these anew; list them in crates/fixtures: {other:?}"
        );
    }
}

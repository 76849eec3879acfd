//! Packages have the same features whether one crate is tested or all are: the compiler's work is shared between the two. What
//! features of the command leave out is not linked.

use super::{packages, root};
use std::{collections::BTreeSet, process::Command};

/// What `cargo tree` lists with these arguments, a package a line.
fn tree(args: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "--locked", "--prefix", "none"]).args(args);
    let out = tree.current_dir(root()).output().expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let lines = String::from_utf8(out.stdout).expect("text");
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// Others' packages with the features that they have where `selected` is built with its tests.
fn features(selected: &[String]) -> BTreeSet<String> {
    let packages = selected.iter().flat_map(|name| ["--package", name]);
    let args = ["--edges", "normal,build,dev", "--format", "{p}, {f}"].into_iter().chain(packages);
    let mut all = tree(&args.collect::<Vec<_>>());
    all.retain(|line| !line.is_empty() && !line.starts_with("lamina"));
    all
}

/// Of the client of servers (trust in certificates, requests of HTTP), of commands that write models, edited lines and GPUs.
const LEFT_OUT: &[&str] = &["rustls-platform-verifier", "want", "lamina-convert", "rustyline", "lamina-gpu"];

#[test]
fn a_command_for_the_edge_links_nothing_of_what_it_leaves_out() {
    let command = ["--package", "lamina-cli", "--edges", "normal"];
    let has =
        |all: &BTreeSet<String>, name: &str| all.iter().any(|line| line.starts_with(&format!("{name} v")));
    let whole = tree(&command);
    let edge = tree(&[&command[..], &["--no-default-features", "--features", "serve"]].concat());
    for name in LEFT_OUT {
        assert!(has(&whole, name), "the whole command does not link {name} either: take it out of this list");
        assert!(!has(&edge, name), "{name}");
    }
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

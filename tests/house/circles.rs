//! Modules of a crate know one another one way only: whoever reads one needs to read what it stands on, and nothing else.

use super::{collect, packages};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Modules by name, each with those that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_of_a_crate_form_no_circle() {
    let mut found = vec![];
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let manifest = package["manifest_path"].as_str().expect("a path");
        let source = Path::new(manifest).parent().expect("a folder").join("src");
        if let Ok(library) = fs::read_to_string(source.join("lib.rs")) {
            found.extend(
                circles(&graph(&source, &library)).into_iter().map(|circle| (name.to_owned(), circle)),
            );
        }
    }
    assert!(found.is_empty(), "modules that know one another: {found:?}");
}

/// Which module of the crate names which other one, by its path or by a name that the crate's root hands on.
fn graph(source: &Path, library: &str) -> Graph {
    let code = without_tests(library);
    let modules: BTreeSet<&str> = code.lines().filter_map(module).collect();
    let handed_on = handed_on(&code, &modules);
    let named = |path: &str| match modules.get(path) {
        Some(module) => Some((*module).to_owned()),
        None => handed_on.get(path).cloned(),
    };
    let edges = |module: &&str| {
        let mut files = vec![];
        collect(&source.join(module), &mut files);
        files.push(source.join(format!("{module}.rs")));
        let texts = files.iter().filter(|f| !is_test(f)).filter_map(|f| fs::read_to_string(f).ok());
        let heads: BTreeSet<String> =
            texts.flat_map(|text| heads(&without_tests(&text), "crate::")).collect();
        let others = heads.iter().filter_map(|h| named(h)).filter(|m| m != module).collect();
        ((*module).to_owned(), others)
    };
    modules.iter().map(edges).collect()
}

fn is_test(file: &Path) -> bool {
    file.file_stem().is_some_and(|name| name == "tests")
}

/// The module that a line of `lib.rs` declares.
fn module(line: &str) -> Option<&str> {
    let name = line.strip_suffix(';')?;
    name.strip_prefix("pub mod ").or_else(|| name.strip_prefix("mod "))
}

/// Code before its unit tests, without comments.
fn without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Names that the crate's root re-exports, with the modules that they come from.
fn handed_on(library: &str, modules: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for statement in library.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or(statement);
        let Some((module, list)) = statement.split_once("::").filter(|(m, _)| modules.contains(m)) else {
            continue;
        };
        let words = list.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
        names.extend(words.map(|word| (word.to_owned(), module.to_owned())));
    }
    names
}

/// First parts of all paths that begin with `root`: `a` and `b` of `root::{a::x, b}`.
fn heads(code: &str, root: &str) -> Vec<String> {
    let mut heads = vec![];
    for rest in code.split(root).skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => heads.extend(items(list).into_iter().map(first_word)),
            None => heads.push(first_word(rest)),
        }
    }
    heads
}

fn first_word(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Items of a list in braces, whose opening one is gone; items may have lists of their own.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (vec![], 0, 0);
    for (i, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&list[start..i]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    items
}

/// Groups of modules that reach one another.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|m| (m, reach(graph, m))).collect();
    let mut groups: Vec<Vec<String>> = graph
        .keys()
        .filter(|m| reached[m].contains(m))
        .map(|m| reached[m].iter().filter(|n| reached[*n].contains(m)).map(|n| (*n).clone()).collect())
        .collect();
    groups.sort();
    groups.dedup();
    groups
}

/// Modules that `from` needs, itself among them if it is in a circle.
fn reach<'a>(graph: &'a Graph, from: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(graph[module].iter().filter(|other| seen.insert(*other)));
    }
    seen
}

#[test]
fn paths_are_read_and_circles_found() {
    let code = "use crate::{a::{x, y}, b, c::z};\ncrate::d::f();";
    assert_eq!(heads(code, "crate::"), ["a", "b", "c", "d"]);
    let graph = |edges: &[(&str, &[&str])]| -> Graph {
        edges.iter().map(|(m, n)| ((*m).to_owned(), n.iter().map(|n| (*n).to_owned()).collect())).collect()
    };
    assert!(circles(&graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
    assert_eq!(circles(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])), [["b", "c"]]);
}

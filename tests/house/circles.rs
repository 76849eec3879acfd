//! Files of a crate know one another one way only: whoever reads one needs to read what it stands on, and nothing else. Looked
//! at are the modules of each folder, each with all that is below it; a folder's own file (`mod.rs`) and its modules are one.

use super::{collect, packages};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Modules by name, each with those that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// A module or an item, from the crate's root.
type ItemPath = Vec<String>;

#[test]
fn modules_form_no_circle() {
    let mut found = vec![];
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let manifest = package["manifest_path"].as_str().expect("a path");
        let modules = read(&Path::new(manifest).parent().expect("a folder").join("src"));
        for (folder, graph) in graphs(&modules) {
            let place = [&[name.to_owned()], &*folder].concat().join("::");
            found.extend(circles(&graph).into_iter().map(|circle| (place.clone(), circle)));
        }
    }
    assert!(found.is_empty(), "modules that know one another: {found:#?}");
}

/// Code of each file below `source`, without tests, by the path of its module.
fn read(source: &Path) -> BTreeMap<ItemPath, String> {
    let mut files = vec![];
    collect(source, &mut files);
    let mut modules = BTreeMap::new();
    for file in files {
        let inside = file.strip_prefix(source).expect("below").with_extension("");
        let mut path: ItemPath = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if path.iter().any(|part| part == "tests") || path == ["main"] {
            continue;
        }
        if path.last().is_some_and(|last| last == "mod") || path == ["lib"] {
            path.pop();
        }
        modules.insert(path, without_tests(&fs::read_to_string(&file).expect("readable")));
    }
    let test_only: Vec<ItemPath> = modules.iter().flat_map(|(path, code)| test_modules(path, code)).collect();
    modules.retain(|path, _| !test_only.iter().any(|test| path.starts_with(test)));
    modules
}

/// Code before its unit tests, without comments.
fn without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Modules that are compiled for tests alone.
fn test_modules(path: &[String], code: &str) -> Vec<ItemPath> {
    let declared = code.split("#[cfg(test)]").skip(1).filter_map(|rest| {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("pub ").or_else(|| rest.strip_prefix("pub(crate) ")).unwrap_or(rest);
        Some(first_word(rest.strip_prefix("mod ")?))
    });
    declared.map(|name| [path, &[name]].concat()).collect()
}

/// Of each folder, which of its modules names which other one: by its path, or by a name that another module hands on.
fn graphs(modules: &BTreeMap<ItemPath, String>) -> BTreeMap<ItemPath, Graph> {
    let handed_on: BTreeMap<_, _> =
        modules.iter().map(|(path, code)| (path, handed_on(path, code, modules))).collect();
    let mut graphs: BTreeMap<ItemPath, Graph> = BTreeMap::new();
    for (from, code) in modules {
        if let Some((name, folder)) = from.split_last() {
            graphs.entry(folder.to_vec()).or_default().entry(name.clone()).or_default();
        }
        for named in paths(code).into_iter().filter_map(|path| absolute(from, path)) {
            let to = home(named, modules, &handed_on);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(user), Some(used)) = (from.get(common), to.get(common)) {
                let graph = graphs.entry(from[..common].to_vec()).or_default();
                graph.entry(used.clone()).or_default();
                graph.entry(user.clone()).or_default().insert(used.clone());
            }
        }
    }
    graphs
}

/// The module that declares an item, by way of those that hand it on.
fn home(
    mut named: ItemPath,
    modules: &BTreeMap<ItemPath, String>,
    handed_on: &BTreeMap<&ItemPath, BTreeMap<String, ItemPath>>,
) -> ItemPath {
    // Names are handed on a few times; a circle of `use` ends here too.
    for _ in 0..8 {
        let known = (0..=named.len()).rev().find(|&n| modules.contains_key(&named[..n])).unwrap_or(0);
        let next = named.get(known).and_then(|name| handed_on.get(&named[..known].to_vec())?.get(name));
        let Some(next) = next else {
            named.truncate(known);
            break;
        };
        named = next.iter().chain(&named[known + 1..]).cloned().collect();
    }
    named
}

/// Names that a module imports, which its own modules reach by `super` and others by its path, with where they come from.
fn handed_on(
    path: &[String],
    code: &str,
    modules: &BTreeMap<ItemPath, String>,
) -> BTreeMap<String, ItemPath> {
    let imports = code.split("use ").collect::<Vec<_>>();
    let statements = imports.windows(2).filter(|pair| is_import(pair[0])).flat_map(|pair| tree(pair[1]));
    let from = |import: ItemPath| {
        let name = import.last()?.clone();
        let child = [path, &import[..1]].concat();
        let item = match modules.contains_key(&child) {
            true => [path, &import].concat(),
            false => absolute(path, import)?,
        };
        // A module that imports one of its own hands nothing on: paths lead to it in any case.
        (item != [path, std::slice::from_ref(&name)].concat()).then_some((name, item))
    };
    statements.filter_map(from).collect()
}

/// True for the text before `use` where that begins a line, or follows its visibility.
fn is_import(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or(before).trim();
    line.is_empty() || line.starts_with("pub")
}

/// A path of the crate from its root; none for those of other crates.
fn absolute(from: &[String], path: ItemPath) -> Option<ItemPath> {
    let (mut base, mut rest) = (from.to_vec(), path.as_slice());
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {}
        _ => return None,
    }
    while rest.first().is_some_and(|part| part == "super") {
        base.pop()?;
        rest = &rest[1..];
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// All paths that begin at the crate's root, or at the module above.
fn paths(code: &str) -> Vec<ItemPath> {
    let mut found = vec![];
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let inside = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !inside {
                found.extend(tree(&code[at..]));
            }
        }
    }
    found
}

/// Paths of the tree that a text begins with: `a::b` and `a::c::d` of `a::{b, c::d}`; of `a as b`, `a`.
fn tree(text: &str) -> Vec<ItemPath> {
    let text = text.trim_start();
    if let Some(list) = text.strip_prefix('{') {
        return items(list).into_iter().flat_map(tree).collect();
    }
    let name = first_word(text);
    if name.is_empty() {
        return vec![];
    }
    let below = text[name.len()..].strip_prefix("::").map(tree).unwrap_or_default();
    match below.is_empty() {
        true => vec![vec![name]],
        false => below.into_iter().map(|rest| [std::slice::from_ref(&name), &*rest].concat()).collect(),
    }
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
    let joined = |code: &str| paths(code).iter().map(|path| path.join("::")).collect::<Vec<_>>();
    let code = "use crate::{a::{x, y}, b as e, c::z};\nsuper::super::d::<T>();";
    assert_eq!(joined(code), ["crate::a::x", "crate::a::y", "crate::b", "crate::c::z", "super::super::d"]);
    let files = [
        ("", "mod a;\nmod b;\npub use b::Beta;"),
        ("a", "mod inner;\nmod other;\nuse inner::Inner;"),
        ("a::inner", "use super::other::f;"),
        ("a::other", "use super::Inner;\nuse crate::Beta;"),
        ("b", "#[cfg(test)]\nmod tested;"),
    ];
    let path = |text: &str| text.split("::").filter(|p| !p.is_empty()).map(str::to_owned).collect();
    let modules = files.map(|(module, code)| (path(module), code.to_owned())).into();
    let graphs = graphs(&modules);
    assert!(circles(&graphs[&vec![]]).is_empty(), "{graphs:?}");
    assert!(graphs[&vec![]]["a"].contains("b"), "a name that the root hands on: {graphs:?}");
    assert_eq!(circles(&graphs[&path("a")]), [["inner", "other"]], "{graphs:?}");
    assert_eq!(test_modules(&path("b"), files[4].1), [path("b::tested")]);
}

//! One list of options: whoever has them takes them from it.

use super::{collect, root};
use lamina::LoadOptions;
use std::fs;

/// The command line, the server and the binding of Python name no option of loading by hand: a new one is a line of the
/// list, and the code that heeds it.
#[test]
fn surfaces_name_no_option_of_loading() {
    // Of two words, so that it is no field of something else; what a report tells of a model has the option's name.
    let names: Vec<_> =
        LoadOptions::SPECS.iter().map(|spec| spec.name).filter(|name| name.contains('_')).collect();
    let named = |line: &str| {
        let words = |line: &str| {
            line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        words(line).iter().any(|word| names.contains(&word.as_str()))
    };
    let mut found = vec![];
    for folder in ["crates/cli/src", "crates/serve/src", "crates/py/src"] {
        let mut files = vec![];
        collect(&root().join(folder), &mut files);
        for file in files.into_iter().filter(|file| !file.ends_with("info.rs")) {
            let text = fs::read_to_string(&file).expect("readable");
            let code = text.split("#[cfg(test)]").next().unwrap_or(&text);
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//") && named(line));
            found.extend(lines.map(|line| format!("{}: {}", file.display(), line.trim())));
        }
    }
    assert!(names.len() > 12, "the list was not found");
    assert!(found.is_empty(), "options of loading by name:\n{}", found.join("\n"));
}

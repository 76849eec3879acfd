//! The kernels' files as one text, as compilers of devices take it: they read no files.

use crate::kernels::SOURCES;
use lamina_base::files::read_text;
use std::{collections::HashSet, fmt::Write, path::Path};

/// All kernels as one text, for CUDA's compiler as for Metal's: the dialect chooses by what the compiler defines. With a
/// folder its files are read instead of those of the build.
pub fn kernel_source(folder: Option<&Path>) -> String {
    let built_in = |file: &str| {
        let found = SOURCES.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| (*text).to_owned())
    };
    match folder {
        Some(folder) => flatten(&|file| read_text(&folder.join(file)).ok(), "all.h"),
        None => flatten(&built_in, "all.h"),
    }
}

/// The first error in what a compiler says, one line.
pub fn first_error(log: &str) -> Option<&str> {
    let line = log.lines().find(|l| l.contains("error"))?;
    Some(line.trim_end_matches('\0').trim())
}

/// `file` with its includes in their places, each once. Includes that `read` does not know stay: no compiler comes to them.
fn flatten(read: &dyn Fn(&str) -> Option<String>, file: &str) -> String {
    let mut flat = Flattened { read, seen: HashSet::new(), text: String::new() };
    flat.add(file);
    flat.text
}

struct Flattened<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    seen: HashSet<String>,
    text: String,
}

impl Flattened<'_> {
    /// Appends a file, unless it is in; false where there is none.
    fn add(&mut self, file: &str) -> bool {
        let Some(source) = (self.read)(file) else { return false };
        if !self.seen.insert(file.to_owned()) {
            return true;
        }
        self.at(1, file);
        for (i, line) in source.lines().enumerate() {
            let included = line.strip_prefix("#include \"").and_then(|l| l.split('"').next());
            if included.is_some_and(|name| self.add(&beside(file, name))) {
                self.at(i + 2, file);
            } else {
                // Each file is in once anyway.
                self.text += if line == "#pragma once" { "" } else { line };
                self.text.push('\n');
            }
        }
        true
    }

    /// Says where the next line is from, for the compiler's messages.
    fn at(&mut self, line: usize, file: &str) {
        writeln!(self.text, "#line {line} \"{file}\"").expect("strings take all");
    }
}

/// The path of `name` as `file` includes it.
fn beside(file: &str, name: &str) -> String {
    let mut path: Vec<&str> = file.split('/').collect();
    path.pop();
    for part in name.split('/') {
        match part {
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_once_and_says_where_its_lines_are() {
        let read = |file: &str| {
            let text = match file {
                "all.h" => "#include \"a.h\"\n#include \"sub/b.h\"\nlast",
                "a.h" => "#pragma once\nint a;",
                "sub/b.h" => "#include \"../a.h\"\n#include \"emu.h\"\nint b;",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let text = flatten(&read, "all.h");
        assert_eq!(text.matches("int a;").count(), 1);
        assert!(
            text.contains("#line 2 \"sub/b.h\"\n#include \"emu.h\"\nint b;\n#line 3 \"all.h\"\nlast\n"),
            "{text}"
        );
    }

    #[test]
    fn the_kernels_become_one_text() {
        let text = kernel_source(None);
        assert!(text.lines().all(|l| !l.starts_with("#include \"") || l == "#include \"emu.h\""));
        assert_eq!(text.matches("KERNEL(128, 8) repack(").count(), 1);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        assert_eq!(kernel_source(Some(&folder)), text);
    }

    /// A file is in once: one that both parts of the kernels need may not be in a place that only one of them sees.
    #[test]
    fn kernels_that_are_only_compared_have_all_that_they_need() {
        let (mut depth, mut text) = (0, String::new());
        for line in kernel_source(None).lines() {
            match line {
                _ if line.starts_with("#ifndef ONLY_COMPARED") || (depth > 0 && line.starts_with("#if")) => {
                    depth += 1;
                }
                _ if depth > 0 && line.starts_with("#endif") => depth -= 1,
                _ if depth == 0 => text += &format!("{line}\n"),
                _ => {}
            }
        }
        let formats = SOURCES.iter().map(|(file, _)| *file).filter(|file| file.starts_with("formats/"));
        let others = ["dialect.h", "step.h", "math.h", "panel.h", "types.h", "product.h"];
        let needed: Vec<_> = formats.chain(others).collect();
        assert!(needed.iter().all(|file| text.contains(&format!("#line 1 \"{file}\"\n"))), "{needed:?}");
        let includes = SOURCES.iter().filter(|(file, _)| needed.contains(file)).flat_map(|(file, text)| {
            let named = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split('"').next());
            named.map(|name| beside(file, name))
        });
        let missing: Vec<_> = includes.filter(|name| !needed.contains(&name.as_str())).collect();
        assert_eq!(missing, ["emu.h"]);
        assert!(!text.contains("KERNEL(128, 4) attend(") && text.contains("\nTENSOR_TYPES(PRODUCTS)\n"));
    }

    #[test]
    fn the_first_error_is_one_line() {
        let log =
            "rows.h:9:1: warning: unused\nrows.h:41:5: error: no such name \nnorm.h:2:1: error: another\n\0";
        assert_eq!(first_error(log), Some("rows.h:41:5: error: no such name"));
        assert_eq!(first_error("all is well"), None);
    }
}

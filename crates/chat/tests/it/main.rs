//! Chat templates, and answers taken apart.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

mod media;
mod own_text;
mod template_limits;
mod templates;
mod tools;
mod vocabulary;

use std::path::{Path, PathBuf};

/// A Python interpreter for oracles, or a loud skip.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("LAMINA_PYTHON").map(PathBuf::from);
    if python.is_none() {
        eprintln!("SKIPPED: LAMINA_PYTHON names no Python with jinja2");
    }
    python
}

fn read_text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

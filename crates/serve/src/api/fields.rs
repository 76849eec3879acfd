//! The field tables as documentation, and each entry held to what it says.

use super::{anthropic, native, ollama, openai};
use crate::body::{Body, COMMON, FieldSpec, FieldTable, FieldUsage};
use lamina::sample::params;
use serde_json::json;
use std::{fmt::Write, fs, path::Path};

/// All tables.
pub fn tables() -> impl Iterator<Item = &'static FieldTable> {
    [openai::TABLES, native::TABLES, anthropic::TABLES, ollama::TABLES].into_iter().flatten().copied()
}

#[test]
fn each_field_is_what_its_table_says() {
    for table in tables() {
        for field in table.specs() {
            let body = json!({ field.name: 1 });
            let read = Body::new(body, table, "", false);
            let at = format!("{} {}", table.name, field.name);
            match (field.usage, read) {
                (FieldUsage::Taken, Ok(body)) => {
                    assert!(body.has(field.name) && body.ignored().is_empty(), "{at}")
                }
                (FieldUsage::Harmless, Ok(body)) => assert_eq!(body.ignored(), [field.name], "{at}"),
                (FieldUsage::Refused, Err(error)) => {
                    assert_eq!(error.param.as_deref(), Some(field.name), "{at}")
                }
                (usage, read) => panic!("{at}: {usage:?}, but {read:?}"),
            }
            assert!(field.doc.len() > 3, "{at} is not documented");
        }
    }
}

#[test]
fn names_are_unique_in_a_table() {
    for table in tables() {
        let mut names: Vec<_> = table.specs().map(|f| f.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]), "{}: {names:?}", table.name);
    }
}

fn list<'a>(out: &mut String, fields: impl Iterator<Item = &'a FieldSpec>, usage: FieldUsage, heading: &str) {
    let chosen: Vec<_> = fields.filter(|f| f.usage == usage).collect();
    if chosen.is_empty() {
        return;
    }
    _ = writeln!(out, "\n{heading}\n\n| field | |\n|---|---|");
    for field in chosen {
        _ = writeln!(out, "| `{}` | {} |", field.name, field.doc.replace('|', "\\|"));
    }
}

fn documentation() -> String {
    let mut out = String::from(
        "# Fields of requests\n\nMade from the tables that bodies are read with. A field that is not here is refused.\n",
    );
    for table in tables() {
        _ = writeln!(out, "\n## {}", table.name);
        if table.sampling {
            _ = writeln!(out, "\nAll of the common fields, and:");
        }
        list(&mut out, table.specs(), FieldUsage::Taken, "Read:");
        list(&mut out, table.specs(), FieldUsage::Harmless, "Accepted, and without effect:");
        list(&mut out, table.specs(), FieldUsage::Refused, "Refused:");
    }
    _ = writeln!(out, "\n## Common fields");
    list(&mut out, COMMON.iter(), FieldUsage::Taken, "Read:");
    list(&mut out, COMMON.iter(), FieldUsage::Harmless, "Accepted, and without effect:");
    _ = writeln!(out, "\nSampling:\n\n| field | also | |\n|---|---|---|");
    for p in params() {
        let aliases: Vec<_> = p.aliases.iter().map(|a| format!("`{a}`")).collect();
        _ = writeln!(out, "| `{}` | {} | {} |", p.name, aliases.join(" "), p.doc.replace('|', "\\|"));
    }
    out
}

/// `LAMINA_BLESS=1` writes the page anew.
#[test]
fn the_page_of_fields_is_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serving-fields.md");
    if std::env::var_os("LAMINA_BLESS").is_some() {
        fs::write(&path, documentation()).expect("a page");
    }
    let page = fs::read_to_string(&path).expect("a page");
    assert!(
        page == documentation(),
        "{} is not what the tables say: LAMINA_BLESS=1 writes it",
        path.display()
    );
}

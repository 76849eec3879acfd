//! The encoder of pictures or sound of a folder, as an mmproj file beside the model's.

use crate::{error::Result, output::note, stoppable::Stoppable, write};
use lamina_convert::{ConvertError, Draft, Types, WriteOptions};
use serde_json::{Value, json};
use std::path::Path;

/// The encoder of the folder; none, with a note where there is one that cannot be written.
pub fn beside(input: &Path) -> Option<Draft> {
    match Draft::mmproj(input) {
        Ok(found) => found,
        Err(e) => {
            note(&format!("note: the encoder is not written: {e}"));
            None
        }
    }
}

/// Writes it beside the model; gives what the report's JSON says of it.
pub fn written(draft: &Draft, path: &Path) -> Result<(&'static str, Value)> {
    let report = write::file(draft, path, &WriteOptions::new(half()), &Stoppable::new())?;
    note(&format!("note: the encoder is {}", path.display()));
    Ok(("mmproj", json!({ "files": report.files, "bytes_out": report.bytes_out })))
}

/// Writes it alone, with a report.
pub fn alone(input: &Path, path: &Path, as_json: bool) -> Result<()> {
    let problem = "is no folder of a model that sees or hears: there is no encoder to write".to_owned();
    let none = || ConvertError::File { path: input.to_owned(), problem };
    let draft = Draft::mmproj(input)?.ok_or_else(none)?;
    let report = write::file(&draft, path, &WriteOptions::new(half()), &Stoppable::new())?;
    write::report(&report, as_json, &[])
}

/// Matrices in 16-bit floats; norms, biases, places and patches stay float32.
fn half() -> Types {
    "f16".parse().unwrap_or(Types::Auto)
}

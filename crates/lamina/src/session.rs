//! Files that keep a conversation with what was computed of it.
//!
//! They are files of entries as the cache on disk has them: the first holds the facts as JSON, the others pages and states.
//! One that is cut off anywhere is refused.

use crate::{Error, Result, media::MediaInputs, model::Model};
use lamina_disk::{Entry, EntryFileError, EntryFileReader, EntryFileWriter, FileMagic, Unwritten};
use lamina_engine::{NumberRows, kv::content::RowsId};
use serde_json::{Value, json};
use std::{collections::HashMap, iter, path::Path};

/// Begins every file. Version 1 had no footer.
const MAGIC: &FileMagic = b"LMNSESS2";
/// What may differ beside the facts that a file names.
const OTHERWISE: &str =
    "the model's files have changed, or what approximates, or which layers of the cache lie on disk";
/// What the first entry is made of, beside the fingerprint.
const FACTS: &[u8] = b"facts of a session";

/// What a file keeps of a conversation beside the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedSession {
    /// Tokens of the text.
    pub tokens: Vec<u32>,
    /// What the one who saved it added: messages, options, a text.
    pub data: Value,
    /// How many of the tokens need not be computed now.
    pub cached_tokens: usize,
}

impl Model {
    /// Saves what memory has of a text that begins with `tokens`, and any `data`, as a file that replaces the one that is
    /// there. Returns its bytes.
    ///
    /// # Errors
    /// When the model keeps no beginnings, `tokens` are none of it, or the file cannot be written.
    pub fn save_session(&self, path: &Path, tokens: &[u32], data: &Value) -> Result<u64> {
        self.save_session_with(path, tokens, &MediaInputs::default(), data)
    }

    /// [`Model::save_session`] of a text with pictures and sounds, whose soft tokens are among `tokens`. The file names them; a request with
    /// the same ones goes on from it, and nothing of them is encoded again.
    ///
    /// # Errors
    /// As for [`Model::save_session`]; also when there are not as many soft tokens as these have rows.
    pub fn save_session_with(
        &self,
        path: &Path,
        tokens: &[u32],
        media: &MediaInputs,
        data: &Value,
    ) -> Result<u64> {
        let service = &self.shared.service;
        let fingerprint = self.session_fingerprint()?;
        let (rows, _) = self.media_rows(tokens, media)?;
        let named: Vec<Value> = rows.iter().map(named).collect();
        let parts = service.export_text(tokens.to_vec(), rows, self.scales.clone())?;
        let info = self.info();
        let facts = json!({
            "model": info.path,
            "type": info.type_name,
            "kv_dtype": info.kv_dtype.to_string(),
            "isa": info.isa,
            "version": env!("CARGO_PKG_VERSION"),
            "tokens": tokens,
            "rows": named,
            "data": data,
        });
        let failed = |e: std::io::Error| {
            Error::Runtime(format!("{}: the session cannot be saved: {e}", path.display()))
        };
        let facts = Entry::new(&fingerprint, FACTS, &[facts.to_string().as_bytes()]);
        let parts = parts.iter().map(Unwritten::entry);
        let mut file = EntryFileWriter::create(path, MAGIC).map_err(failed)?;
        iter::once(facts).chain(parts).try_for_each(|entry| file.push(&entry)).map_err(failed)?;
        file.finish().map_err(failed)
    }

    /// Reads what [`Model::save_session`] wrote, and puts its pages into the cache, as far as it has room.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or was saved with another model, type of cache, kernels or version.
    pub fn load_session(&self, path: &Path) -> Result<SavedSession> {
        let fingerprint = self.session_fingerprint()?;
        let mut file = SessionFile::open(path)?;
        let first = file.next()?.ok_or_else(|| file.broken("it ends early"))?;
        let text = first.parts().next().unwrap_or_default();
        let facts: Value = serde_json::from_slice(text).map_err(|_| file.broken("its facts are no JSON"))?;
        if first.proof() != FACTS {
            return Err(file.broken("it holds no session"));
        }
        if first.key() != fingerprint {
            return Err(self.differs(path, &facts));
        }
        let tokens = facts["tokens"].as_array().into_iter().flatten();
        let tokens: Option<Vec<u32>> = tokens.map(|t| u32::try_from(t.as_u64()?).ok()).collect();
        let tokens = tokens.ok_or_else(|| file.broken("its tokens are no numbers"))?;
        let rows = facts["rows"].as_array().into_iter().flatten().map(rows_of).collect::<Option<Vec<_>>>();
        let rows = rows.ok_or_else(|| file.broken("its rows have no names"))?;
        let mut entries = HashMap::new();
        while let Some(entry) = file.next()? {
            entries.insert(entry.key(), entry);
        }
        let cached_tokens = match tokens.is_empty() {
            true => 0,
            false => self.shared.service.import_text(tokens.clone(), rows, self.scales.clone(), entries)?,
        };
        Ok(SavedSession { tokens, data: facts["data"].clone(), cached_tokens })
    }

    /// What tells models, layouts, types and versions apart whose numbers differ.
    fn session_fingerprint(&self) -> Result<[u8; 16]> {
        let none =
            || Error::Unsupported("this model keeps no computed beginnings: it has no sessions".into());
        self.shared.service.fingerprint().ok_or_else(none)
    }

    fn differs(&self, path: &Path, facts: &Value) -> Error {
        let info = self.info();
        let here = [
            ("model", info.path.clone()),
            ("type", info.type_name.clone()),
            ("kv_dtype", info.kv_dtype.to_string()),
            ("isa", info.isa.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        let other = |(name, here): &(&str, String)| {
            let there = facts[*name].as_str().unwrap_or_default();
            (there != here).then(|| format!("{name} {there} instead of {here}"))
        };
        let found: Vec<String> = here.iter().filter_map(other).collect();
        let found = if found.is_empty() { OTHERWISE.into() } else { found.join(", ") };
        Error::InvalidRequest(format!(
            "{}: the session belongs to another model or to other options: {found}; load the model as it was then",
            path.display()
        ))
    }
}

/// Places and name of rows, as a file has them.
fn named(rows: &NumberRows) -> Value {
    let id: String = rows.id().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    json!([rows.places().start, rows.places().end, id])
}

fn rows_of(value: &Value) -> Option<NumberRows> {
    let place = |i: usize| usize::try_from(value.get(i)?.as_u64()?).ok();
    let (text, mut id) = (value.get(2)?.as_str()?, [0; 32]);
    for (i, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    let places = place(0)?..place(1)?;
    (places.start < places.end).then(|| NumberRows::named(places, RowsId::from_bytes(id)))
}

/// A session's file while it is read.
struct SessionFile<'a> {
    path: &'a Path,
    file: EntryFileReader,
}

impl SessionFile<'_> {
    fn open(path: &Path) -> Result<SessionFile<'_>> {
        let file = EntryFileReader::open(path, MAGIC).map_err(|e| refused(path, &e))?;
        Ok(SessionFile { path, file })
    }

    /// The next entry; none at the end.
    fn next(&mut self) -> Result<Option<Entry>> {
        self.file.next_entry().map_err(|e| refused(self.path, &e))
    }

    fn broken(&self, what: &str) -> Error {
        refused(self.path, &EntryFileError::Damaged(what.into()))
    }
}

fn refused(path: &Path, why: &EntryFileError) -> Error {
    let text = format!("{}: the session {why}", path.display());
    match why {
        EntryFileError::Io(_) => Error::Model(text),
        EntryFileError::Version => {
            Error::Format(format!("{text}, which does not tell whether a file is whole; save it again"))
        }
        _ => Error::Format(text),
    }
}

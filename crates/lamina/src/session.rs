//! Files that keep a conversation with what was computed of it.
//!
//! `LMNSESS1`, then entries as the cache on disk has them, each behind its length: the first holds the facts as JSON, the
//! others pages and states. Each entry has a checksum of its own.

use crate::{Error, Result, model::Model};
use lamina_disk::Entry;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

/// Begins every file; its last character is the version of the form.
const MAGIC: &[u8; 8] = b"LMNSESS1";
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
        let service = &self.shared.service;
        let fingerprint = self.session_fingerprint()?;
        let parts = service.export_text(tokens.to_vec(), self.scales.clone())?;
        let info = self.info();
        let facts = json!({
            "model": info.path,
            "type": info.type_name,
            "kv_dtype": info.kv_dtype.to_string(),
            "isa": info.isa,
            "version": env!("CARGO_PKG_VERSION"),
            "tokens": tokens,
            "data": data,
        });
        let failed = |e: std::io::Error| {
            Error::Runtime(format!("{}: the session cannot be saved: {e}", path.display()))
        };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let mut out = BufWriter::new(file);
        out.write_all(MAGIC).map_err(failed)?;
        let facts = Entry::new(&fingerprint, FACTS, &[facts.to_string().as_bytes()]);
        let parts = parts.into_iter().map(|p| Entry::new(&p.key, &p.proof, &[&p.bytes]));
        let mut bytes = MAGIC.len() as u64;
        for entry in std::iter::once(facts).chain(parts) {
            out.write_all(&(entry.bytes().len() as u64).to_le_bytes()).map_err(failed)?;
            out.write_all(entry.bytes()).map_err(failed)?;
            bytes += 8 + entry.bytes().len() as u64;
        }
        let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
        file.persist(path).map_err(|e| failed(e.error))?;
        Ok(bytes)
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
        let mut entries = HashMap::new();
        while let Some(entry) = file.next()? {
            entries.insert(entry.key(), entry);
        }
        let cached_tokens = match tokens.is_empty() {
            true => 0,
            false => self.shared.service.import_text(tokens.clone(), self.scales.clone(), entries)?,
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

/// A session's file while it is read.
struct SessionFile<'a> {
    path: &'a Path,
    file: BufReader<File>,
    left: u64,
}

impl SessionFile<'_> {
    fn open(path: &Path) -> Result<SessionFile<'_>> {
        let failed = |e| Error::Model(format!("{}: the session cannot be read: {e}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let left = file.metadata().map_err(failed)?.len();
        let mut file = SessionFile { path, file: BufReader::new(file), left };
        match file.take(8)?.as_slice() {
            magic if magic == MAGIC => Ok(file),
            magic if magic[..7] == MAGIC[..7] => Err(file.broken("its form is one of another version")),
            _ => Err(file.broken("it is no session")),
        }
    }

    /// The next entry; none at the end.
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.left == 0 {
            return Ok(None);
        }
        let len = u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default());
        let bytes = self.take(len)?;
        Entry::parse(bytes).map(Some).map_err(|damage| self.broken(&damage.to_string()))
    }

    /// The next `len` bytes. A length that the file does not have is found before memory is taken for it.
    fn take(&mut self, len: u64) -> Result<Vec<u8>> {
        if len > self.left {
            return Err(self.broken("it is cut off"));
        }
        self.left -= len;
        let mut bytes = vec![0; len as usize];
        self.file.read_exact(&mut bytes).map_err(|e| self.broken(&e.to_string()))?;
        Ok(bytes)
    }

    fn broken(&self, what: &str) -> Error {
        Error::Format(format!("{}: the session is damaged: {what}", self.path.display()))
    }
}

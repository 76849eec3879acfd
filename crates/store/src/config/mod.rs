//! The settings of a model as one tree under Hugging Face names, read by typed calls that say what is wrong.

mod aliases;
mod derive;
mod gguf;
mod hf;
mod inert;
mod layers;
mod nested;
mod rope;
mod table;
mod tree;

pub(crate) use gguf::architecture;

impl Config {
    /// Metadata key of a GGUF file for settings that the format has no key for: the text of a JSON object under Hugging
    /// Face names.
    pub const EXTRA_KEY: &str = gguf::EXTRA;
}

use crate::{
    error::{FormatError, Result, quoted},
    json::describe,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A tree of settings. Keys are Hugging Face names, nested ones dotted: `rope_parameters.rope_theta`. `null` counts as
/// missing. Each read is noted, so that [`Config::unread`] can tell what a model asks for and nobody implements; clones
/// and sections share these notes.
#[derive(Clone, Debug)]
pub struct Config {
    shared: Arc<ConfigTree>,
    /// Path of this section with a dot behind it; empty for the whole.
    prefix: String,
}

#[derive(Debug)]
struct ConfigTree {
    file: PathBuf,
    tree: Map<String, Value>,
    /// Where values of a GGUF file came from: path to metadata key.
    origins: BTreeMap<String, String>,
    /// The architecture's name in a GGUF file, which its keys start with.
    gguf_arch: Option<String>,
    /// Metadata keys of the architecture that the table does not know.
    untranslated: Vec<String>,
    read: Mutex<BTreeSet<String>>,
}

/// Declares, for each type, a read of a key that must be there and one of a key that may be.
macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident $opt:ident $ty:ty, $wanted:literal, $convert:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// When the key is missing or its value is something else.
        pub fn $name(&self, key: &str) -> Result<$ty> {
            self.$opt(key)?.ok_or_else(|| self.missing(key))
        }

        #[doc = concat!("[`Config::", stringify!($name), "`] of a key that may be missing.")]
        ///
        /// # Errors
        /// When the key is there and its value is something else.
        pub fn $opt(&self, key: &str) -> Result<Option<$ty>> {
            self.read(key, $wanted, $convert)
        }
    )*};
}

impl Config {
    reads! {
        /// A whole number of at least 0.
        usize opt_usize usize, "a whole number of at least 0", tree::usize;
        /// A number, in single precision.
        f32 opt_f32 f32, "a number in the range of float32", tree::f32;
        /// A number, in double precision.
        f64 opt_f64 f64, "a number", tree::f64;
        /// Text.
        str opt_str &str, "text", Value::as_str;
        /// A list of whole numbers.
        usize_list opt_usize_list Vec<usize>, "a list of whole numbers", |v| list(v, tree::usize);
        /// A list of numbers, in single precision.
        f32_list opt_f32_list Vec<f32>, "a list of numbers", |v| list(v, tree::f32);
        /// A list of texts.
        str_list opt_str_list Vec<&str>, "a list of texts", |v| list(v, Value::as_str);
        /// A list of truth values; numbers 0 and 1 count.
        bool_list opt_bool_list Vec<bool>, "a list of true and false", |v| list(v, truth);
    }

    /// A truth value; a missing one is false.
    ///
    /// # Errors
    /// When the value is neither true nor false.
    pub fn flag(&self, key: &str) -> Result<bool> {
        Ok(self.opt_bool(key)?.unwrap_or(false))
    }

    /// A truth value that may be missing, where missing is not false.
    ///
    /// # Errors
    /// When the value is neither true nor false.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// A whole number for each of `layers` layers: the key holds one number for all, or a list with one for each. A
    /// list may go on for the file's extra prediction layers (`num_nextn_predict_layers`).
    ///
    /// # Errors
    /// When the key is missing, is neither, or the list has another length.
    pub fn per_layer(&self, key: &str, layers: usize) -> Result<Vec<usize>> {
        if let Some(Value::Array(_)) = self.peek(key) {
            let mut list = self.usize_list(key)?;
            let extra = self.opt_usize("num_nextn_predict_layers")?.unwrap_or(0);
            if list.len() != layers && Some(list.len()) != layers.checked_add(extra) {
                let found = format!("a list of {}", list.len());
                return Err(self.wrong(key, &format!("one number, or a list of {layers}"), found));
            }
            list.truncate(layers);
            return Ok(list);
        }
        let one = self.usize(key)?;
        if layers > layers::MAX_LAYERS {
            let wanted = format!("at most {}", layers::MAX_LAYERS);
            return Err(self.wrong("num_hidden_layers", &wanted, layers.to_string()));
        }
        Ok(vec![one; layers])
    }

    /// The number of layer `i`: the key holds one number for all layers, or a list with one for each.
    ///
    /// # Errors
    /// When the value is neither, or the list is too short.
    pub fn opt_usize_at(&self, key: &str, i: usize) -> Result<Option<usize>> {
        match self.peek(key) {
            Some(Value::Array(_)) => self.element(key, i, "a whole number of at least 0", tree::usize),
            _ => self.opt_usize(key),
        }
    }

    /// The text of layer `i`, from a list with one for each.
    ///
    /// # Errors
    /// When the value is no list, the list is too short, or its element is no text.
    pub fn opt_str_at(&self, key: &str, i: usize) -> Result<Option<&str>> {
        self.element(key, i, "text", Value::as_str)
    }

    /// Element `i` of a list that may be missing.
    fn element<'a, T>(
        &'a self,
        key: &str,
        i: usize,
        wanted: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(list) = self.read(key, "a list", Value::as_array)? else { return Ok(None) };
        let Some(value) = list.get(i) else {
            let found = format!("a list of {}", list.len());
            return Err(self.wrong(key, &format!("a list of at least {}", i + 1), found));
        };
        let wanted = format!("{wanted} at {i}");
        convert(value).map(Some).ok_or_else(|| self.wrong(key, &wanted, describe(value)))
    }

    /// True when `key` has a value. Counts as a read of the value, but not of what an object holds.
    pub fn has(&self, key: &str) -> bool {
        let Some((path, value)) = self.find(key) else { return false };
        if !value.is_object() {
            self.note(path);
        }
        true
    }

    /// The value of `key` as it is; all below it counts as read.
    pub fn value(&self, key: &str) -> Option<&Value> {
        let (path, value) = self.find(key)?;
        self.note(path);
        Some(value)
    }

    /// The object at `key` as a config of its own, whose keys are relative to it.
    pub fn section(&self, key: &str) -> Option<Config> {
        let (path, value) = self.find(key)?;
        value.is_object().then(|| Config { shared: self.shared.clone(), prefix: path + "." })
    }

    /// Notes keys as read that a family knows and need not obey.
    pub fn ignore(&self, keys: &[&str]) {
        keys.iter().filter_map(|key| self.find(key)).for_each(|(path, _)| self.note(path));
    }

    /// What nobody read: paths, with the GGUF key behind where there is one, and GGUF keys of the architecture that have
    /// no Hugging Face name. An object of which nothing was read is one entry. Settings that cannot change what a model
    /// computes are left out, so is what is `null`.
    pub fn unread(&self) -> Vec<String> {
        let mut paths = Vec::new();
        unread_below(&self.shared.tree, "", &self.notes(), &mut paths);
        let named = paths.into_iter().map(|path| self.shared.name(&path));
        named.chain(self.shared.untranslated.iter().cloned()).collect()
    }

    /// The whole tree, for reports; does not count as a read.
    pub fn tree(&self) -> &Map<String, Value> {
        &self.shared.tree
    }

    /// The file that the settings came from.
    pub fn file(&self) -> &Path {
        &self.shared.file
    }

    fn read<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| self.wrong(key, wanted, describe(value)))
    }

    /// The value of `key`, unnoted.
    fn peek(&self, key: &str) -> Option<&Value> {
        self.find(key).map(|(_, value)| value)
    }

    /// Full path and value of `key`, or of another name for it.
    fn find(&self, key: &str) -> Option<(String, &Value)> {
        let one = |key: &str| {
            let path = format!("{}{key}", self.prefix);
            let value = tree::get(&self.shared.tree, &path).filter(|v| !v.is_null())?;
            Some((path, value))
        };
        let others = if self.prefix.is_empty() { aliases::group(key).unwrap_or(&[]) } else { &[] };
        one(key).or_else(|| others.iter().find_map(|k| one(k)))
    }

    fn notes(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A set of names cannot be left half-changed, so a panic elsewhere does not spoil it.
        self.shared.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a path, and its other names with it: a file that has both means the same by both.
    fn note(&self, path: String) {
        let mut notes = self.notes();
        notes.extend(aliases::group(&path).unwrap_or(&[]).iter().map(|name| (*name).to_owned()));
        notes.insert(path);
    }

    fn missing(&self, key: &str) -> FormatError {
        let path = format!("{}{key}", self.prefix);
        let hint = match self.shared.gguf_key(&path) {
            Some(gguf) => format!("; a GGUF file has it as {}", quoted(&gguf)),
            None => String::new(),
        };
        FormatError::Missing { file: self.shared.file.clone(), what: format!("key {}", quoted(&path)), hint }
    }

    fn wrong(&self, key: &str, wanted: &str, found: String) -> FormatError {
        let path = self.find(key).map_or_else(|| format!("{}{key}", self.prefix), |(path, _)| path);
        self.shared.wrong(&path, wanted, found)
    }
}

impl ConfigTree {
    /// The GGUF key that `path` would come from, if this is a GGUF file's config.
    fn gguf_key(&self, path: &str) -> Option<String> {
        let arch = self.gguf_arch.as_deref()?;
        let names = aliases::group(path).unwrap_or(&[]);
        let mut rows = table::rows(arch);
        let row = rows.find(|r| r.hf == path || names.contains(&r.hf))?;
        Some(format!("{arch}.{}", row.gguf))
    }

    fn wrong(&self, path: &str, wanted: &str, found: String) -> FormatError {
        let key = self.name(path);
        FormatError::WrongType { file: self.file.clone(), key, wanted: wanted.to_owned(), found }
    }

    /// A path as messages name it.
    fn name(&self, path: &str) -> String {
        match self.origins.get(path) {
            Some(gguf) => format!("{} (from {})", quoted(path), quoted(gguf)),
            None => quoted(path),
        }
    }
}

fn list<'a, T>(value: &'a Value, convert: impl Fn(&'a Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(convert).collect()
}

fn truth(value: &Value) -> Option<bool> {
    value.as_bool().or(match value.as_u64()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    })
}

/// Adds the paths below `prefix` that are not in `read`.
fn unread_below(map: &Map<String, Value>, prefix: &str, read: &BTreeSet<String>, out: &mut Vec<String>) {
    for (key, value) in map {
        let path = format!("{prefix}{key}");
        if value.is_null() || inert::is_inert(key) || read.contains(&path) {
            continue;
        }
        match value {
            Value::Object(inner) if !inner.is_empty() && crate::json::float(value).is_none() => {
                let below = format!("{path}.");
                let touched = read.range(below.clone()..).next().is_some_and(|p| p.starts_with(&below));
                let mut unread = Vec::new();
                unread_below(inner, &below, read, &mut unread);
                if touched {
                    out.append(&mut unread);
                } else if !unread.is_empty() {
                    out.push(path);
                }
            }
            _ => out.push(path),
        }
    }
}

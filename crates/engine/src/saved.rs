//! What was computed of a text, as bytes that outlive the engine.

use lamina_disk::{Entry, Key};
use std::collections::HashMap;

/// A page or a state of a text: what names it, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPart {
    /// Its name.
    pub key: Key,
    /// What the name was made of.
    pub proof: Vec<u8>,
    /// The page or the state, as the machine exports it.
    pub bytes: Vec<u8>,
}

/// Entries by their names, to be put back.
pub type SavedEntries = HashMap<Key, Entry>;

//! Byte-level builders of tiny model files, apart from the crate's own writer so that they can lie, and where the shared
//! test data is.

pub use lamina_fixtures::shared;

use lamina_store::{Config, Metadata, Tensors, Value};
use std::path::PathBuf;

/// All files below `folder` with the ending `ending`, sorted.
pub fn files(folder: &std::path::Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()) {
        if entry.is_dir() {
            found.extend(files(&entry, ending));
        } else if entry.extension().is_some_and(|e| e == ending) {
            found.push(entry);
        }
    }
    found.sort();
    found
}

pub fn string(s: &[u8]) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s].concat()
}

/// A metadata entry of any type, its payload given as bytes.
pub fn entry(key: &str, type_id: u32, payload: &[u8]) -> Vec<u8> {
    [&string(key.as_bytes())[..], &type_id.to_le_bytes(), payload].concat()
}

pub fn u32_entry(key: &str, v: u32) -> Vec<u8> {
    entry(key, 4, &v.to_le_bytes())
}

pub fn string_entry(key: &str, v: &str) -> Vec<u8> {
    entry(key, 8, &string(v.as_bytes()))
}

/// Element type, count, and payload of an array.
pub fn array(type_id: u32, count: u64, payload: &[u8]) -> Vec<u8> {
    [&type_id.to_le_bytes()[..], &count.to_le_bytes(), payload].concat()
}

#[derive(Clone)]
pub struct RawTensor {
    pub name: Vec<u8>,
    pub dims: Vec<u64>,
    pub n_dims: Option<u32>,
    pub type_id: u32,
    pub offset: u64,
}

impl RawTensor {
    pub fn new(name: &str, dims: &[u64], type_id: u32, offset: u64) -> Self {
        RawTensor { name: name.into(), dims: dims.to_vec(), n_dims: None, type_id, offset }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = string(&self.name);
        out.extend(self.n_dims.unwrap_or(self.dims.len() as u32).to_le_bytes());
        self.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
        out.extend(self.type_id.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out
    }
}

/// A GGUF file field by field.
#[derive(Clone)]
pub struct RawGguf {
    pub magic: [u8; 4],
    pub version: u32,
    pub tensor_count: Option<u64>,
    pub key_count: Option<u64>,
    pub entries: Vec<Vec<u8>>,
    pub tensors: Vec<RawTensor>,
    pub alignment: usize,
    pub data: Vec<u8>,
}

impl RawGguf {
    /// A valid file: four keys, tensors `a` (F32 [2, 4]), `b` (Q4_0 [1, 32]) and `c` (F16 [3]).
    pub fn valid() -> Self {
        RawGguf {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            entries: vec![
                string_entry("general.architecture", "llama"),
                u32_entry("llama.block_count", 2),
                entry("tokenizer.ggml.tokens", 9, &array(8, 2, &[string(b"ab"), string(b"c")].concat())),
                entry(
                    "tokenizer.ggml.scores",
                    9,
                    &array(6, 2, &[0.5f32.to_le_bytes(), 1f32.to_le_bytes()].concat()),
                ),
            ],
            tensors: vec![
                RawTensor::new("a", &[4, 2], 0, 0),
                RawTensor::new("b", &[32, 1], 2, 32),
                RawTensor::new("c", &[3], 1, 64),
            ],
            alignment: 32,
            data: (0..70).collect(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.entries.len() as u64).to_le_bytes());
        self.entries.iter().for_each(|e| out.extend(e));
        self.tensors.iter().for_each(|t| out.extend(t.encode()));
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }
}

/// A safetensors file of a header text and data bytes.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Metadata as llama.cpp's converters write it; `%` in a key stands for the architecture.
pub fn metadata(arch: &str, keys: &[(&str, Value)]) -> Metadata {
    let mut m = Metadata::new("m.gguf");
    m.insert("general.architecture", arch);
    for (key, value) in keys {
        m.insert(key.replace('%', arch), value.clone());
    }
    m
}

/// The settings that this metadata says.
pub fn gguf(arch: &str, keys: &[(&str, Value)]) -> Config {
    Config::from_metadata(&metadata(arch, keys), &Tensors::new()).expect("sound")
}

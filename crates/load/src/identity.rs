//! Names of weights and adapters that hold across processes, so that cached pages and panels on disk can outlive one.

use crate::{lora::Loras, options::LoadOptions};
use lamina_base::{BytesFile, DType, HostTensor, StoredBytes};
use lamina_disk::checksum;
use lamina_engine::{
    Identity, Name,
    kv::content::{Cells, RowsId, sha256},
};
use lamina_lora::Factors;
use lamina_store::{Checkpoint, ModelFile};
use std::{collections::BTreeMap, fmt::Write};

/// Blocks of a file that are looked at, and how long each is.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: usize = 4096;
/// Bytes of each tensor that are looked at.
const TENSOR_BYTES: usize = 256;
/// Tables of words have more rows than this.
const TABLE_ROWS: usize = 16_384;

/// What the numbers of a loaded model depend on beside its plan: the files as they are now, what they are turned into,
/// and what computes with them (`backend`).
pub(crate) fn identity(ck: &Checkpoint, options: &LoadOptions, backend: &str, loras: &Loras) -> Identity {
    let mut text = format!("lamina {} {backend} {:?}\n", env!("CARGO_PKG_VERSION"), options.dtype);
    for approximation in options.approximations() {
        line(&mut text, format_args!("{approximation}"));
    }
    files(&mut text, ck, options);
    Identity { weights: name(text.as_bytes()), loras: loras.changes().map(lora).collect() }
}

/// What names the weights of an encoder beside a model: its files as they are now.
pub(crate) fn encoder_identity(ck: &Checkpoint, options: &LoadOptions) -> Name {
    let mut text = format!("encoder {}\n", env!("CARGO_PKG_VERSION"));
    files(&mut text, ck, options);
    name(text.as_bytes())
}

/// The files as they are now; by their content where names outlive the process: a copy of a model finds what another one has
/// left, on this machine and on others.
fn files(text: &mut String, ck: &Checkpoint, options: &LoadOptions) {
    if options.cache_dir.is_some() {
        return contents(text, ck);
    }
    for file in &ck.files {
        line(text, format_args!("{:?}", file.stamp()));
    }
    for t in ck.tensors.values() {
        line(text, format_args!("{:?} {} {:?}", t.name, t.dtype, t.shape));
        if ck.files.is_empty() {
            // No file stands for the values.
            line(text, format_args!("{:?}", name(t.bytes.held().unwrap_or_default())));
        }
    }
}

/// What all copies of a model have in common: lengths of its files, names and shapes of its tensors, and bytes from all over the
/// files and of every tensor.
fn contents(text: &mut String, ck: &Checkpoint) {
    for file in &ck.files {
        let blocks: Vec<u8> =
            samples(file).flat_map(|(block, read)| [block, vec![u8::from(read)]].concat()).collect();
        line(text, format_args!("{} {:?}", file.len(), name(&blocks)));
    }
    for t in ck.tensors.values() {
        let bytes = match t.bytes.held().filter(|_| ck.files.is_empty()) {
            Some(all) => name(all),
            None => name(&some(t)),
        };
        line(text, format_args!("{:?} {} {:?} {bytes:?}", t.name, t.dtype, t.shape));
    }
}

/// Some bytes from the middle of a tensor: what was trained anew differs there, wherever in the file it lies. Of tables of
/// words, which grow by single rows, as many from all over them.
fn some(tensor: &HostTensor) -> Vec<u8> {
    let (bytes, rows) = (&tensor.bytes, tensor.shape.first().copied().unwrap_or(1));
    let count = TENSOR_BYTES.min(bytes.len());
    let places = if rows > TABLE_ROWS { SAMPLES } else { 1 };
    let last = bytes.len() - count;
    // From the first bytes to the last ones.
    let start = |i: usize| {
        if places == 1 { last / 2 } else { (last as u128 * i as u128 / (places - 1) as u128) as usize }
    };
    (0..places).map(start).flat_map(|start| at(bytes, start, count)).collect()
}

fn at(bytes: &StoredBytes, start: usize, count: usize) -> Vec<u8> {
    match bytes {
        StoredBytes::Held(all) => all[start..start + count].to_vec(),
        StoredBytes::InFile { file, range } => {
            let mut found = vec![0; count];
            match file.read_at(range.start + start, &mut found) {
                Ok(()) => found,
                Err(_) => vec![],
            }
        }
    }
}

/// What names the bytes of a model's matrices, before a backend packs them: the files as they are now, and what their
/// weights are turned into.
pub(crate) fn panel_key(ck: &Checkpoint, dtype: Option<DType>) -> String {
    let mut text = format!("{dtype:?}");
    let mut add = |what: std::fmt::Arguments<'_>| text.write_fmt(what).expect("strings take all");
    for file in &ck.files {
        add(format_args!(" {:?}", file.stamp()));
        for (block, read) in samples(file) {
            add(format_args!(" {:x} {read}", checksum(&block)));
        }
    }
    for t in ck.tensors.values() {
        let held = if ck.files.is_empty() { t.bytes.held().map(checksum) } else { None };
        add(format_args!(" {:?} {} {:?} {held:?}", t.name, t.dtype, t.shape));
    }
    // Names and shapes of thousands of tensors make no better key than their checksum.
    format!("{:016x}-{}", checksum(text.as_bytes()), text.len())
}

/// A checksum of what a model and its adapters are, which is the same on every machine that has a copy of their files: headers,
/// lengths, and bytes from all over the files; all numbers of adapters.
pub(crate) fn content_key(ck: &Checkpoint, loras: &Loras) -> u64 {
    let mut text = String::new();
    loras.changes().for_each(|changes| line(&mut text, format_args!("{:?}", lora(changes))));
    contents(&mut text, ck);
    checksum(text.as_bytes())
}

/// Blocks from all over a file, and whether each could be read: what outlives a process must not be that of a file that was
/// written over within the resolution of its time. A block that cannot be read changed since the file was loaded; as zeros
/// it is another one than it was.
fn samples(file: &ModelFile) -> impl Iterator<Item = (Vec<u8>, bool)> {
    let bytes = SAMPLE_BYTES.min(file.len());
    let step = (file.len() - bytes) / (SAMPLES - 1);
    (0..SAMPLES).map(move |i| {
        let mut block = vec![0; bytes];
        let read = file.read_at(step * i, &mut block).is_ok();
        if !read {
            block.fill(0);
        }
        (block, read)
    })
}

/// The name of an adapter: what it changes by which numbers.
fn lora(changes: &BTreeMap<String, Factors>) -> Name {
    let mut text = String::new();
    for (weight, f) in changes {
        let (down, up) = (RowsId::of(f.rank, &f.down), RowsId::of(f.rank, &f.up));
        line(&mut text, format_args!("{weight:?} {} {down:?} {up:?}", f.rank));
    }
    name(text.as_bytes())
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(text, "{what}").expect("strings take all");
}

fn name(bytes: &[u8]) -> Name {
    sha256(bytes, &Cells::from(&[][..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(weight: &str, numbers: &[f32]) -> BTreeMap<String, Factors> {
        let factors = Factors { rank: 1, down: numbers.to_vec(), up: vec![1.0] };
        BTreeMap::from([(weight.to_owned(), factors)])
    }

    #[test]
    fn adapters_are_named_by_what_they_change() {
        let one = lora(&changes("q", &[1.0, 2.0]));
        assert_eq!(one, lora(&changes("q", &[1.0, 2.0])));
        assert_ne!(one, lora(&changes("k", &[1.0, 2.0])));
        assert_ne!(one, lora(&changes("q", &[1.0, 2.5])));
    }
}

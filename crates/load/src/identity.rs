//! Names of weights and adapters that hold across processes, so that cached pages can outlive one.

use crate::{lora::Loras, options::LoadOptions};
use lamina_base::BytesFile;
use lamina_engine::{
    Identity, Name,
    kv::content::{Cells, RowsId, sha256},
};
use lamina_lora::Factors;
use lamina_store::{Checkpoint, ModelFile};
use std::{collections::BTreeMap, fmt::Write};

/// How many pieces of a file are looked at, and how long each is.
const SAMPLES: usize = 64;
const SAMPLE: usize = 4096;

/// What the numbers of a loaded model depend on beside its plan: the files as they are now, what they are turned into,
/// and what computes with them (`backend`).
pub(crate) fn identity(ck: &Checkpoint, options: &LoadOptions, backend: &str, loras: &Loras) -> Identity {
    let mut text = format!("lamina {} {backend} {:?}\n", env!("CARGO_PKG_VERSION"), options.dtype);
    for approximation in options.approximations() {
        line(&mut text, format_args!("{approximation}"));
    }
    for file in &ck.files {
        line(&mut text, format_args!("{:?}", file.stamp()));
        if options.cache_dir.is_some() {
            line(&mut text, format_args!("{:?}", name(&samples(file))));
        }
    }
    for t in ck.tensors.values() {
        line(&mut text, format_args!("{:?} {} {:?}", t.name, t.dtype, t.shape));
        if ck.files.is_empty() {
            // No file stands for the values.
            line(&mut text, format_args!("{:?}", name(t.bytes.held().unwrap_or_default())));
        }
    }
    Identity { weights: name(text.as_bytes()), loras: loras.changes().map(lora).collect() }
}

/// Bytes from all over a file: pages that outlive a process must not be those of a file that was written over within the
/// resolution of its time.
fn samples(file: &ModelFile) -> Vec<u8> {
    let piece = SAMPLE.min(file.len());
    let mut bytes = vec![0; SAMPLES * piece];
    for (i, out) in bytes.chunks_exact_mut(piece.max(1)).enumerate() {
        let offset = (file.len() - piece) / (SAMPLES - 1) * i;
        if file.read_at(offset, out).is_err() {
            // It changed since it was loaded; as zeros it is another file than the one that was.
            out.fill(0);
        }
    }
    bytes
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

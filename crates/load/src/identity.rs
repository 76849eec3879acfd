//! Names of weights and adapters that hold across processes, so that cached pages can outlive one.

use crate::{lora::Loras, options::LoadOptions};
use lamina_engine::{
    Identity, Name,
    kv::content::{Cells, RowsId, sha256},
};
use lamina_lora::Factors;
use lamina_plan::About;
use lamina_store::Checkpoint;
use std::{collections::BTreeMap, fmt::Write};

/// What the numbers of a loaded model depend on beside its plan: the files as they are now, what they are turned into,
/// and what computes with them.
pub(crate) fn identity(ck: &Checkpoint, options: &LoadOptions, about: &About, loras: &Loras) -> Identity {
    let About { device, kernels, threads: _ } = about;
    let mut text = format!("lamina {} {device} {kernels} {:?}\n", env!("CARGO_PKG_VERSION"), options.dtype);
    for file in &ck.files {
        line(&mut text, format_args!("{:?}", file.stamp()));
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

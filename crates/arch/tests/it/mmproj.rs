//! An encoder from an mmproj file is the one of the folder that it was made from: the same spec, the same bits.

use crate::common::Result;
use lamina_arch::{
    spec::{Ffn, Mixer},
    vision::{VisionFamily, VisionSource, VisionSpec, VisionWeights},
};
use lamina_fixtures::shared;
use lamina_store::Checkpoint;
use std::path::Path;

/// Names of a block's matrices with their rows and columns, and of its vectors.
fn tensors(spec: &VisionSpec) -> Vec<(String, usize, usize)> {
    let mut all = vec![];
    let hidden = spec.encoder.hidden;
    for (i, layer) in spec.encoder.layers.iter().enumerate() {
        let (Mixer::Gqa(g), Ffn::Dense(d)) = (&layer.mixer, &layer.ffn) else { continue };
        let mut add = |name: &str, rows, cols| {
            all.push((format!("v.blk.{i}.{name}.weight"), rows, cols));
            all.push((format!("v.blk.{i}.{name}.bias"), 1, rows));
        };
        for name in ["attn_q", "attn_k", "attn_v"] {
            add(name, g.heads * g.dim, hidden);
        }
        add("attn_out", hidden, g.heads * g.dim);
        add("ffn_up", d.inner, hidden);
        add("ffn_gate", d.inner, hidden);
        add("ffn_down", hidden, d.inner);
        for name in ["ln1", "ln2", "attn_post_norm", "ffn_post_norm"] {
            all.push((format!("v.blk.{i}.{name}.weight"), 1, hidden));
            all.push((format!("v.blk.{i}.{name}.bias"), 1, hidden));
        }
    }
    for name in ["v.pre_ln", "v.post_ln", "v.norm_embd"] {
        all.push((format!("{name}.weight"), 1, hidden));
        all.push((format!("{name}.bias"), 1, hidden));
    }
    all
}

fn compare(folder: &Path, file: &Path) -> Result<()> {
    let (folder, file) = (Checkpoint::open(folder)?, Checkpoint::open(file)?);
    let source = VisionSource::of_folder(&folder)?.expect("a model that sees");
    let mmproj = VisionSource::of_mmproj(&file)?;
    let family = VisionFamily::of(&source)?;
    assert_eq!(VisionFamily::of(&mmproj)?.name, family.name);
    let (spec, other) = (family.spec(&source)?, family.spec(&mmproj)?);
    assert_eq!(other.encoder, spec_pairs(&spec, &other).encoder);
    assert_eq!((other.pixels.scaling, other.pixels.patches), (spec.pixels.scaling, spec.pixels.patches));
    let (ours, theirs) =
        (VisionWeights::new(&source, family, &spec), VisionWeights::new(&mmproj, family, &other));
    let mut compared = 0;
    for (name, rows, cols) in tensors(&spec) {
        if ours.has(&name) {
            assert!(theirs.has(&name), "{name}");
            let (a, b) = (ours.get(&name, rows, cols)?.to_f32()?, theirs.get(&name, rows, cols)?.to_f32()?);
            assert_eq!(a, b, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} tensors");
    Ok(())
}

/// The spec with the order of rotary pairs of the other, which formats store differently, and with its windows: their size is
/// no key of these files, and this one's is not the usual.
fn spec_pairs(spec: &VisionSpec, other: &VisionSpec) -> VisionSpec {
    let mut spec = spec.clone();
    spec.encoder.pairs = other.encoder.pairs;
    if let (Some(own), Some(other)) = (&mut spec.encoder.windows, &other.encoder.windows) {
        own.side = other.side;
    }
    spec
}

#[test]
fn a_folder_and_its_mmproj_have_the_same_bits() {
    let Some(root) = shared("golden-vision") else { return };
    let mut failed = vec![];
    for entry in std::fs::read_dir(root.join("mmproj")).expect("lists").flatten() {
        let file = entry.path();
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let folder = root.join(&name);
        let mmproj = VisionSource::of_mmproj(&Checkpoint::open(&file).expect("opens")).expect("an mmproj");
        if VisionFamily::of(&mmproj).is_err() {
            continue;
        }
        let compared = std::panic::catch_unwind(|| compare(&folder, &file).map_err(|e| e.to_string()));
        match compared {
            Ok(Ok(())) => {}
            Ok(Err(e)) => failed.push(format!("{name}: {e}")),
            Err(_) => failed.push(format!("{name}: differs")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

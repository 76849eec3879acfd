//! A folder's encoder as an mmproj file, read again: the same spec, the same bits.

use lamina_arch::{
    spec::{Ffn, Mixer},
    vision::{VisionFamily, VisionSource, VisionSpec, VisionWeights},
};
use lamina_base::DType;
use lamina_convert::{Choice, ConvertError, Draft, Types, WriteOptions};
use lamina_fixtures::shared;
use lamina_store::Checkpoint;
use std::path::Path;

/// Matrices of blocks, and the patch embedding.
fn matrices(spec: &VisionSpec) -> Vec<(String, usize, usize)> {
    let hidden = spec.encoder.hidden;
    let patch = spec.pixels.patches;
    let pixels = (3 * patch.side * patch.side * patch.frames) as usize;
    let mut all = vec![("v.patch_embd.weight".to_owned(), hidden, pixels)];
    for (i, layer) in spec.encoder.layers.iter().enumerate() {
        let (Mixer::Gqa(g), Ffn::Dense(d)) = (&layer.mixer, &layer.ffn) else { continue };
        let wide = g.heads * g.dim;
        let of_block = [
            ("attn_q", wide, hidden),
            ("attn_k", wide, hidden),
            ("attn_v", wide, hidden),
            ("attn_out", hidden, wide),
            ("ffn_up", d.inner, hidden),
            ("ffn_down", hidden, d.inner),
        ];
        all.extend(of_block.map(|(name, rows, cols)| (format!("v.blk.{i}.{name}.weight"), rows, cols)));
    }
    all
}

fn round_trip(folder: &Path, file: &Path) {
    let ck = Checkpoint::open(folder).expect("opens");
    let source = VisionSource::of_folder(&ck).expect("settings").expect("a model that sees");
    let family = VisionFamily::of(&source).expect("a family");
    let spec = family.spec(&source).expect("a spec");
    let draft = Draft::mmproj(folder).expect("a draft").expect("a model that sees");
    draft.write(file, &WriteOptions::new(Types::Keep), &|_, _| true).expect("written");

    let read = VisionSource::of_mmproj(&Checkpoint::open(file).expect("opens")).expect("an mmproj");
    assert_eq!(VisionFamily::of(&read).expect("a family").name, family.name);
    let again = family.spec(&read).expect("a spec");
    let mut expected = spec.clone();
    expected.encoder.pairs = again.encoder.pairs;
    assert_eq!(again, expected, "{}", folder.display());

    let (ours, theirs) =
        (VisionWeights::new(&source, family, &spec), VisionWeights::new(&read, family, &again));
    for (name, rows, cols) in matrices(&spec) {
        let [a, b] =
            [&ours, &theirs].map(|w| w.get(&name, rows, cols).and_then(|t| t.to_f32()).expect("values"));
        assert!(a == b, "{}: {name}", folder.display());
    }
}

#[test]
fn a_folders_encoder_is_the_same_from_its_mmproj() {
    let Some(root) = shared("golden-vision") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let mut tried = 0;
    for entry in std::fs::read_dir(root).expect("lists").flatten() {
        let Ok(ck) = Checkpoint::open(entry.path()) else { continue };
        let known = VisionSource::of_folder(&ck).ok().flatten().is_some_and(|s| VisionFamily::of(&s).is_ok());
        if known {
            round_trip(&entry.path(), &dir.path().join("mmproj.gguf"));
            tried += 1;
        }
    }
    assert!(tried > 8, "{tried} families");
    assert!(Draft::mmproj(dir.path().join("mmproj.gguf")).expect("opens").is_none(), "no folder");
}

#[test]
fn an_encoder_alone_becomes_8_bits_and_less_only_by_force() {
    let Some(root) = shared("golden-vision") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["pixtral", "gemma3", "qwen3-vl"] {
        let draft = Draft::open(root.join(format!("mmproj/{name}.gguf"))).expect("opens");
        let types = |name: &str| name.parse::<Types>().expect("a type");
        let coarse = Choice::new(types("Q4_K_M")).plan(&draft, false);
        assert!(matches!(coarse, Err(ConvertError::CoarseEncoder { .. })), "{name}: {coarse:?}");
        let forced = Choice { coarse_encoders: true, ..Choice::new(types("Q4_0")) };
        assert!(forced.plan(&draft, false).expect("a plan").contains(&DType::Q4_0), "{name}");

        let file = dir.path().join(format!("{name}.gguf"));
        draft.write(&file, &WriteOptions::new(types("Q8_0")), &|_, _| true).expect("written");
        let written = Checkpoint::open(&file).expect("opens");
        let block = |name: &str| name.starts_with("v.blk.") && name.ends_with("weight");
        for tensor in written.tensors.values().filter(|t| block(&t.name) && t.shape.len() == 2) {
            let want = if tensor.cols().is_multiple_of(32) { DType::Q8_0 } else { DType::F16 };
            assert_eq!(tensor.dtype, want, "{name}: {}", tensor.name);
        }
        for sensitive in ["v.patch_embd.weight", "v.position_embd.weight"] {
            assert!(written.tensors.get(sensitive).is_none_or(|t| t.dtype == DType::F32), "{name}");
        }
        let source = VisionSource::of_mmproj(&written).expect("an mmproj");
        assert!(VisionFamily::of(&source).expect("a family").spec(&source).is_ok(), "{name}");
    }
}

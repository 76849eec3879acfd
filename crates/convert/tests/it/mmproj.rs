//! A folder's encoder as an mmproj file, read again: the same spec, the same bits.

use lamina_arch::{
    sound::SoundFamily,
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

/// Names, extents and types as llama.cpp's converter writes them, and its reader wants them.
#[test]
fn a_folders_ears_are_the_same_from_their_mmproj() {
    let Some(folder) = shared("golden-vision/qwen2-audio") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mmproj.gguf");
    let draft = Draft::mmproj(&folder).expect("a draft").expect("a model that hears");
    draft.write(&file, &WriteOptions::new("f16".parse().expect("a type")), &|_, _| true).expect("written");
    let written = Checkpoint::open(&file).expect("opens");
    let tensor = |name: &str| written.tensors.get(name).map(|t| (t.dtype, t.shape.clone()));
    assert_eq!(tensor("a.conv1d.1.weight"), Some((DType::F16, vec![48, 32, 3])));
    assert_eq!(tensor("a.conv1d.2.bias"), Some((DType::F32, vec![48, 1])), "added to all frames");
    assert_eq!(tensor("a.position_embd.weight"), Some((DType::F32, vec![100, 48])));
    for part in ["ln1", "ln2", "attn_q", "attn_k", "attn_v", "attn_out", "ffn_up", "ffn_down"] {
        assert!(tensor(&format!("a.blk.1.{part}.weight")).is_some(), "{part}");
    }
    assert!(tensor("a.post_ln.bias").is_some() && tensor("mm.a.fc.weight").is_some());

    let own =
        VisionSource::of_sound(&Checkpoint::open(&folder).expect("opens")).expect("settings").expect("ears");
    let read = VisionSource::of_sound_mmproj(&written).expect("settings").expect("ears");
    let family = SoundFamily::of(&own).expect("a family");
    assert_eq!(SoundFamily::of(&read).expect("a family").name, family.name);
    let spec = family.spec(&own).expect("a spec");
    assert_eq!(family.spec(&read).expect("a spec"), spec);
    assert!(!VisionSource::sees(&written).expect("says so") && VisionSource::of_mmproj(&written).is_err());
    let (ours, theirs) = (family.weights(&own, &spec), family.weights(&read, &spec));
    let blocks = [
        "v.conv1.weight",
        "v.conv1.bias",
        "v.blk.1.ffn_down.weight",
        "v.blk.0.attn_q.bias",
        "mm.a.fc.weight",
    ];
    for name in blocks {
        let [a, b] = [&ours, &theirs].map(|w| w.numbers(name).expect("reads").expect("is there"));
        assert!(a == b, "{name}");
    }
}

/// Files of other converters say nothing of the piece that is encoded at once: the learned places do.
#[test]
fn ears_of_other_converters_hear_pieces_as_long_as_their_places() {
    let Some(folder) = shared("golden-vision/qwen2-audio") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mmproj.gguf");
    let draft = Draft::mmproj(&folder).expect("a draft").expect("a model that hears");
    draft.write(&file, &WriteOptions::new(Types::Keep), &|_, _| true).expect("written");
    // The key is gone where its name is another one.
    let key = VisionSource::SOUND_CONFIG_KEY.as_bytes();
    let mut bytes = std::fs::read(&file).expect("readable");
    let at = bytes.windows(key.len()).position(|window| window == key).expect("a key");
    bytes[at] = b'X';
    std::fs::write(&file, bytes).expect("writable");
    let read = VisionSource::of_sound_mmproj(&Checkpoint::open(&file).expect("opens"));
    let read = read.expect("settings").expect("ears");
    let mel = SoundFamily::of(&read).expect("a family").spec(&read).expect("a spec").mel;
    assert_eq!((mel.piece, mel.mels, mel.rate), (32_000, 32, 16_000));
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

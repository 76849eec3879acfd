//! Encoders and projectors beside the reference's own code, from folders to rows of the language model.

mod clipped;
mod sound;

use lamina_arch::vision::VisionSource;
use lamina_cpu::Cpu;
use lamina_fixtures::shared;
use lamina_image::{ImageLimits, Picture, decode};
use lamina_load::vision::{CutPicture, Eyes};
use lamina_quant::to_f32;
use lamina_store::{Checkpoint, safetensors::Safetensors};
use serde_json::Value;
use std::fs;

/// Features are compared in float32, whose sums over a few dozen inputs keep five digits.
const TOLERANCE: f64 = 1e-4;

fn read(file: &str) -> Picture {
    // The reference's decoder of JPEG differs by a step or two: what it made of the file is read instead.
    let file = if file == "rotated.jpg" { "rotated.decoded.png" } else { file };
    let bytes = fs::read(shared(&format!("golden-vision/images/{file}")).unwrap()).unwrap();
    decode(&bytes, &ImageLimits::default()).unwrap().picture
}

/// `|a - b| / |b|`.
fn error(a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f(f64::from(a), f64::from(b))).sum()
    };
    (sum(&|a, b| (a - b) * (a - b)) / sum(&|_, b| b * b)).sqrt()
}

fn eyes(folder: &str, threads: usize) -> Option<Eyes> {
    let Some(path) = shared(&format!("golden-vision/{folder}")) else {
        eprintln!("skipped: golden-vision/{folder} is not there");
        return None;
    };
    let source = VisionSource::of_folder(&Checkpoint::open(path).unwrap()).unwrap().unwrap();
    Some(Eyes::open(&source, &Cpu::new(threads).unwrap()).unwrap())
}

/// Pictures of each case that has any and no options.
fn cases(folder: &str) -> Vec<(String, Vec<Picture>)> {
    let file = fs::read(shared(&format!("golden-vision/{folder}/cases.json")).unwrap()).unwrap();
    let all: Value = serde_json::from_slice(&file).unwrap();
    let plain = |case: &Value| case["options"].as_object().is_none_or(serde_json::Map::is_empty);
    let pictures =
        |case: &Value| case["images"].as_array().unwrap().iter().map(|f| read(f.as_str().unwrap())).collect();
    let cases = all["cases"].as_object().unwrap().iter().filter(|(_, case)| plain(case));
    cases
        .map(|(name, case)| (name.clone(), pictures(case)))
        .filter(|(_, p): &(_, Vec<_>)| !p.is_empty())
        .collect()
}

/// Families whose projector's rows the reference puts in another order behind it, or joins.
const REORDERED: [&str; 2] = ["llava-next", "qwen2-5-vl"];

/// Families whose reference projects tile by tile, of which the first is stored.
const FIRST_TILE: [&str; 1] = ["minicpmv4-6"];

/// Number of a special token in the folder's tokenizer.
fn token(folder: &str, text: &str) -> f32 {
    let file = fs::read(shared(&format!("golden-vision/{folder}/tokenizer.json")).unwrap()).unwrap();
    let all: Value = serde_json::from_slice(&file).unwrap();
    let found = all["added_tokens"].as_array().unwrap().iter().find(|t| t["content"] == text);
    found.unwrap()["id"].as_u64().unwrap() as f32
}

/// The rows of soft tokens among what enters the language model.
fn soft_rows(golden: &Safetensors, case: &str, soft: f32) -> Option<Vec<f32>> {
    let embeds = to_f32(golden.tensors.get(&format!("{case}/inputs_embeds"))?).unwrap();
    let ids = to_f32(&golden.tensors[&format!("{case}/input_ids")]).unwrap();
    let rows = embeds.chunks_exact(embeds.len() / ids.len()).zip(&ids);
    Some(rows.filter(|(_, id)| **id == soft).flat_map(|(row, _)| row.to_vec()).collect())
}

fn check(folder: &str) {
    check_within(folder, TOLERANCE);
}

#[test]
fn llama4_projects_as_the_reference_does_from_pixels_of_another_resize() {
    // The reference resizes by torchvision here, whose pixels are up to two steps of 255 away.
    check_within("llama4", 3e-2);
}

/// A tensor of a folder's golden file.
fn stored(folder: &str, name: &str) -> Vec<f32> {
    let golden = shared(&format!("golden-vision/{folder}/golden.safetensors")).unwrap();
    to_f32(&Safetensors::open(golden).unwrap().tensors[name]).unwrap()
}

/// Patches of tiles `[3, side, side]`, each channel by channel.
fn patches(tiles: &[f32], tile: usize, patch: usize) -> Vec<Vec<f32>> {
    let across = tile / patch;
    let one = |tile_numbers: &[f32]| -> Vec<f32> {
        let places = (0..across * across).map(|i| (i / across * patch, i % across * patch));
        let at = |(top, left): (usize, usize)| {
            let inside =
                (0..3).flat_map(move |c| (0..patch).flat_map(move |y| (0..patch).map(move |x| (c, y, x))));
            inside.map(move |(c, y, x)| tile_numbers[(c * tile + top + y) * tile + left + x])
        };
        places.flat_map(at).collect()
    };
    tiles.chunks_exact(3 * tile * tile).map(one).collect()
}

#[test]
fn llama4_projects_as_the_reference_does_from_its_pixels() {
    let Some(mut eyes) = eyes("llama4", 2) else { return };
    let golden = shared("golden-vision/llama4/golden.safetensors").unwrap();
    let golden = Safetensors::open(golden).unwrap();
    for (case, pictures) in cases("llama4") {
        let stored = |name: &str| to_f32(&golden.tensors[&format!("{case}/{name}")]).unwrap();
        let patch = eyes.spec().pixels.patches.side as usize;
        let mut tiles = patches(&stored("pixel_values"), 56, patch).into_iter();
        let cut = pictures.iter().map(|picture| {
            let layout = eyes.spec().layout(picture.size()).unwrap();
            let tiles = tiles.by_ref().take(layout.tiles.len()).collect();
            CutPicture { layout, tiles }
        });
        let cut = cut.collect();
        let rows: Vec<f32> =
            eyes.encode_cut(cut, &|| true).unwrap().into_iter().flat_map(|picture| picture.rows).collect();
        let error = error(&rows, &stored("projected"));
        assert!(error < TOLERANCE, "{case}: projected is off by {error:.1e}");
    }
}

fn check_within(folder: &str, tolerance: f64) {
    let Some(mut eyes) = eyes(folder, 2) else { return };
    let golden = shared(&format!("golden-vision/{folder}/golden.safetensors")).unwrap();
    let golden = Safetensors::open(golden).unwrap();
    let soft = token(folder, eyes.spec().prompt.soft);
    let mut compared = 0;
    for (case, pictures) in cases(folder) {
        let got = eyes.encode(&pictures.iter().collect::<Vec<_>>()).unwrap();
        let as_said = got.iter().all(|p| p.rows.len() == p.layout.rows() * p.width);
        assert!(as_said, "{folder}/{case}: rows are as many as the layout says");
        let rows: Vec<f32> = got.iter().flat_map(|p| p.rows.iter().copied()).collect();
        let mut close = |name: &str, got: &[f32], want: Vec<f32>| {
            assert_eq!(got.len(), want.len(), "{folder}/{case}: numbers of {name}");
            let error = error(got, &want);
            assert!(error < tolerance, "{folder}/{case}: {name} is off by {error:.1e}");
            compared += 1;
        };
        let stored = |name: &str| golden.tensors.get(&format!("{case}/{name}")).map(|t| to_f32(t).unwrap());
        if let Some(want) = stored("projected").filter(|_| !REORDERED.contains(&folder)) {
            let kept = if FIRST_TILE.contains(&folder) { want.len() } else { rows.len() };
            close("projected", &rows[..kept], want);
        }
        if let Some(want) = soft_rows(&golden, &case, soft) {
            close("inputs_embeds", &rows, want);
        }
        for (deep, name) in ["stage.deepstack0", "stage.deepstack1"].iter().enumerate() {
            stored(name).into_iter().for_each(|want| close(name, &got[0].deep[deep], want));
        }
    }
    assert!(compared > 0, "{folder}: nothing was compared");
}

#[test]
fn a_picture_has_the_same_bits_in_any_company() {
    for folder in ["llava-next", "qwen2-5-vl", "idefics3"] {
        let (Some(mut one), Some(mut other)) = (eyes(folder, 1), eyes(folder, 3)) else { return };
        let pictures = ["wide.png", "tall.png", "strip.png"].map(read);
        let together = other.encode(&pictures.iter().collect::<Vec<_>>()).unwrap();
        for (picture, beside) in pictures.iter().zip(&together).rev() {
            let alone = one.encode(&[picture]).unwrap().remove(0);
            let bits = |rows: &[f32]| rows.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert!(bits(&alone.rows) == bits(&beside.rows), "{folder}: {:?}", picture.size());
        }
    }
}

macro_rules! families {
    ($($name:ident $folder:literal)*) => { $(#[test] fn $name() { check($folder); })* };
}

families! {
    gemma3_projects_as_the_reference "gemma3"
    gemma4_projects_as_the_reference "gemma4"
    glm4v_projects_as_the_reference "glm4v"
    idefics3_projects_as_the_reference "idefics3"
    internvl_projects_as_the_reference "internvl"
    llava_clip_projects_as_the_reference "llava-clip"
    llava_next_projects_as_the_reference "llava-next"
    minicpmv4_6_projects_as_the_reference "minicpmv4-6"
    mistral3_projects_as_the_reference "mistral3"
    pixtral_projects_as_the_reference "pixtral"
    qwen2_5_vl_projects_as_the_reference "qwen2-5-vl"
    qwen2_vl_projects_as_the_reference "qwen2-vl"
    qwen3_5_projects_as_the_reference "qwen3-5"
    qwen3_vl_projects_as_the_reference "qwen3-vl"
}

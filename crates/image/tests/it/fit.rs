//! Tiles and rows of patches beside the reference's processors.

use crate::common::{Tensor, golden, read, tensors};
use lamina_fixtures::Numbers;
use lamina_image::{Filter, Fit, Normalization, PanAndScan, Patches, Picture, PixelOrder, PixelSize};
use std::collections::BTreeMap;

const CLIP: ([f32; 3], [f32; 3]) = ([0.48145466, 0.4578275, 0.40821073], [0.26862955, 0.2613026, 0.2757771]);

/// A family's rule as its fixture has it.
struct Rule {
    family: &'static str,
    fit: Fit,
    filter: Filter,
    layout: Layout,
}

enum Layout {
    /// `[tiles, 3, h, w]`.
    Tiles,
    Rows(Patches),
    /// Patches side by side: `[3, side, patches * side]`.
    Strips(u32),
}

fn rules() -> Vec<Rule> {
    let clip = Fit::Center { short: 56, crop: PixelSize::square(56) };
    let rows =
        |side: u32| Layout::Rows(Patches { side, frames: 2, merge: 2, order: PixelOrder::ChannelsFirst });
    let area = |cell: u32, min: u64, max: u64, frames: u32| Fit::Area { cell, min, max, frames };
    let canvases =
        [(112, 56), (56, 112), (112, 112), (56, 168), (168, 56)].map(|(w, h)| PixelSize::new(w, h));
    let budget = Patches { side: 4, frames: 1, merge: 1, order: PixelOrder::ChannelsLast };
    let list = [
        ("llava-clip", clip, Filter::Bicubic, Layout::Tiles),
        (
            "llava-next",
            Fit::Pinpoints { tile: 56, canvases: canvases.to_vec() },
            Filter::Bicubic,
            Layout::Tiles,
        ),
        ("gemma3", Fit::Exact { size: PixelSize::square(64), crops: None }, Filter::Bilinear, Layout::Tiles),
        ("gemma4", Fit::Budget { patch: 4, pool: 3, cells: 70 }, Filter::Bicubic, Layout::Rows(budget)),
        ("glm4v", area(28, 3136, 14112, 2), Filter::Bicubic, rows(14)),
        ("qwen2-vl", area(28, 1568, 6272, 1), Filter::Bicubic, rows(14)),
        ("qwen2-5-vl", area(28, 1568, 9408, 1), Filter::Bicubic, rows(14)),
        ("qwen3-vl", area(32, 2048, 10240, 1), Filter::Bicubic, rows(16)),
        ("qwen3-5", area(32, 2048, 10240, 1), Filter::Bicubic, rows(16)),
        ("idefics3", Fit::Split { longest: 112, tile: 56, tiles: true }, Filter::Lanczos, Layout::Tiles),
        ("pixtral", Fit::LongSide { longest: 80, cell: 16 }, Filter::Bicubic, Layout::Tiles),
        ("mistral3", Fit::LongSide { longest: 112, cell: 28 }, Filter::Bicubic, Layout::Tiles),
        (
            "internvl",
            Fit::Aspect { tile: PixelSize::square(56), min: 1, max: 6, thumbnail: true },
            Filter::Bicubic,
            Layout::Tiles,
        ),
        ("minicpmv4-6", Fit::Slices { side: 56, most: 4, cell: 56 }, Filter::Bicubic, Layout::Strips(14)),
    ];
    list.into_iter().map(|(family, fit, filter, layout)| Rule { family, fit, filter, layout }).collect()
}

impl Rule {
    fn tiles(&self, file: &str, split: bool) -> Vec<Picture> {
        let fit = match (&self.fit, split) {
            (&Fit::Split { longest, tile, .. }, false) => Fit::Split { longest, tile, tiles: false },
            (fit, _) => fit.clone(),
        };
        let picture = read(file);
        let cut = fit.cut(picture.size()).expect("a cut");
        let tiles = cut.apply(&picture, self.filter);
        let sizes: Vec<PixelSize> = tiles.iter().map(Picture::size).collect();
        assert_eq!(cut.sizes(picture.size()), sizes, "sizes are known beforehand");
        tiles
    }

    /// The numbers of tiles in the reference's layout.
    fn numbers(&self, tiles: &[Picture], normalize: &Normalization) -> Vec<f32> {
        let rows = |tile: &Picture, side: u32| {
            let patches = Patches { side, frames: 1, merge: 1, order: PixelOrder::ChannelsFirst };
            patches.rows(tile, normalize)
        };
        match &self.layout {
            Layout::Rows(patches) => tiles.iter().flat_map(|tile| patches.rows(tile, normalize)).collect(),
            // One patch as large as the tile; sides that differ are patches of one pixel, put channel by channel.
            Layout::Tiles => tiles
                .iter()
                .flat_map(|tile| {
                    let pixels = rows(tile, 1);
                    (0..3).flat_map(move |c| pixels.clone().into_iter().skip(c).step_by(3))
                })
                .collect(),
            Layout::Strips(side) => {
                let side = *side as usize;
                let all: Vec<f32> = tiles.iter().flat_map(|tile| rows(tile, side as u32)).collect();
                let patches: Vec<&[f32]> = all.chunks_exact(3 * side * side).collect();
                let line = |c: usize, y: usize| {
                    patches.iter().flat_map(move |patch| &patch[(c * side + y) * side..][..side]).copied()
                };
                (0..3).flat_map(|c| (0..side).flat_map(move |y| line(c, y).collect::<Vec<_>>())).collect()
            }
        }
    }
}

/// The reference pads what has fewer tiles or patches than its neighbour with zeros.
fn assert_equal(name: &str, got: &[Vec<f32>], want: &Tensor, within: f32) {
    let pictures = if got.len() > 1 && want.shape[0] == got.len() { got.len() } else { 1 };
    let share = want.numbers.len() / pictures;
    let joined: Vec<Vec<f32>> = if pictures == 1 { vec![got.concat()] } else { got.to_vec() };
    for (i, got) in joined.iter().enumerate() {
        let want = &want.numbers[i * share..][..share];
        assert!(got.len() <= want.len(), "{name}: {} numbers instead of {}", got.len(), want.len());
        let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= within, "{name}: {worst} off");
        assert!(want[got.len()..].iter().all(|&n| n == 0.0), "{name}: too few tiles or patches");
    }
}

fn cases(family: &str) -> BTreeMap<String, (Vec<String>, bool)> {
    let file = golden(&format!("{family}/cases.json")).expect("there");
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(file).expect("there")).expect("there");
    let images = |case: &serde_json::Value| {
        let names = case["images"]
            .as_array()
            .expect("there")
            .iter()
            .map(|name| name.as_str().expect("there").to_owned());
        (names.collect(), case["options"]["do_image_splitting"] != false)
    };
    all["cases"].as_object().expect("there").iter().map(|(name, case)| (name.clone(), images(case))).collect()
}

#[test]
fn pixels_are_those_of_the_reference() {
    if golden("images").is_none() {
        return;
    }
    let samples = Normalization::new(1.0, ([0.0; 3], [1.0; 3]));
    let mut compared = 0;
    for rule in rules() {
        let tensors = tensors(&format!("{}/golden.safetensors", rule.family));
        for (case, (files, split)) in cases(rule.family) {
            let name = format!("{}/{case}", rule.family);
            let Some(want) = tensors.get(&format!("{case}/pixels")) else { continue };
            let tiles = files.iter().map(|file| rule.tiles(file, split));
            let got: Vec<Vec<f32>> = match rule.layout {
                Layout::Strips(_) => vec![rule.numbers(&tiles.flatten().collect::<Vec<_>>(), &samples)],
                _ => tiles.map(|tiles| rule.numbers(&tiles, &samples)).collect(),
            };
            assert_equal(&name, &got, want, 0.0);
            compared += 1;
        }
    }
    assert!(compared >= 35, "{compared} cases");
}

#[test]
fn numbers_are_those_of_the_reference() {
    if golden("images").is_none() {
        return;
    }
    let rules = rules();
    let rule = rules.iter().find(|rule| rule.family == "llava-next").expect("there");
    let tensors = tensors("llava-next/golden.safetensors");
    let normalize = Normalization::new(1.0 / 255.0, CLIP);
    let tiles = ["tall.png", "alpha.png"].map(|file| rule.tiles(file, true));
    let got: Vec<Vec<f32>> = tiles.iter().map(|tiles| rule.numbers(tiles, &normalize)).collect();
    assert_equal("llava-next/two", &got, &tensors["two/pixel_values"], 1e-6);
}

#[test]
fn canvases_are_those_of_the_reference_within_two_steps_of_its_other_resize() {
    if golden("images").is_none() {
        return;
    }
    let fit = Fit::Canvas { tile: 56, most: 4, enlarge: false };
    let rule = Rule { family: "llama4", fit, filter: Filter::Bilinear, layout: Layout::Tiles };
    let tensors = tensors("llama4/golden.safetensors");
    let normalize = Normalization::in_bfloat16(1.0 / 255.0, ([0.5; 3], [0.5; 3]));
    for (case, (files, _)) in cases("llama4") {
        let Some(want) = tensors.get(&format!("{case}/pixel_values")) else { continue };
        let tiles: Vec<Picture> = files.iter().flat_map(|file| rule.tiles(file, true)).collect();
        let got = rule.numbers(&tiles, &normalize);
        assert_eq!(got.len(), want.numbers.len(), "{case}");
        // Two steps of 2 / 255, and half a step of bfloat16 beside 1.
        assert_equal(&case, &[got], want, 2.0 * 2.0 / 255.0 + 0.004);
    }
}

/// All rules with the numbers of released models.
fn released() -> Vec<Fit> {
    let canvases =
        [(672, 336), (336, 672), (672, 672), (336, 1008), (1008, 336)].map(|(w, h)| PixelSize::new(w, h));
    let crops = Some(PanAndScan { min_side: 256, most: 4, ratio: 1.2 });
    vec![
        Fit::Exact { size: PixelSize::square(896), crops },
        Fit::Center { short: 336, crop: PixelSize::square(336) },
        Fit::Square { side: 336, colour: [122, 116, 104] },
        Fit::Area { cell: 28, min: 56 * 56, max: 28 * 28 * 1280, frames: 1 },
        Fit::Area { cell: 28, min: 112 * 112, max: 28 * 28 * 15_000, frames: 2 },
        Fit::LongSide { longest: 1540, cell: 28 },
        Fit::Budget { patch: 16, pool: 3, cells: 280 },
        Fit::Pinpoints { tile: 336, canvases: canvases.to_vec() },
        Fit::Split { longest: 1456, tile: 364, tiles: true },
        Fit::Aspect { tile: PixelSize::square(448), min: 1, max: 12, thumbnail: true },
        Fit::Canvas { tile: 336, most: 16, enlarge: false },
        Fit::Slices { side: 448, most: 9, cell: 56 },
    ]
}

#[test]
fn tiles_of_any_size_are_inside_and_within_their_bounds() {
    let mut random = Numbers::of("fit");
    for _ in 0..20_000 {
        let mut side = || (1 << random.below(14)) + random.below(6_000) as u32;
        let of = PixelSize::new(side(), side());
        for fit in released() {
            let Ok(cut) = fit.cut(of) else { continue };
            let sizes = cut.sizes(of);
            assert!((1..=17).contains(&sizes.len()), "{fit:?} of {of}: {} tiles", sizes.len());
            assert!(sizes.iter().all(|size| size.area() > 0), "{fit:?} of {of}: {sizes:?}");
            match fit {
                Fit::Area { cell, max, frames, .. } => {
                    let size = sizes[0];
                    assert!(size.width % cell == 0 && size.height % cell == 0, "{of} to {size}");
                    // Where a side would be less than a cell it is one, and the area above its bound.
                    let least = size.width.min(size.height) == cell;
                    assert!(least || size.area() * u64::from(frames) <= max, "{of} to {size}");
                }
                Fit::Budget { patch, pool, cells } => {
                    let cell = patch * pool;
                    assert!(sizes[0].area() <= u64::from(cells * cell * cell), "{of} to {}", sizes[0]);
                }
                Fit::LongSide { longest, .. } => {
                    assert!(sizes[0].width.max(sizes[0].height) <= longest, "{of} to {}", sizes[0]);
                }
                _ => {}
            }
        }
    }
}

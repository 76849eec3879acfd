//! Resampling, byte by byte.

use crate::common::{golden, tensors};
use lamina_fixtures::Numbers;
use lamina_image::{Filter, Picture, PixelSize, resize};

const FILTERS: [(&str, Filter); 3] =
    [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic), ("lanczos", Filter::Lanczos)];

#[test]
fn resized_pictures_are_those_of_pillow() {
    if golden("resize").is_none() {
        return;
    }
    let tensors = tensors("resize/resize.safetensors");
    let mut compared = 0;
    for (name, expected) in &tensors {
        let parts: Vec<_> = name.split('/').collect();
        let [source, filter, size] = parts[..] else { continue };
        let (width, height) = size.split_once('x').expect("there");
        let size = PixelSize::new(width.parse().expect("there"), height.parse().expect("there"));
        let filter = FILTERS.iter().find(|(name, _)| *name == filter).expect("there").1;
        let got = resize(&tensors[&format!("{source}/source")].picture(), size, filter);
        assert!(got == expected.picture(), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 36);
}

/// In float64 and without a clip between the passes, which costs a step where it overshoots.
fn slow(picture: &Picture, to: PixelSize) -> Vec<[f64; 3]> {
    let from = picture.size();
    let weights = |from: u32, to: u32, i: u32| {
        let scale = f64::from(from) / f64::from(to);
        let center = (f64::from(i) + 0.5) * scale - 0.5;
        let weight = |x: u32| (1.0 - (f64::from(x) - center).abs() / scale.max(1.0)).max(0.0);
        let all: Vec<f64> = (0..from).map(weight).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(move |w| w / sum).collect::<Vec<_>>()
    };
    let mut out = vec![];
    for y in 0..to.height {
        let rows = weights(from.height, to.height, y);
        for x in 0..to.width {
            let columns = weights(from.width, to.width, x);
            let at = |y: usize, x: usize, c: usize| {
                f64::from(picture.rgb()[(y * from.width as usize + x) * 3 + c])
            };
            let row = |y: usize, c: usize| (0..columns.len()).map(|x| at(y, x, c) * columns[x]).sum::<f64>();
            out.push([0, 1, 2].map(|c| (0..rows.len()).map(|y| row(y, c) * rows[y]).sum()));
        }
    }
    out
}

#[test]
fn integers_are_within_a_step_of_exact_numbers() {
    let mut random = Numbers::of("resize");
    for _ in 0..30 {
        let mut size = || PixelSize::new(1 + random.below(40) as u32, 1 + random.below(40) as u32);
        let (from, to) = (size(), size());
        let bytes = (0..from.area() * 3).map(|_| random.bits() as u8).collect();
        let picture = Picture::new(from, bytes).expect("there");
        let got = resize(&picture, to, Filter::Bilinear);
        for (pixel, exact) in got.rgb().chunks_exact(3).zip(slow(&picture, to)) {
            let near = pixel.iter().zip(exact).all(|(&got, exact)| (f64::from(got) - exact).abs() <= 1.01);
            assert!(near, "{from} to {to}: {pixel:?} instead of {exact:?}");
        }
    }
}

#[test]
fn a_picture_of_one_colour_stays_one() {
    for (name, filter) in FILTERS {
        for (from, to) in [((1, 1), (700, 3)), ((4000, 2), (7, 9)), ((37, 41), (37, 5))] {
            let (from, to) = (PixelSize::new(from.0, from.1), PixelSize::new(to.0, to.1));
            let picture = Picture::new(from, [7, 200, 255].repeat(from.area() as usize)).expect("there");
            let got = resize(&picture, to, filter);
            assert_eq!(got.size(), to);
            assert!(got.rgb().chunks_exact(3).all(|p| p == [7, 200, 255]), "{name} {from} to {to}");
        }
    }
}

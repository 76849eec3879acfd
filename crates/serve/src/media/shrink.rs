//! Pictures of which the fewest tokens will do.

use lamina::{
    VisionSpec,
    image::{Filter, Picture, PixelSize, resize},
};

/// Tokens that such a picture takes at most, where its size decides.
const FEW: usize = 256;
/// Shortest side of what is left of it.
const SMALLEST: u32 = 64;

/// The picture in the largest size that takes few tokens; where the model's rule takes more for every size, in one with the
/// fewest.
pub fn shrunk(vision: &VisionSpec, picture: Picture) -> Picture {
    let rows = |size: &PixelSize| vision.layout(*size).map_or(usize::MAX, |layout| layout.rows());
    let few = sizes(picture.size()).find(|size| rows(size) <= FEW);
    match few.or_else(|| sizes(picture.size()).min_by_key(rows)) {
        Some(size) if size != picture.size() => resize(&picture, size, Filter::Bicubic),
        _ => picture,
    }
}

/// A size, and smaller ones of the same aspect, from large to small.
fn sizes(of: PixelSize) -> impl Iterator<Item = PixelSize> {
    const STEPS: u64 = 64;
    let scaled = move |steps: u64| {
        let side = |side: u32| (u64::from(side) * steps).div_ceil(STEPS) as u32;
        PixelSize::new(side(of.width), side(of.height))
    };
    let smaller = (1..STEPS).rev().map(scaled);
    std::iter::once(of).chain(smaller.take_while(|size| size.width.min(size.height) >= SMALLEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::{LoadOptions, vision_of};

    #[test]
    fn large_pictures_shrink_and_small_ones_stay() {
        let Some(path) = lamina_fixtures::shared("golden-vision/qwen2-vl") else { return };
        let checkpoint = lamina::checkpoint(Some(&path)).expect("a model");
        let mut vision = vision_of(&checkpoint, &LoadOptions::default()).expect("a model").expect("eyes");
        if let lamina::image::Fit::Area { max, .. } = &mut vision.pixels.fit {
            *max = 1 << 30;
        }
        let low = |width: u32, height: u32| {
            let size = PixelSize::new(width, height);
            let picture = Picture::new(size, vec![7; 3 * size.area() as usize]).expect("a picture");
            shrunk(&vision, picture).size()
        };
        let rows = |size: PixelSize| vision.layout(size).expect("a layout").rows();
        assert_eq!(low(64, 64), PixelSize::square(64));
        let large = PixelSize::new(1600, 900);
        let shrunk = low(large.width, large.height);
        assert!(rows(large) > 2 * FEW && (FEW / 2..=FEW).contains(&rows(shrunk)), "{shrunk}");
        assert!((shrunk.aspect() - large.aspect()).abs() < 0.02, "{shrunk}");
    }
}

//! Resampling in the integers of Pillow up to version 12: columns first, then rows, clipped to 8 bits between the two.
//!
//! Pillow 13 takes rows first where the height shrinks more; models were trained with the other order, and llama.cpp and
//! torchvision keep it, so it stays.

use crate::{
    filter::{Filter, FilterWeights, WEIGHT_BITS},
    picture::{Picture, PixelSize},
};

/// Half of the last place: sums are rounded to the nearest.
const HALF: i32 = 1 << (WEIGHT_BITS - 1);

/// Samples of a row whose sums are kept at once: they fit the first-level cache with the rows they are made of.
const STRIP: usize = 512;

/// The picture in another size.
pub fn resize(picture: &Picture, to: PixelSize, filter: Filter) -> Picture {
    let from = picture.size();
    let wide = if from.width == to.width { picture.clone() } else { resize_rows(picture, to.width, filter) };
    if from.height == to.height { wide } else { resize_columns(&wide, to.height, filter) }
}

/// Makes each row longer or shorter.
fn resize_rows(picture: &Picture, width: u32, filter: Filter) -> Picture {
    let weights = FilterWeights::new(filter, picture.size().width as usize, width as usize);
    Picture::by_rows(PixelSize::new(width, picture.size().height), |y, row| {
        let source = picture.row(y);
        for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
            let taps = weights.taps(x);
            let samples = &source[taps.first * 3..][..taps.weights.len() * 3];
            let mut sums = [HALF; 3];
            for (sample, weight) in samples.chunks_exact(3).zip(taps.weights) {
                sums.iter_mut().zip(sample).for_each(|(sum, &s)| *sum += i32::from(s) * weight);
            }
            pixel.iter_mut().zip(sums).for_each(|(out, sum)| *out = clipped(sum));
        }
    })
}

/// Makes more or fewer rows.
fn resize_columns(picture: &Picture, height: u32, filter: Filter) -> Picture {
    let weights = FilterWeights::new(filter, picture.size().height as usize, height as usize);
    let mut sums = [HALF; STRIP];
    Picture::by_rows(PixelSize::new(picture.size().width, height), |y, row| {
        let taps = weights.taps(y as usize);
        for (i, strip) in row.chunks_mut(STRIP).enumerate() {
            let sums = &mut sums[..strip.len()];
            sums.fill(HALF);
            for (weight, source) in taps.weights.iter().zip(taps.first as u32..) {
                let source = &picture.row(source)[i * STRIP..][..sums.len()];
                sums.iter_mut().zip(source).for_each(|(sum, &s)| *sum += i32::from(s) * weight);
            }
            strip.iter_mut().zip(&*sums).for_each(|(out, &sum)| *out = clipped(sum));
        }
    })
}

fn clipped(sum: i32) -> u8 {
    (sum >> WEIGHT_BITS).clamp(0, 255) as u8
}

//! The pictures of a request within the limits of all together.

use crate::common::golden;
use lamina_image::{ImageError, ImageLimits, PixelSize, RawPixels, RequestLimits};
use std::fs;

fn raw(width: u32, height: u32, channels: usize) -> RawPixels {
    let size = PixelSize::new(width, height);
    let samples = (0..size.area() as usize * channels).map(|i| (i % 251) as u8).collect();
    RawPixels { size, channels, samples, orientation: 1 }
}

#[test]
fn pictures_are_counted_and_so_are_their_pixels() {
    let limits = RequestLimits { count: 2, pixels: 100, ..RequestLimits::default() };
    let mut reader = limits.reader();
    assert!(reader.pixels(raw(8, 8, 3)).is_ok());
    assert_eq!(reader.pixels(raw(8, 8, 3)), Err(ImageError::TooManyPixels { limit: 100 }));
    assert_eq!(reader.pixels(raw(1, 1, 3)), Err(ImageError::TooMany { limit: 2 }));
    assert!(reader.pixels(raw(1, 1, 3)).is_err_and(|e| e.is_too_large()), "a smaller request is taken");
    let side = RequestLimits { each: ImageLimits { side: 7, ..ImageLimits::default() }, ..limits };
    assert!(matches!(side.reader().pixels(raw(8, 1, 1)), Err(ImageError::TooLarge { .. })));
}

#[test]
fn a_file_beyond_what_is_left_is_refused_on_its_header() {
    let Some(file) = golden("images/wide.png") else { return };
    let bytes = fs::read(file).expect("readable");
    let mut reader = RequestLimits { pixels: 96 * 64 + 10, ..RequestLimits::default() }.reader();
    assert!(reader.file(&bytes).is_ok());
    assert_eq!(reader.file(&bytes).err(), Some(ImageError::TooManyPixels { limit: 96 * 64 + 10 }));
    let small = ImageLimits { pixels: 100, ..ImageLimits::default() };
    let told = RequestLimits { each: small, ..RequestLimits::default() }.reader().file(&bytes);
    assert!(matches!(told, Err(ImageError::TooLarge { pixels: 100, .. })), "its own limit is told");
}

#[test]
fn pixels_in_memory_are_pictures_of_their_form_alone() {
    let mut reader = RequestLimits::default().reader();
    let grey = reader.pixels(raw(3, 2, 1)).expect("a picture");
    assert_eq!(&grey.rgb()[..6], [0, 0, 0, 1, 1, 1]);
    let turned = reader.pixels(RawPixels { orientation: 6, ..raw(3, 2, 3) }).expect("a picture");
    assert_eq!(turned.size(), PixelSize::new(2, 3));
    for wrong in [
        RawPixels { channels: 4, ..raw(3, 2, 3) },
        RawPixels { channels: 0, samples: vec![], ..raw(3, 2, 3) },
        RawPixels { channels: 5, ..raw(3, 2, 5) },
        raw(0, 2, 3),
    ] {
        assert!(matches!(reader.pixels(wrong), Err(ImageError::Samples { .. })));
    }
}

//! Files beside Pillow, and files that are refused.

use crate::common::{golden, tensors};
use lamina_image::{ImageError, ImageLimits, decode};
use std::{fs, path::Path, time::Instant};

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("there").path());
    let name = |path: &Path| path.file_name().expect("there").to_string_lossy().into_owned();
    entries.map(|path| (name(&path), fs::read(&path).expect("readable"))).collect()
}

#[test]
fn files_are_read_as_pillow_reads_them() {
    let Some(folder) = golden("decode") else { return };
    let expected = tensors("decode/decoded.safetensors");
    for (name, bytes) in files(&folder).iter().filter(|(name, _)| !name.ends_with("safetensors")) {
        let got = decode(bytes, &ImageLimits::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let want = expected[name].picture();
        assert_eq!(got.picture.size(), want.size(), "{name}");
        assert_eq!(got.moves, name == "moving.gif", "{name}");
        let differences = got.picture.rgb().iter().zip(want.rgb()).map(|(a, b)| a.abs_diff(*b));
        let largest = differences.clone().max().expect("there");
        let mean = differences.map(f64::from).sum::<f64>() / want.rgb().len() as f64;
        // The inverse transform of JPEG is rounded by each decoder in its own way.
        let (most, most_mean) = if name.ends_with(".jpg") { (3, 0.1) } else { (0, 0.0) };
        println!("{name}: {largest} at most, {mean:.3} in the mean");
        assert!(largest <= most && mean <= most_mean, "{name}: {largest} at most, {mean:.3} in the mean");
    }
}

#[test]
fn hostile_files_end_in_one_clear_error_soon() {
    let Some(folder) = golden("hostile") else { return };
    for (name, bytes) in files(&folder) {
        let began = Instant::now();
        let got = decode(&bytes, &ImageLimits::default());
        assert!(began.elapsed().as_secs() < 2, "{name}");
        // Long and thin, or with more data than it needs: within the limits.
        let readable = ["inflates.png"].contains(&&*name);
        match got {
            Ok(_) => assert!(readable, "{name} was read"),
            Err(e) => assert!(e.to_string().len() < 300, "{name}: {e}"),
        }
    }
}

#[test]
fn refused_formats_are_named_with_what_to_do() {
    let said = |bytes: &[u8]| decode(bytes, &ImageLimits::default()).unwrap_err().to_string();
    assert!(said(b"\0\0\0\x18ftypheic").starts_with("HEIC and AVIF pictures are not read"));
    assert!(said(b"  <svg xmlns=\"\"/>").contains("draw it in the size"));
    assert!(said(b"%PDF-1.7").contains("save its pages as PNG"));
    assert!(said(b"").starts_with("this is no picture"));
    assert!(said("Bären".as_bytes()).starts_with("this is no picture"));
}

#[test]
fn limits_are_those_that_were_asked_for() {
    let Some(file) = golden("images/wide.png") else { return };
    let bytes = fs::read(file).expect("readable");
    let limits = ImageLimits { pixels: 96 * 64, side: 96, ..ImageLimits::default() };
    assert!(decode(&bytes, &limits).is_ok());
    for tight in [ImageLimits { pixels: 96 * 64 - 1, ..limits }, ImageLimits { side: 95, ..limits }] {
        assert!(matches!(decode(&bytes, &tight), Err(ImageError::TooLarge { .. })), "{tight:?}");
    }
    let tight = ImageLimits { bytes: bytes.len() - 1, ..limits };
    assert!(matches!(decode(&bytes, &tight), Err(ImageError::TooManyBytes { .. })));
}

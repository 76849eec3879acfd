//! What the reference has written.

use lamina_image::{ImageLimits, Picture, PixelSize, decode};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Tensors of bytes, 32-bit and 16-bit floats, as numbers.
pub struct Tensor {
    pub shape: Vec<usize>,
    pub numbers: Vec<f32>,
}

pub fn golden(part: &str) -> Option<PathBuf> {
    lamina_fixtures::shared(&format!("golden-vision/{part}"))
}

pub fn tensors(file: &str) -> BTreeMap<String, Tensor> {
    let bytes = fs::read(golden(file).expect("there")).expect("readable");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("there")) as usize;
    let list: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + header]).expect("a header");
    let tensor = |entry: &Value| {
        let number = |v: &Value| v.as_u64().expect("there") as usize;
        let [start, end] = [0, 1].map(|i| 8 + header + number(&entry["data_offsets"][i]));
        let shape = entry["shape"].as_array().expect("there").iter().map(number).collect();
        Tensor { shape, numbers: numbers(entry["dtype"].as_str().expect("there"), &bytes[start..end]) }
    };
    list.iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, e)| (name.clone(), tensor(e)))
        .collect()
}

fn numbers(dtype: &str, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        "U8" => bytes.iter().map(|&b| f32::from(b)).collect(),
        "F32" => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("there"))).collect(),
        "I32" => {
            bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().expect("there")) as f32).collect()
        }
        "F16" => bytes
            .chunks_exact(2)
            .map(|b| from_f16(u16::from_le_bytes(b.try_into().expect("there"))))
            .collect(),
        other => panic!("{other}"),
    }
}

/// Normal numbers and zero are all that there are.
fn from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    if exponent == 0 { 0.0 } else { f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13) }
}

impl Tensor {
    /// Bytes `[h][w][3]` as a picture.
    pub fn picture(&self) -> Picture {
        let size = PixelSize::new(self.shape[1] as u32, self.shape[0] as u32);
        Picture::new(size, self.numbers.iter().map(|&n| n as u8).collect()).expect("a picture")
    }
}

pub fn read(file: &str) -> Picture {
    // Decoders of JPEG differ by a step or two: pixels are compared behind that of Pillow.
    let file = if file == "rotated.jpg" { "rotated.decoded.png" } else { file };
    let bytes = fs::read(golden(&format!("images/{file}")).expect("there")).expect("readable");
    decode(&bytes, &ImageLimits::default()).expect("a picture").picture
}

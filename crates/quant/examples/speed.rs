//! Speed of one core: megabytes of float32 that are encoded and decoded per second, for the formats named as arguments
//! or for all. Asserts that what comes back is nearer to what went in than zeros are.
//!
//! `cargo run --release -p lamina-quant --example speed -- Q4_K Q8_0`

use std::{error::Error, hint::black_box, time::Instant};

use lamina_base::DType;
use lamina_quant::{FORMATS, decode, encode};

const ELEMENTS: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let wanted = names.iter().map(|n| n.parse()).collect::<Result<Vec<DType>, _>>()?;
    let x: Vec<f32> = (0..ELEMENTS as u32).map(noise).collect();
    for dtype in FORMATS.iter().map(|f| f.dtype()).filter(|t| wanted.is_empty() || wanted.contains(t)) {
        let mut blocks = vec![0; dtype.bytes_for(ELEMENTS).ok_or("whole blocks")?];
        let mut y = vec![0.0; ELEMENTS];
        let encoding = megabytes_per_second(|| encode(dtype, black_box(&x), None, &mut blocks))?;
        let decoding = megabytes_per_second(|| decode(dtype, black_box(&blocks), &mut y))?;
        let error = x.iter().zip(&y).map(|(x, y)| (x - y).powi(2)).sum::<f32>();
        assert!(error < x.iter().map(|x| x * x).sum(), "{dtype}: squared error {error}");
        println!("{dtype:8} encode {encoding:7.0} MB/s   decode {decoding:7.0} MB/s");
    }
    Ok(())
}

/// A triangular distribution from -1 to 1.
fn noise(i: u32) -> f32 {
    let r = i.wrapping_mul(0x9E37_79B9).rotate_left(15).wrapping_mul(0x85EB_CA6B);
    ((r >> 16) as f32 + (r & 0xFFFF) as f32) / 65536.0 - 1.0
}

/// The best of three runs, after one that builds tables and touches pages.
fn megabytes_per_second<E>(mut run: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    run()?;
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(4e-6 * ELEMENTS as f64 / best)
}

//! Test data that `make_vectors.py` makes in the same way: a stream of SplitMix64, blocks and rows cut from it, a hash.

use lamina_base::DType;

/// Steele, Lea and Flood's SplitMix64.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// FNV-1a over 32-bit words.
pub fn hash(words: impl Iterator<Item = u32>) -> u64 {
    words.fold(0xCBF2_9CE4_8422_2325, |h, w| (h ^ u64::from(w)).wrapping_mul(0x100_0000_01B3))
}

/// The bits of a value, with one pattern for all NaN: their payloads are not part of the format.
pub fn bits(v: f32) -> u32 {
    if v.is_nan() { 0x7FC0_0000 } else { v.to_bits() }
}

/// Blocks of one repeated byte, then `random` random blocks.
pub fn blocks(dtype: DType, random: usize) -> Vec<u8> {
    let size = dtype.block_bytes();
    let mut bytes: Vec<u8> =
        [0x00, 0xFF, 0x80, 0x7F, 0x55, 0xAA, 0x01, 0xFE].iter().flat_map(|b| vec![*b; size]).collect();
    let mut stream = SplitMix64(u64::from(dtype.gguf_id().expect("a GGUF type")));
    let words = (random * size).div_ceil(8);
    let random: Vec<u8> = (0..words).flat_map(|_| stream.next().to_le_bytes()).take(random * size).collect();
    bytes.extend(random);
    bytes
}

/// Rows of 256 whose kind goes round: a bell, heavy tails, sparse and tiny, a lone spike. All values are exact, so that
/// Python makes the same ones.
pub fn rows(seed: u64, rows: usize) -> Vec<f32> {
    let mut stream = SplitMix64(seed);
    (0..rows * 256).map(|i| value(i / 256 % 4, i % 256, stream.next())).collect()
}

fn value(kind: usize, column: usize, r: u64) -> f32 {
    let four = (0..4).map(|k| (r >> (16 * k) & 0xFFFF) as i32).sum::<i32>() - 131_070;
    let bell = four as f32 / 65536.0;
    match kind {
        0 => bell,
        1 => bell * 2f32.powi((r >> 60) as i32 - 12),
        2 if r & 1 == 1 => 0.0,
        2 => bell / 65536.0,
        _ if column == 77 => bell * 100.0,
        _ => 0.0,
    }
}

//! Samples as the numbers that an encoder takes.

/// The number of each sample of each channel. It depends on the sample alone, so there are 256 a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalization {
    table: [[f32; 256]; 3],
}

impl Normalization {
    /// `sample * rescale` (in float64, rounded to float32), less the mean, over the deviation (in float32): in this order, as
    /// the reference's processors compute it.
    pub fn new(rescale: f64, (mean, deviation): ([f32; 3], [f32; 3])) -> Normalization {
        let number = |sample: usize, c: usize| ((sample as f64 * rescale) as f32 - mean[c]) / deviation[c];
        Normalization::by(number)
    }

    /// The same in bfloat16, each step rounded: Llama 4 was trained so.
    pub fn in_bfloat16(rescale: f64, (mean, deviation): ([f32; 3], [f32; 3])) -> Normalization {
        let number = |sample: usize, c: usize| {
            let scaled = to_bfloat16((f64::from(to_bfloat16(sample as f32)) * rescale) as f32);
            to_bfloat16(to_bfloat16(scaled - to_bfloat16(mean[c])) / to_bfloat16(deviation[c]))
        };
        Normalization::by(number)
    }

    fn by(number: impl Fn(usize, usize) -> f32) -> Normalization {
        Normalization { table: std::array::from_fn(|c| std::array::from_fn(|sample| number(sample, c))) }
    }

    /// The number of a sample of channel `channel` (0: red, 1: green, 2: blue).
    pub fn number(&self, channel: usize, sample: u8) -> f32 {
        self.table[channel][usize::from(sample)]
    }
}

/// The nearest number of bfloat16, half to even.
fn to_bfloat16(number: f32) -> f32 {
    let bits = number.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    f32::from_bits(rounded & 0xffff_0000)
}

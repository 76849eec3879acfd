use bytemuck::{Pod, Zeroable};
use lamina_base::DType;

use crate::{
    BlockFormat, F16Le,
    bits::{bits, pack_bits},
};

/// One bit, one scale per 128: `x = d` or `-d`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ1_0 {
    /// Scale.
    pub d: F16Le,
    /// Signs: bit `i % 8` of byte `i / 8` belongs to element `i`; a set bit is positive.
    pub qs: [u8; 16],
}

impl BlockFormat for BlockQ1_0 {
    const DTYPE: DType = DType::Q1_0;
    type Values = [f32; 128];

    #[inline]
    fn decode(&self, out: &mut [f32; 128]) {
        let (d, signs) = (self.d.to_f32(), bits::<128>(&self.qs));
        out.iter_mut().zip(signs).for_each(|(o, s)| *o = if s == 1 { d } else { -d });
    }

    /// The least-squares scale is the mean magnitude, weighted by importance.
    fn encode(x: &[f32; 128], importance: Option<&[f32; 128]>) -> Self {
        let weight = |i: usize| importance.map_or(1.0, |w| f64::from(w[i]));
        let total: f64 = (0..128).map(weight).sum();
        let sum: f64 = x.iter().enumerate().map(|(i, v)| weight(i) * f64::from(v.abs())).sum();
        let d = if total > 0.0 { sum / total } else { 0.0 };
        BlockQ1_0 { d: F16Le::finite(d as f32), qs: pack_bits(&x.map(|v| u8::from(v >= 0.0))) }
    }
}

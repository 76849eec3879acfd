//! What TQ1_0 and TQ2_0 share: one scale and the values -1, 0, 1 for 256 elements.

use crate::{
    F16Le,
    search::{Integers, Levels, Normal, fit_scale, inverse, largest, round_half_away},
};

type Trits = Integers<-1, 1>;

/// Scale and codes 0 to 2. The largest magnitude becomes 1, which is exact for models trained to be ternary; with
/// importance, the scale with the smallest error.
pub(super) fn encode(x: &[f32; 256], importance: Option<&[f32; 256]>) -> (F16Le, [u8; 256]) {
    if importance.is_none() {
        let d = largest(x);
        let per_step = inverse(d);
        return (F16Le::finite(d), x.map(|v| (round_half_away(v * per_step) + 1.0) as u8));
    }
    let Some(block) = Normal::new(x, importance) else { return (F16Le::ZERO, [1; 256]) };
    let (d, step) = block.store(fit_scale::<256, Trits>(&block.x, &block.w).abs());
    let per_step = inverse(step);
    (d, block.x.map(|v| (Trits::nearest(v * per_step) + 1.0) as u8))
}

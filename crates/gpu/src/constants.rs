//! Numbers that are fixed with the plan: angles of rotary tables, slopes of position biases.

use crate::device::GpuDevice;
use lamina_plan::{
    Plan,
    backend::Result,
    op::{Attention, Op, RopeTable},
};

/// A rotary table in the constants: angles, those of long sequences, the axis of each pair.
#[derive(Clone, Copy)]
pub(crate) struct RopePlace {
    pub at: usize,
    pub dim: usize,
    /// Prompts longer than this, and positions from this one on, use the long angles.
    pub original: usize,
    pub magnitude: f32,
}

/// Constants of a plan on the device.
pub(crate) struct Constants<B> {
    pub buffer: B,
    pub ropes: Vec<RopePlace>,
    /// Heads and largest exponent, and where their slopes are.
    slopes: SlopePlaces,
}

impl<B> Constants<B> {
    /// Constants of `plan`.
    pub fn new<D: GpuDevice<Buffer = B>>(device: &D, plan: &Plan) -> Result<Self> {
        let (numbers, ropes, slopes) = numbers_of(plan);
        let buffer = device.alloc((numbers.len() * size_of::<f32>()).max(16), "constants")?;
        device.upload(&buffer, 0, bytemuck::cast_slice(&numbers))?;
        Ok(Constants { buffer, ropes, slopes })
    }

    /// Place of the slopes of `o`; none where it has no position bias.
    pub fn slopes(&self, o: &Attention) -> Option<usize> {
        let known =
            self.slopes.iter().find(|&&(heads, largest, _)| heads == o.heads && Some(largest) == o.alibi);
        known.map(|s| s.2)
    }
}

/// Slopes of position biases: heads and largest exponent, and where they are.
type SlopePlaces = Vec<(usize, f32, usize)>;

/// Numbers of the constants, and the places of tables and slopes in them.
fn numbers_of(plan: &Plan) -> (Vec<f32>, Vec<RopePlace>, SlopePlaces) {
    let (mut numbers, mut slopes) = (vec![], SlopePlaces::new());
    let ropes = plan.ropes.iter().map(|rope| push_rope(&mut numbers, rope)).collect();
    for o in plan.ops.iter().filter_map(attention) {
        let Some(largest) = o.alibi else { continue };
        if !slopes.iter().any(|&(heads, l, _)| (heads, l) == (o.heads, largest)) {
            slopes.push((o.heads, largest, numbers.len()));
            numbers.extend(slopes_of(o.heads, largest));
        }
    }
    (numbers, ropes, slopes)
}

/// Bytes of the constants of a plan.
pub(crate) fn constant_bytes(plan: &Plan) -> usize {
    (numbers_of(plan).0.len() * size_of::<f32>()).max(16)
}

fn attention(op: &Op) -> Option<&Attention> {
    match op {
        Op::Attention(o) => Some(o),
        Op::Attend(o) => Some(&o.attention),
        _ => None,
    }
}

fn push_rope(numbers: &mut Vec<f32>, rope: &RopeTable) -> RopePlace {
    let at = numbers.len();
    numbers.extend_from_slice(&rope.freqs);
    numbers.extend_from_slice(rope.long.as_ref().map_or(&rope.freqs, |long| &long.freqs));
    numbers.extend((0..rope.dim / 2).map(|pair| rope.axis(pair) as f32));
    let original = rope.long.as_ref().map_or(i32::MAX as usize, |long| long.original_context);
    RopePlace { at, dim: rope.dim, original, magnitude: rope.magnitude }
}

/// Slope of the linear position bias of each head (ALiBi, arXiv 2108.12409): powers of `2^(-largest / n)` for the greatest
/// power of two `n` up to `heads`, then every other power of the series for `2 n`.
fn slopes_of(heads: usize, largest: f32) -> Vec<f32> {
    let n = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let slope = |exponent: usize, of: usize| 2f32.powf(-largest * exponent as f32 / of as f32);
    (0..heads).map(|h| if h < n { slope(h + 1, n) } else { slope(2 * (h - n) + 1, 2 * n) }).collect()
}

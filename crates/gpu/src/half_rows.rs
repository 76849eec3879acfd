//! Rows as 16-bit numbers, which tensor cores multiply.

use crate::{device::GpuDevice, graphs::bucket, weight::GpuWeight};
use lamina_plan::{
    Limits, Plan, WeightId,
    backend::Result,
    op::{Experts, Op},
};

/// Places of rows as 16-bit numbers in their buffer: the numbers, sums of 32, and inverse factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfSpace {
    /// Rows that are there at once; each of them has some items.
    pub rows: usize,
    /// First byte of the sums.
    pub sums: usize,
    /// First byte of the inverse factors.
    pub undo: usize,
}

impl HalfSpace {
    /// For rows of `items` times `inputs` numbers in a buffer of `bytes` bytes.
    pub fn new(inputs: usize, items: usize, bytes: usize) -> HalfSpace {
        let (blocks, rows) = (inputs.div_ceil(32), bytes / (items * item_bytes(inputs)).max(1));
        let sums = rows * items * blocks * 64;
        HalfSpace { rows, sums, undo: sums + rows * items * sums_bytes(inputs) }
    }
}

/// Bytes of an item's sums of 32: as float32, and of each two of them the halves of both in float16 (`kernels/halves.h`).
fn sums_bytes(inputs: usize) -> usize {
    let blocks = inputs.div_ceil(32);
    (blocks + blocks.next_multiple_of(2)) * size_of::<f32>()
}

/// Bytes of an item of a row.
fn item_bytes(inputs: usize) -> usize {
    inputs.div_ceil(32) * 64 + sums_bytes(inputs) + size_of::<f32>()
}

/// Items of a row that the first products of experts have: a row itself, or as many as its weights scale.
pub(crate) fn input_items(o: &Experts) -> usize {
    if o.routing.weight_input { o.routing.top_k } else { 1 }
}

/// Items of a row that have inputs of their own, for each weight of a plan.
fn items_of(plan: &Plan) -> Vec<usize> {
    let mut items = vec![1; plan.weights.len()];
    let mut put = |weight: WeightId, n: usize| items[weight.0 as usize] = n;
    for op in &plan.ops {
        match op {
            Op::Experts(o) => {
                put(o.gate, input_items(o));
                put(o.up, input_items(o));
                put(o.down, o.routing.top_k);
            }
            Op::LatentAttend(o) => {
                put(o.w_k, o.heads);
                put(o.w_v, o.heads);
            }
            _ => {}
        }
    }
    items
}

/// Memory for rows as 16-bit numbers.
pub(crate) struct HalfRows<B> {
    pub buffer: B,
    pub bytes: usize,
}

impl<B> HalfRows<B> {
    /// What the products of a plan need, at most `chunk` bytes where rows may be done in turn; none where nothing is
    /// multiplied on tensor cores.
    pub fn new<D: GpuDevice<Buffer = B>>(
        device: &D,
        plan: &Plan,
        weights: &[GpuWeight<D>],
        limits: &Limits,
        chunk: usize,
    ) -> Result<Option<HalfRows<B>>> {
        let of_tensor = weights.iter().zip(items_of(plan)).filter(|(w, _)| w.tensor.is_some());
        let Some(row) = of_tensor.map(|(w, items)| items * item_bytes(w.cols)).max() else {
            return Ok(None);
        };
        let bytes = (bucket(limits.rows) * row).min(chunk).max(row);
        Ok(Some(HalfRows { buffer: device.alloc(bytes, "activations in 16 bits")?, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_buffer_lie_behind_one_another() {
        for (inputs, items, bytes) in [(33, 1, 4096), (512, 8, 9500), (1, 3, 400)] {
            let space = HalfSpace::new(inputs, items, bytes);
            let end = space.undo + space.rows * items * size_of::<f32>();
            assert!(space.rows > 0 && space.sums.is_multiple_of(64) && end <= bytes, "{space:?}");
        }
    }
}

//! Rotary position embedding.

use super::ReferenceMachine;
use lamina_plan::{
    batch::Batch,
    op::{RopeTable, Rotate},
};

/// The angles per position that hold at `position` (of the first axis) of a sequence whose prompt has `prompt_len` tokens.
///
/// Sequences beyond the original context use the long table from their first token on, so a sequence that was begun
/// short changes over at the border only.
pub fn freqs(rope: &RopeTable, position: u32, prompt_len: u32) -> &[f32] {
    match &rope.long {
        Some(long) if prompt_len.max(position + 1) as usize > long.original_context => &long.freqs,
        _ => &rope.freqs,
    }
}

/// Turns pairs `(i, i + dim/2)` of `head`, each by the position on its axis.
pub fn turn(head: &mut [f32], freqs: &[f32], position: [u32; 3], rope: &RopeTable) {
    let half = freqs.len();
    for (i, freq) in freqs.iter().enumerate() {
        // The angle is a float32 product as in the models' own code; far positions would differ otherwise.
        let (sin, cos) = (position[rope.axis(i)] as f32 * freq).sin_cos();
        let (sin, cos) = (sin * rope.magnitude, cos * rope.magnitude);
        let (a, b) = (head[i], head[i + half]);
        (head[i], head[i + half]) = (a * cos - b * sin, b * cos + a * sin);
    }
}

impl ReferenceMachine {
    pub(super) fn rotate_row(&self, b: &Batch, row: usize, x: &[f32], o: &Rotate) -> Vec<f32> {
        let rope = &self.plan.ropes[o.rope];
        let freqs = freqs(rope, b.positions[row][0], b.seq(row).prompt_len);
        let mut out = x.to_vec();
        for head in out.chunks_exact_mut(x.len() / o.heads) {
            turn(&mut head[o.start..o.start + rope.dim], freqs, b.positions[row], rope);
        }
        out
    }
}

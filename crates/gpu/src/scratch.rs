//! Memory for what operators of several launches hand from one to the next.
//!
//! Rows whose intermediate numbers do not fit at once are done in chunks: their bits do not depend on it.

use crate::{graphs::bucket, tensor::FEW_ROWS};
use lamina_plan::{
    KvLayout, Limits, PAGE_LEN, Plan,
    op::{Attention, Experts, LatentAttend, Mask, Op},
};

/// Most bytes of intermediate rows, on a device with so many bytes.
pub(crate) fn chunk_bytes(total: u64) -> usize {
    (total / 256).min(64 << 20) as usize
}

/// Cells of a unit of attention.
pub(crate) const UNIT: usize = 64;

/// Rows of a step up to which units of attention run side by side.
pub(crate) const SIDE_ROWS: usize = 8;

/// Units of attention side by side: their values, largest scores and sums, then what passes hand on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitSpace {
    /// Units of a pass.
    pub units: usize,
    /// Passes that see all of the longest sequence.
    pub passes: usize,
    /// First byte of what passes hand on.
    pub sums: usize,
    pub bytes: usize,
}

impl UnitSpace {
    /// For `heads` query heads with values of `width` numbers, which see up to `cells` cells.
    pub fn new(heads: usize, width: usize, cells: usize, chunk: usize) -> UnitSpace {
        let unit = SIDE_ROWS * heads * (width + 2) * size_of::<f32>();
        // Both ends may lie inside a unit.
        let all = cells.div_ceil(UNIT) + 1;
        let units = all.min((chunk / unit).max(1));
        let sums = units * unit;
        let passes = all.div_ceil(units);
        UnitSpace { units, passes, sums, bytes: sums + SIDE_ROWS * heads * 4 * size_of::<f32>() }
    }

    /// Cells that all passes see.
    fn cells(&self) -> usize {
        (self.units * self.passes - 1) * UNIT
    }
}

/// Cells that a row of a layer sees at most where they are in order.
pub(crate) fn most_cells(layout: &KvLayout, limits: &Limits, kv: usize, mask: Mask) -> usize {
    let held = layout.layers[kv].group().map_or(0, |group| limits.pages[group] * PAGE_LEN);
    match mask {
        Mask::Causal | Mask::Strict | Mask::Full => held,
        Mask::Window(n) | Mask::Chunk(n) => n.min(held),
    }
}

/// Intermediate numbers of latent attention: queries taken to the latents, then mixed latents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatentSpace {
    /// Rows of a chunk.
    pub rows: usize,
    /// First byte of the mixed latents.
    pub mixed: usize,
    pub bytes: usize,
}

impl LatentSpace {
    pub fn new(o: &LatentAttend, rank: usize, rows: usize, chunk: usize) -> LatentSpace {
        let row = o.heads * rank * size_of::<f32>();
        let rows = rows.min(chunk / (2 * row)).max(1);
        LatentSpace { rows, mixed: rows * row, bytes: 2 * rows * row }
    }
}

/// Intermediate numbers of experts, as first bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpertSpace {
    /// Rows of a chunk.
    pub rows: usize,
    pub scores: usize,
    pub marks: usize,
    pub groups: usize,
    pub chosen: usize,
    pub weights: usize,
    /// Tiles of a chunk's pairs (`kernels/groups.h`).
    pub lists: usize,
    pub gate: usize,
    pub up: usize,
    pub down: usize,
    pub bytes: usize,
}

impl ExpertSpace {
    /// For steps of up to `rows` rows of `hidden` numbers.
    pub fn new(o: &Experts, hidden: usize, rows: usize, chunk: usize) -> ExpertSpace {
        let (routing, word) = (&o.routing, size_of::<f32>());
        let mut end = 0;
        let mut room = |numbers: usize| {
            end += (numbers * word).next_multiple_of(16);
            end - (numbers * word).next_multiple_of(16)
        };
        let (scores, marks) = (room(rows * routing.experts), room(rows * routing.experts));
        let groups = room(rows * routing.groups.map_or(1, |g| g.count));
        let (chosen, weights) = (room(rows * routing.top_k), room(rows * routing.top_k));
        // Ups are read no more when the last product writes its results: both have one place.
        let wider = o.inner.max(hidden);
        let row = routing.top_k * (o.inner + wider) * word;
        let chunk = bucket(rows).min(chunk / row).max(1);
        let lists = room(list_words(chunk * routing.top_k, routing.experts, FEW_ROWS));
        let (gate, up) = (room(chunk * routing.top_k * o.inner), room(chunk * routing.top_k * wider));
        let down = up;
        let rows = chunk;
        ExpertSpace { rows, scores, marks, groups, chosen, weights, lists, gate, up, down, bytes: end }
    }
}

/// Most tiles of at most `height` pairs, each with pairs of one of `experts` experts.
pub(crate) fn most_tiles(pairs: usize, experts: usize, height: usize) -> usize {
    let any = pairs.min(experts);
    any + (pairs - any) / height
}

/// First word of the pairs in a list of tiles: behind their number, and three words of each.
pub(crate) fn pairs_at(pairs: usize, experts: usize, height: usize) -> usize {
    1 + 3 * most_tiles(pairs, experts, height)
}

/// Words of a list of tiles and their pairs; lower tiles take more.
fn list_words(pairs: usize, experts: usize, height: usize) -> usize {
    pairs_at(pairs, experts, height) + pairs
}

/// Bytes that the operators of a plan need, and the cells that attention side by side reaches in every layer.
pub(crate) fn scratch_of(plan: &Plan, limits: &Limits, chunk: usize) -> (usize, usize) {
    let paged = |o: &Attention| {
        let cells = most_cells(&plan.kv, limits, o.kv, o.mask);
        let space = UnitSpace::new(o.heads, plan.width(o.out) / o.heads, cells, chunk);
        (space.bytes, space.cells())
    };
    let one = |op: &Op| match op {
        Op::Attention(o) => paged(o),
        Op::Attend(o) => paged(&o.attention),
        Op::LatentAttend(o) => {
            let rank = plan.width(o.latent);
            let space =
                UnitSpace::new(o.heads, rank, most_cells(&plan.kv, limits, o.kv, Mask::Causal), chunk);
            (LatentSpace::new(o, rank, limits.rows, chunk).bytes + space.bytes, space.cells())
        }
        Op::Experts(o) => (ExpertSpace::new(o, plan.width(o.x), limits.rows, chunk).bytes, usize::MAX),
        _ => (0, usize::MAX),
    };
    let spaces = plan.ops.iter().map(one);
    spaces.fold((0, usize::MAX), |all, one| (all.0.max(one.0), all.1.min(one.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs spread over experts as badly as they can be.
    #[test]
    fn no_spread_of_pairs_has_more_tiles() {
        for (pairs, experts, height) in
            [(1, 8, 8), (8, 4, 8), (37, 4, 8), (200, 3, 64), (9, 128, 8), (17, 2, 8)]
        {
            let tiles = |counts: &[usize]| counts.iter().map(|n| n.div_ceil(height)).sum::<usize>();
            // One pair to each of the others, and the rest to the first `full`.
            let spread = |others: usize| {
                let mut counts = vec![1; others];
                counts.push(pairs - others);
                tiles(&counts)
            };
            let worst = (0..pairs.min(experts)).map(spread).max();
            assert_eq!(worst, Some(most_tiles(pairs, experts, height)), "{pairs} {experts} {height}");
        }
    }
}

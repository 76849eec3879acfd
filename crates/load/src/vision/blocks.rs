//! The blocks of an encoder, in two runs where neighbours are merged between them.

use super::{
    slices::Slices,
    stage::{PlanStage, Together},
};
use crate::error::Result;
use lamina_arch::vision::{ProjectorStep, VisionEncoder, VisionWeights};
use lamina_plan::{Backend, Plan, emit_blocks, emit_merger, emit_projection};
use std::ops::Range;

/// All blocks.
pub(super) struct Blocks {
    first: BlockRun,
    merge: Option<Merge>,
}

/// Blocks that follow one another.
struct BlockRun {
    stage: PlanStage,
    layers: Range<usize>,
}

/// Squares of neighbours see one another, become one row each, and pass the other blocks.
struct Merge {
    /// Rows of a square, which stand behind one another.
    square: usize,
    attend: PlanStage,
    mix: PlanStage,
    rest: BlockRun,
}

/// Rows of some tiles on their way.
pub(super) struct TileRun {
    pub numbers: Vec<f32>,
    /// `[patch, row, column]` of each row.
    pub positions: Vec<[u32; 3]>,
    /// Rows of each tile.
    pub whole: Vec<Together>,
    /// Rows of each window.
    pub windows: Vec<Together>,
}

/// What blocks made of the rows of tiles.
pub(super) struct BlockRows {
    pub last: Vec<f32>,
    /// The residual behind blocks whose rows are wanted.
    pub deep: Vec<Vec<f32>>,
    /// Rows of each tile.
    pub whole: Vec<Together>,
}

/// What is run of all blocks.
pub(super) struct BlockPlans {
    pub first: Plan,
    pub merge: Option<MergePlans>,
}

/// What is run of a merge, and behind it.
pub(super) struct MergePlans {
    /// Rows of a square.
    pub square: usize,
    /// Blocks before it.
    pub after: usize,
    pub attend: Plan,
    pub mix: Plan,
    pub rest: Plan,
}

impl BlockPlans {
    pub fn of(encoder: &VisionEncoder, has: &dyn Fn(&str) -> bool) -> BlockPlans {
        let all = encoder.layers.len();
        let Some(merger) = &encoder.merger else {
            return BlockPlans { first: emit_blocks(encoder, 0..all, has), merge: None };
        };
        let square = merger.side * merger.side;
        let mix = [
            ProjectorStep::Norm("v.vit_merger.ds_ln", merger.norm),
            ProjectorStep::Linear("v.vit_merger.ds_ffn_up", merger.inner),
            ProjectorStep::Act(merger.act),
            ProjectorStep::Linear("v.vit_merger.ds_ffn_down", encoder.hidden),
        ];
        let merge = MergePlans {
            square,
            after: merger.after,
            attend: emit_merger(encoder, merger, has),
            mix: emit_projection(encoder, &mix, (square * encoder.hidden, 0), has),
            rest: emit_blocks(encoder, merger.after..all, has),
        };
        BlockPlans { first: emit_blocks(encoder, 0..merger.after, has), merge: Some(merge) }
    }
}

impl Blocks {
    /// The blocks of an encoder with their weights on handles of `backend`.
    pub fn new(
        encoder: &VisionEncoder,
        weights: &VisionWeights<'_>,
        backend: &dyn Backend,
    ) -> Result<Blocks> {
        let all = encoder.layers.len();
        let BlockPlans { first, merge } = BlockPlans::of(encoder, &|name| weights.has(name));
        let stage = |plan| PlanStage::new(backend, plan, weights);
        let run = |plan, layers| -> Result<BlockRun> { Ok(BlockRun { stage: stage(plan)?, layers }) };
        let Some(MergePlans { square, after, attend, mix, rest }) = merge else {
            return Ok(Blocks { first: run(first, 0..all)?, merge: None });
        };
        let merge = Merge { square, attend: stage(attend)?, mix: stage(mix)?, rest: run(rest, after..all)? };
        Ok(Blocks { first: run(first, 0..after)?, merge: Some(merge) })
    }

    /// Takes rows through all blocks.
    pub fn run(
        &mut self,
        encoder: &VisionEncoder,
        rows: TileRun,
        slices: &mut Slices<'_>,
    ) -> Result<BlockRows> {
        let (positions, whole) = (rows.positions.clone(), rows.whole.clone());
        let first = self.first.run(encoder, rows, slices)?;
        let Some(merge) = &mut self.merge else { return Ok(first) };
        merge.run(encoder, TileRun { numbers: first.last, positions, whole, windows: vec![] }, slices)
    }
}

impl BlockRun {
    /// The residual behind all of its blocks, and behind those whose rows are wanted.
    fn run(&mut self, encoder: &VisionEncoder, rows: TileRun, slices: &mut Slices<'_>) -> Result<BlockRows> {
        let TileRun { numbers, positions, whole, windows } = rows;
        let (first, end) = (self.layers.start, self.layers.end);
        let marks = &self.stage.plan.marks;
        let sees_all = |i: usize| encoder.windows.as_ref().is_none_or(|w| w.full.contains(&i));
        let mut segments: Vec<(Range<usize>, &[Together])> = vec![];
        let mut begins = 0;
        for i in self.layers.clone() {
            let last = i + 1 == end;
            if last || encoder.deep.contains(&i) || sees_all(i) != sees_all(i + 1) {
                let ends = if last { self.stage.plan.ops.len() } else { marks[i + 1 - first].ops };
                segments.push((begins..ends, if sees_all(i) { &whole } else { &windows }));
                begins = ends;
            }
        }
        let taps = encoder.deep.iter().filter(|i| self.layers.contains(i)).map(|&i| marks[i + 1 - first]);
        let taps: Vec<_> = taps.collect();
        let (final_one, normed) = (segments.len().saturating_sub(1), self.stage.plan.normed);
        let (mut last, mut deep) = (vec![], vec![]);
        let ends: Vec<usize> = segments.iter().map(|(ops, _)| ops.end).collect();
        self.stage.run(numbers, &positions, &segments, slices, |i, read| {
            for tap in taps.iter().filter(|tap| tap.ops == ends[i]) {
                deep.push(read(tap.slot)?);
            }
            if i == final_one {
                last = read(normed)?;
            }
            Ok(())
        })?;
        Ok(BlockRows { last, deep, whole })
    }
}

impl Merge {
    fn run(&mut self, encoder: &VisionEncoder, rows: TileRun, slices: &mut Slices<'_>) -> Result<BlockRows> {
        let (square, width, count) = (self.square, encoder.hidden, rows.positions.len());
        let squares: Vec<Together> =
            (0..count / square).map(|i| Together { rows: i * square..(i + 1) * square }).collect();
        let attended = self.attend.once(rows.numbers, &rows.positions, &squares, slices)?;
        let means = attended.chunks_exact(square * width).flat_map(|rows| mean(rows, width));
        let means: Vec<f32> = means.collect();
        // Rows that stand behind one another are one wider row.
        let mut numbers = self.mix.all(attended, count / square, slices)?;
        numbers.iter_mut().zip(means).for_each(|(n, mean)| *n += mean);
        let fewer = |t: Together| Together { rows: t.rows.start / square..t.rows.end / square };
        let merged = TileRun {
            numbers,
            positions: rows.positions.into_iter().step_by(square).collect(),
            whole: rows.whole.into_iter().map(fewer).collect(),
            windows: vec![],
        };
        self.rest.run(encoder, merged, slices)
    }
}

/// The mean of rows of `width` numbers, summed in their order.
fn mean(rows: &[f32], width: usize) -> impl Iterator<Item = f32> + '_ {
    let count = (rows.len() / width) as f32;
    (0..width).map(move |c| rows[c..].iter().step_by(width).sum::<f32>() / count)
}

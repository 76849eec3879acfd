//! Rows and their experts, grouped by expert: lists of tiles, which the device makes.

use super::tensor::{TilePairs, tile_height};
use crate::{
    args::GroupArgs,
    device::{Bound, GpuDevice},
    machine::GpuMachine,
    scratch::{most_tiles, pairs_at},
};
use lamina_plan::backend::Result;

/// Rows that have chosen some experts.
#[derive(Clone, Copy)]
pub(super) struct ChosenRows {
    pub first: usize,
    pub rows: usize,
    /// Experts of a row, and of all rows.
    pub top_k: usize,
    pub experts: usize,
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Groups the experts that `rows` have chosen into `lists`. How high tiles are is settled by the number of rows: bits do
    /// not depend on it. Experts of one row are different ones, and need no list.
    pub(super) fn group<'a>(
        &self,
        of: ChosenRows,
        chosen: Bound<'a, D::Buffer>,
        lists: usize,
    ) -> Result<TilePairs<'a, D::Buffer>> {
        let ChosenRows { first, rows, top_k, experts } = of;
        if rows == 1 {
            let at = chosen.at + first * top_k * size_of::<i32>();
            return Ok(TilePairs::Row(Bound { at, ..chosen }));
        }
        let pairs = rows * top_k;
        let height = tile_height(pairs / experts);
        let pairs_at = pairs_at(pairs, experts, height);
        let args = GroupArgs {
            first_row: first as i32,
            rows: rows as i32,
            items: top_k as i32,
            experts: experts as i32,
            height: height as i32,
            pairs_at: pairs_at as i32,
        };
        let lists = Bound { at: lists, ..chosen };
        let bound = [self.step(), chosen, Bound { writes: true, ..lists }];
        self.launch("group_pairs", [1; 3], &bound, &args)?;
        Ok(TilePairs::List { lists, tiles: most_tiles(pairs, experts, height), height, pairs_at })
    }
}

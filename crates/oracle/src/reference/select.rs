//! Selection of cells by the attention that is paid to them.

use super::{ReferenceMachine, memory::EqualParts, sparse::SeenBlocks};
use lamina_plan::{
    batch::{Batch, BatchSeq},
    op::Attention,
};

impl ReferenceMachine {
    /// Adds what the rows of each sequence that keeps sums pay to its cells, and moves the cells that stay of those that
    /// select any to the end of those that have sums.
    pub(super) fn select_cells(&mut self, b: &Batch, o: &Attention) {
        let (kv_heads, dim) = self.kv_heads_and_dim(o.kv);
        for seq in &b.seqs {
            let Some(sums) = seq.kept.sums(o.kv) else { continue };
            for head in 0..kv_heads {
                let mut sums = sums.of(o.kv, head);
                let paid = self.attention_to(b, seq, head, sums.len(), o);
                sums.iter_mut().zip(paid).for_each(|(sum, paid)| *sum += paid as f32);
                let Some((to, pool)) = seq.kept.selects(o.kv) else { continue };
                let kept = strongest(&sums, pool, to.len());
                let group = self.memory[o.kv].group.unwrap_or(0);
                let memory = &mut self.memory[o.kv];
                for part in [&mut memory.first, &mut memory.second] {
                    let numbers = |part: &EqualParts, cell| {
                        part.at(b.locate(seq, group, cell))[head * dim..(head + 1) * dim].to_vec()
                    };
                    let rows: Vec<_> = kept.iter().map(|&cell| numbers(part, cell)).collect();
                    for (cell, row) in to.clone().zip(rows) {
                        let place = b.locate(seq, group, cell);
                        let mut all = part.at(place).to_vec();
                        all[head * dim..(head + 1) * dim].copy_from_slice(&row);
                        part.put(place, &all);
                    }
                }
            }
        }
    }

    /// Weights of each of the first `cells` cells, summed over the rows of `seq` and the query heads of a key head.
    fn attention_to(&self, b: &Batch, seq: &BatchSeq, head: usize, cells: usize, o: &Attention) -> Vec<f64> {
        let (kv_heads, dim) = self.kv_heads_and_dim(o.kv);
        let group = o.heads / kv_heads;
        let mut sums = vec![0.0; cells];
        for row in seq.rows() {
            let queries = &self.get(b, o.q)[row * o.heads * dim..][..o.heads * dim];
            for h in head * group..(head + 1) * group {
                let query = (h, &queries[h * dim..][..dim]);
                let (seen, weights) =
                    self.head_weights(b, row, query, (head * dim, 0.0), &SeenBlocks::All, o);
                for (cell, weight) in seen.into_iter().zip(weights).filter(|(cell, _)| *cell < cells) {
                    sums[cell] += f64::from(weight);
                }
            }
        }
        sums
    }
}

/// The `count` cells whose neighbourhoods of `pool` cells have the largest sums, in order.
fn strongest(sums: &[f32], pool: usize, count: usize) -> Vec<usize> {
    let near =
        |cell: usize| sums[cell.saturating_sub(pool / 2)..].iter().take(pool / 2 + 1 + cell.min(pool / 2));
    let largest = |cell: usize| near(cell).copied().fold(0.0, f32::max);
    let mut cells: Vec<usize> = (0..sums.len()).collect();
    // Stable: of equal cells the lower one comes first.
    cells.sort_by(|&a, &b| largest(b).total_cmp(&largest(a)).then(sums[b].total_cmp(&sums[a])));
    cells.truncate(count);
    cells.sort_unstable();
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_cells_bring_their_neighbours() {
        let sums = [0.1, 0.0, 0.0, 0.9, 0.0, 0.5, 0.0, 0.0, 0.6];
        assert_eq!(strongest(&sums, 1, 3), [3, 5, 8]);
        assert_eq!(strongest(&sums, 3, 3), [2, 3, 4], "neighbours of the largest come before the next one");
        assert_eq!(strongest(&sums, 5, 4), [1, 2, 3, 5]);
        assert_eq!(strongest(&sums, 3, 9), (0..9).collect::<Vec<_>>());
    }
}

//! What rows of sparse attention leave out: blocks of keys, and values.

use super::{
    ReferenceMachine,
    math::{dot, softmax, top},
};
use lamina_plan::{SPARSE_BLOCK, batch::Batch, op::Attention};

/// SeenBlocks of cells that a row attends to.
pub(super) enum SeenBlocks {
    /// All that it sees.
    All,
    /// Those that are true.
    Some(Vec<bool>),
}

impl SeenBlocks {
    /// True where the block of `cell` is attended to.
    pub fn have(&self, cell: usize) -> bool {
        match self {
            SeenBlocks::All => true,
            SeenBlocks::Some(blocks) => blocks[cell / SPARSE_BLOCK],
        }
    }
}

impl ReferenceMachine {
    /// SeenBlocks that `row` attends to with the `queries` of one key head, whose keys begin at number `at` of a stored row.
    pub(super) fn blocks_of(
        &self,
        b: &Batch,
        row: usize,
        queries: &[f32],
        at: usize,
        o: &Attention,
    ) -> SeenBlocks {
        let Some(share) = o.sparse_blocks(b, row) else { return SeenBlocks::All };
        let own = b.index(row) / SPARSE_BLOCK;
        let mut blocks = vec![false; own + 1];
        [0, own.saturating_sub(1), own].into_iter().for_each(|always| blocks[always] = true);
        let others = own.saturating_sub(2);
        let (_, dim) = self.kv_heads_and_dim(o.kv);
        let means: Vec<_> = (1..=others).map(|block| self.mean_key(b, row, block, at..at + dim, o)).collect();
        let mut mass = vec![0.0; others];
        for q in queries.chunks_exact(dim) {
            let mut weights: Vec<f32> = means.iter().map(|mean| dot(q, mean) as f32 * o.scale).collect();
            softmax(&mut weights, None);
            mass.iter_mut().zip(weights).for_each(|(mass, weight)| *mass += weight);
        }
        top(&mass, share.ceil(others)).into_iter().for_each(|i| blocks[i + 1] = true);
        SeenBlocks::Some(blocks)
    }

    fn mean_key(
        &self,
        b: &Batch,
        row: usize,
        block: usize,
        numbers: std::ops::Range<usize>,
        o: &Attention,
    ) -> Vec<f32> {
        let memory = &self.memory[o.kv];
        let place = |cell| b.locate(b.seq(row), memory.group.unwrap_or(0), cell);
        let mut sums = vec![0f64; numbers.len()];
        for cell in block * SPARSE_BLOCK..(block + 1) * SPARSE_BLOCK {
            let key = &memory.first.at(place(cell))[numbers.clone()];
            sums.iter_mut().zip(key).for_each(|(sum, k)| *sum += f64::from(*k));
        }
        sums.into_iter().map(|sum| (sum / SPARSE_BLOCK as f64) as f32).collect()
    }
}

/// Indices into `cells`, which `row` sees, of those whose values it reads, in order: `weights` are those of each query head
/// of a key head.
pub(super) fn values_read(
    b: &Batch,
    row: usize,
    cells: &[usize],
    weights: &[Vec<f32>],
    o: &Attention,
) -> Vec<usize> {
    let all = 0..cells.len();
    let Some(share) = o.sparse_values(b, row) else { return all.collect() };
    let newest = b.cells[row] as usize;
    let (own, others): (Vec<usize>, Vec<usize>) = all.partition(|&i| cells[i] == newest);
    let sums: Vec<f32> = others.iter().map(|&i| weights.iter().map(|w| w[i]).sum()).collect();
    let strongest = top(&sums, share.floor(others.len())).into_iter().map(|i| others[i]);
    let mut read: Vec<usize> = strongest.chain(own).collect();
    read.sort_unstable();
    read
}

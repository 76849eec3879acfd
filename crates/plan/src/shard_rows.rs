//! Rows and columns of one rank among several.

use crate::{plan::WeightSpec, slot::Slot};
use std::ops::Range;

/// Fewest rows of a matrix that a border is between: whole blocks of what kernels compute at once.
const UNIT: usize = 8;

/// The same for large matrices, where it costs no balance.
const WIDE_UNIT: usize = 32;

/// A slot of which each rank has computed some columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatheredSlot {
    /// The slot.
    pub slot: Slot,
    /// Where a rank's own columns are: the same slot, or one that has nothing else.
    pub from: Slot,
    /// Columns by rank.
    pub columns: Vec<Range<usize>>,
}

/// Some rows of a weight that a rank has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardWeight {
    /// The weight of the whole plan.
    pub whole: WeightSpec,
    /// Rows of it.
    pub rows: Range<usize>,
}

/// Rows of each matrix of an operator by rank; none where all ranks have all of them.
pub(crate) type OpRows = Vec<Vec<Range<usize>>>;

/// `rows` in as many ranges of whole units; none where there are too few.
pub(crate) fn row_ranges(rows: usize, ranks: usize) -> Option<Vec<Range<usize>>> {
    let unit = if rows >= 4 * WIDE_UNIT * ranks { WIDE_UNIT } else { UNIT };
    let units = rows / unit;
    let border = |i: usize| if i == ranks { rows } else { i * units / ranks * unit };
    (units >= ranks).then(|| (0..ranks).map(|i| border(i)..border(i + 1)).collect())
}

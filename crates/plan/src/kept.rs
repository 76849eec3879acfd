//! Which cells the rows of a sequence see once the cache of its prompt was compressed.
//!
//! What stays of a layer's cells is moved to the end of those of the prompt, so that later cells, their positions and
//! the groups of windows and recurrent layers know nothing of it: a compressed layer is one whose first cells are gone.

use std::sync::Arc;

/// Cells that the rows of a sequence see, beside what masks hide. Other than all only where cells are in order, and for
/// attention without linear position biases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeptCells {
    /// All.
    #[default]
    All,
    /// In each layer of the cache, by its index, those from this one on; all in layers behind the end of the list.
    From(Arc<[u32]>),
    /// All, and behind the attention of a layer the cells before the step's rows are selected, from then on for
    /// [`KeptCells::From`].
    Select(CellSelection),
}

/// A selection of cells by the attention that the rows of a step pay to them: SnapKV (arXiv 2404.14469).
///
/// The softmax weights of each cell before the rows are summed over the rows and over the query heads that share its key
/// head. Each sum becomes the largest of its neighbourhood. The cells with the largest ones stay; of equal ones that with
/// the larger sum of its own, then the lower. Their keys and values are moved as they are stored, in their order, to the
/// cells just before the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellSelection {
    /// The first cell that is left in each layer of the cache, by its index; nothing is selected where that is 0, and in
    /// layers behind the end of the list. Pages from it on are the sequence's alone.
    pub first: Arc<[u32]>,
    /// Width of the neighbourhood in cells, an odd number.
    pub pool: u32,
}

impl KeptCells {
    /// First cell that rows of the step see in layer `kv` of the cache.
    pub fn first(&self, kv: usize) -> usize {
        match self {
            KeptCells::From(first) => first.get(kv).map_or(0, |&cell| cell as usize),
            KeptCells::All | KeptCells::Select(_) => 0,
        }
    }

    /// First cell that is left in layer `kv` behind the step, and the width of neighbourhoods, where cells are selected.
    pub fn selects(&self, kv: usize) -> Option<(usize, usize)> {
        let KeptCells::Select(CellSelection { first, pool }) = self else { return None };
        first.get(kv).filter(|&&cell| cell > 0).map(|&cell| (cell as usize, *pool as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_behind_the_end_are_whole() {
        let first: Arc<[u32]> = [7, 0].into();
        let from = KeptCells::From(first.clone());
        assert_eq!([0, 1, 2].map(|kv| from.first(kv)), [7, 0, 0]);
        let select = KeptCells::Select(CellSelection { first, pool: 5 });
        assert_eq!([0, 1, 2].map(|kv| select.selects(kv)), [Some((7, 5)), None, None]);
        assert_eq!((select.first(0), from.selects(0)), (0, None));
    }
}

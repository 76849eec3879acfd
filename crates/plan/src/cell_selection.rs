//! Which cells the rows of a sequence see once the cache of its prompt was compressed.
//!
//! What stays of a layer's cells is moved to the end of those of the prompt, so that later cells, their positions and
//! the groups of windows and recurrent layers know nothing of it: a compressed layer is one whose first cells are gone.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Cells that the rows of a sequence see, beside what masks hide. Other than all only where cells are in order, and for
/// attention without linear position biases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeptCells {
    /// All.
    #[default]
    All,
    /// In each layer of the cache, by its index, those from this one on; all in layers behind the end of the list.
    From(Arc<[u32]>),
    /// All, and behind the attention of a layer what the step's rows paid to cells is added to the sums.
    Sum(CellSums),
    /// The same, and then the cells that sums are kept of are selected, from then on for [`KeptCells::From`].
    Select(CellSelection),
}

/// One for each cell.
type HeadSums = Mutex<Box<[f32]>>;

/// Attention that rows of a sequence have paid to its first cells so far, by layer of the cache and key head. Clones share it.
///
/// It is the sum of the softmax weights of the rows' query heads that share the key head, added in float32 in the order of
/// rows, and of heads inside a row: it does not depend on which steps the rows were in. No step adds a row twice.
#[derive(Clone, Debug)]
pub struct CellSums {
    cells: usize,
    layers: Arc<[Box<[HeadSums]>]>,
}

impl CellSums {
    /// Sums of zero for the first `cells` cells, for as many key heads of each layer as `heads` says; 0 for layers of which
    /// none are kept.
    pub fn new(cells: usize, heads: impl IntoIterator<Item = usize>) -> CellSums {
        let sums = |_| Mutex::new(vec![0.0; cells].into());
        CellSums { cells, layers: heads.into_iter().map(|heads| (0..heads).map(sums).collect()).collect() }
    }

    /// Cells that have sums.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Sums of a key head of layer `kv`, one for each cell.
    pub fn of(&self, kv: usize, head: usize) -> MutexGuard<'_, Box<[f32]>> {
        self.layers[kv][head].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for CellSums {
    /// Sums that are kept in one place.
    fn eq(&self, other: &CellSums) -> bool {
        Arc::ptr_eq(&self.layers, &other.layers)
    }
}

impl Eq for CellSums {}

/// A selection of cells by the attention that was paid to them: by the rows of this step alone where the sums begin with it
/// (SnapKV, arXiv 2404.14469), by all rows of a prompt where they began with the prompt (H2O, arXiv 2306.14048).
///
/// Each sum becomes the largest of its neighbourhood. The cells with the largest ones stay; of equal ones that with the
/// larger sum of its own, then the lower. Their keys and values are moved as they are stored, in their order, to the last
/// cells that have sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellSelection {
    /// The first cell that is left in each layer of the cache, by its index; nothing is selected where that is 0, and in
    /// layers behind the end of the list. Pages from it on are the sequence's alone.
    pub first: Arc<[u32]>,
    /// Width of the neighbourhood in cells, an odd number.
    pub pool: u32,
    /// Sums of the cells that are selected from, none of which lies behind the step's rows.
    pub sums: CellSums,
}

impl KeptCells {
    /// First cell that rows of the step see in layer `kv` of the cache.
    pub fn first(&self, kv: usize) -> usize {
        match self {
            KeptCells::From(first) => first.get(kv).map_or(0, |&cell| cell as usize),
            KeptCells::All | KeptCells::Sum(_) | KeptCells::Select(_) => 0,
        }
    }

    /// Sums that the step's rows are added to in layer `kv`, if any.
    pub fn sums(&self, kv: usize) -> Option<&CellSums> {
        match self {
            KeptCells::Sum(sums) | KeptCells::Select(CellSelection { sums, .. }) => {
                Some(sums).filter(|sums| sums.layers.get(kv).is_some_and(|heads| !heads.is_empty()))
            }
            KeptCells::All | KeptCells::From(_) => None,
        }
    }

    /// Cells that selected ones of layer `kv` are moved to, and the width of neighbourhoods, where cells are selected.
    pub fn selects(&self, kv: usize) -> Option<(Range<usize>, usize)> {
        let KeptCells::Select(CellSelection { first, pool, sums }) = self else { return None };
        first.get(kv).filter(|&&cell| cell > 0).map(|&cell| (cell as usize..sums.cells, *pool as usize))
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
        let select = KeptCells::Select(CellSelection { first, pool: 5, sums: CellSums::new(9, [1, 0]) });
        assert_eq!([0, 1, 2].map(|kv| select.selects(kv)), [Some((7..9, 5)), None, None]);
        assert_eq!([0, 1, 2].map(|kv| select.sums(kv).is_some()), [true, false, false]);
        assert_eq!((select.first(0), from.selects(0), from.sums(0)), (0, None, None));
    }

    #[test]
    fn sums_are_one_place_for_all_who_have_them() {
        let sums = CellSums::new(3, [2]);
        let step = KeptCells::Sum(sums.clone());
        step.sums(0).expect("kept").of(0, 1)[2] += 1.5;
        assert_eq!((**sums.of(0, 1)).to_vec(), [0.0, 0.0, 1.5]);
        assert_eq!((**sums.of(0, 0)).to_vec(), [0.0; 3]);
        assert_eq!(step, KeptCells::Sum(sums.clone()));
        assert_ne!(sums, CellSums::new(3, [2]), "others with the same numbers");
    }
}

//! Pages of a model in shards, in the form that one machine has: sessions and caches know nothing of ranks.

use crate::{RankError, Result};
use std::ops::Range;

/// Bytes of a layer in a page, whose heads lie one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerPage {
    /// Every rank has all of them.
    Whole(usize),
    /// So many, of which each rank has a range.
    ByHead(Vec<usize>),
}

impl LayerPage {
    /// Bytes that rank `rank` has.
    fn of(&self, rank: usize) -> usize {
        match self {
            LayerPage::Whole(bytes) => *bytes,
            LayerPage::ByHead(bytes) => bytes[rank],
        }
    }
}

/// The layers of a page, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardPage(pub Vec<LayerPage>);

impl ShardPage {
    /// True where the leader has all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.iter().all(|layer| matches!(layer, LayerPage::Whole(_)))
    }

    /// Bytes that rank `rank` has.
    pub fn bytes(&self, rank: usize) -> usize {
        self.0.iter().map(|layer| layer.of(rank)).sum()
    }

    /// The page of one machine from those of all ranks.
    ///
    /// # Errors
    /// When one has another size.
    pub(crate) fn join(&self, ranks: &[Vec<u8>]) -> Result<Vec<u8>> {
        for (rank, page) in ranks.iter().enumerate() {
            self.expect(page.len(), self.bytes(rank))?;
        }
        let (mut whole, mut at) = (vec![], vec![0; ranks.len()]);
        for layer in &self.0 {
            for (rank, page) in ranks.iter().enumerate() {
                let range = next(&mut at[rank], layer.of(rank));
                if rank == 0 || matches!(layer, LayerPage::ByHead(_)) {
                    whole.extend_from_slice(&page[range]);
                }
            }
        }
        Ok(whole)
    }

    /// The pages of all ranks from that of one machine.
    ///
    /// # Errors
    /// When it has another size.
    pub(crate) fn part(&self, whole: &[u8], ranks: usize) -> Result<Vec<Vec<u8>>> {
        let bytes = |layer: &LayerPage| match layer {
            LayerPage::Whole(bytes) => *bytes,
            LayerPage::ByHead(bytes) => bytes.iter().sum(),
        };
        self.expect(whole.len(), self.0.iter().map(bytes).sum())?;
        let (mut pages, mut at) = (vec![vec![]; ranks], 0);
        for layer in &self.0 {
            match layer {
                LayerPage::Whole(bytes) => {
                    let range = next(&mut at, *bytes);
                    pages.iter_mut().for_each(|page| page.extend_from_slice(&whole[range.clone()]));
                }
                LayerPage::ByHead(bytes) => {
                    for (page, &bytes) in pages.iter_mut().zip(bytes) {
                        page.extend_from_slice(&whole[next(&mut at, bytes)]);
                    }
                }
            }
        }
        Ok(pages)
    }

    fn expect(&self, found: usize, wanted: usize) -> Result<()> {
        match found == wanted {
            true => Ok(()),
            false => Err(RankError::Frame(format!("a page of {found} bytes came in place of {wanted}"))),
        }
    }
}

fn next(at: &mut usize, bytes: usize) -> Range<usize> {
    let start = *at;
    *at += bytes;
    start..*at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_joined_and_parted_by_heads() {
        let page = ShardPage(vec![
            LayerPage::ByHead(vec![2, 1]),
            LayerPage::Whole(2),
            LayerPage::ByHead(vec![1, 1]),
        ]);
        let whole: Vec<u8> = (1..=7).collect();
        let parts = page.part(&whole, 2).unwrap();
        assert_eq!(parts, [vec![1, 2, 4, 5, 6], vec![3, 4, 5, 7]]);
        assert_eq!((page.bytes(0), page.bytes(1)), (5, 4));
        assert_eq!(page.join(&parts).unwrap(), whole);
        assert!(
            page.part(&whole[1..], 2).is_err() && page.join(&[parts[1].clone(), parts[0].clone()]).is_err()
        );
        assert!(!page.is_whole() && ShardPage(vec![LayerPage::Whole(3)]).is_whole());
    }
}

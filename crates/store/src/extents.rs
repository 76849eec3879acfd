//! Arithmetic on sizes that a file claims: nothing here can overflow or allocate by them.

use std::ops::Range;

/// The product of `dims` if no partial product overflows, zeros counted as ones: a shape that passes can be multiplied
/// in any order by whoever reads it later.
pub(crate) fn checked_product(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))
}

/// Two of `ranges` that share bytes, as their indexes, if any do. Empty ranges share nothing.
pub(crate) fn overlap(ranges: &[Range<usize>]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&i| !ranges[i].is_empty()).collect();
    order.sort_by_key(|&i| ranges[i].start);
    order.windows(2).map(|w| (w[0], w[1])).find(|&(a, b)| ranges[a].end > ranges[b].start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_hidden_by_a_zero_is_still_seen() {
        assert_eq!(checked_product(&[2, 3]), Some(6));
        assert_eq!(checked_product(&[0, usize::MAX, 2]), None);
        assert_eq!(checked_product(&[]), Some(1));
    }

    #[test]
    fn overlaps_are_found_out_of_order() {
        assert_eq!(overlap(&[8..12, 0..8, 12..12, 12..20]), None);
        assert_eq!(overlap(&[8..12, 0..9]), Some((1, 0)));
    }
}

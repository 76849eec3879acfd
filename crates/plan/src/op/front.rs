//! The largest numbers of a row.

/// The `n` largest numbers of a row with their columns, as [`Queue::front`](super::Queue::front) orders them.
pub fn front(row: &[f32], n: usize) -> Vec<(u32, f32)> {
    // Positive NaN is the largest number in the total order; -0.0 + 0.0 is 0.0, and so they are equal.
    let key = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
    let before = |a: f32, b: f32| key(a).total_cmp(&key(b)).is_gt();
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(n.min(row.len()) + 1);
    for (i, block) in row.chunks(FRONT_BLOCK).enumerate() {
        // Almost all blocks stop here, at several numbers an instruction.
        let higher = |bar: f32| block.iter().fold(false, |any, v| any | (*v > bar) | v.is_nan());
        if best.len() == n && best.last().is_none_or(|last| !higher(last.1)) {
            continue;
        }
        for (j, &v) in block.iter().enumerate() {
            if best.len() == n && best.last().is_none_or(|last| !before(v, last.1)) {
                continue;
            }
            let at = best.partition_point(|other| !before(v, other.1));
            best.insert(at, ((i * FRONT_BLOCK + j) as u32, v));
            best.truncate(n);
        }
    }
    best
}

/// Numbers that [`front`] looks at together.
const FRONT_BLOCK: usize = 128;

#[cfg(test)]
mod tests {
    use super::front;

    #[test]
    fn the_front_of_a_row_has_ties_in_order_and_nan_first() {
        let row = [1.0, 3.0, -2.0, 3.0, 0.5];
        assert_eq!(front(&row, 3), [(1, 3.0), (3, 3.0), (0, 1.0)]);
        assert_eq!(front(&row, 9).len(), 5);
        assert!(front(&row, 0).is_empty());
        let with_nan = front(&[1.0, -f32::NAN, f32::INFINITY], 1);
        assert!(with_nan[0].0 == 1 && with_nan[0].1.is_nan());
    }
}

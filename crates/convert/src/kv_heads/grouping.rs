//! Which heads become one: as they stand, or those that are most alike.

/// Groups of `size` of the heads `0..n`, `alike(i, j)` being how alike two are: greedily, the most alike first, then
/// better by swapping heads between groups as long as that helps.
pub(super) fn by_likeness(n: usize, size: usize, alike: &dyn Fn(usize, usize) -> f64) -> Vec<Vec<usize>> {
    let mut free: Vec<usize> = (0..n).collect();
    let mut groups = vec![];
    while !free.is_empty() {
        let mut group = vec![free.remove(0)];
        while group.len() < size && !free.is_empty() {
            let gain = |h: usize| group.iter().map(|&g| alike(g, h)).sum::<f64>();
            let best = (0..free.len()).max_by(|&a, &b| gain(free[a]).total_cmp(&gain(free[b]))).unwrap_or(0);
            group.push(free.remove(best));
        }
        groups.push(group);
    }
    while improve(&mut groups, alike) {}
    groups.iter_mut().for_each(|g| g.sort_unstable());
    groups.sort();
    groups
}

/// Swaps the first two heads whose swap makes groups more alike; false when there are none.
fn improve(groups: &mut [Vec<usize>], alike: &dyn Fn(usize, usize) -> f64) -> bool {
    let fit = |group: &[usize], place: usize, head: usize| -> f64 {
        group.iter().enumerate().filter(|(i, _)| *i != place).map(|(_, &g)| alike(g, head)).sum()
    };
    for a in 0..groups.len() {
        for b in a + 1..groups.len() {
            for (i, j) in (0..groups[a].len()).flat_map(|i| (0..groups[b].len()).map(move |j| (i, j))) {
                let (x, y) = (groups[a][i], groups[b][j]);
                let now = fit(&groups[a], i, x) + fit(&groups[b], j, y);
                let then = fit(&groups[a], i, y) + fit(&groups[b], j, x);
                // More than rounding, so that it ends.
                if then > now + 1e-9 * (now.abs() + 1.0) {
                    (groups[a][i], groups[b][j]) = (y, x);
                    return true;
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::by_likeness;

    #[test]
    fn heads_of_a_kind_end_up_together() {
        let kind = [0, 1, 2, 2, 0, 1];
        let alike = |i: usize, j: usize| f64::from(u8::from(kind[i] == kind[j]));
        assert_eq!(by_likeness(6, 2, &alike), [[0, 4], [1, 5], [2, 3]]);
        // Greedy alone would pair 0 with 1 and leave 2 and 3, which repel each other.
        let pull = [[0.0, 1.0, 0.9, 0.9], [1.0, 0.0, 0.9, 0.9], [0.9, 0.9, 0.0, -5.0], [0.9, 0.9, -5.0, 0.0]];
        let groups = by_likeness(4, 2, &|i, j| pull[i][j]);
        assert!(!groups.contains(&vec![2, 3]), "{groups:?}");
    }
}

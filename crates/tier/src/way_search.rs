//! Searches where the parts of a model are best: a linear program over fractions of each class, then whole parts.
//!
//! FlexGen's search (arXiv 2303.06865) in the ways that can be run here: weights on the device, in memory and computed by
//! the CPU, or read from disk for it.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOutcome, Variable};

/// Ways to keep and compute a part: on the device, in memory, on disk.
pub const WAYS: usize = 3;
/// Index of each way.
const DEVICE: usize = 0;
const RAM: usize = 1;
const DISK: usize = 2;

/// Parts of a model that are alike: matrices of one kind over all layers.
#[derive(Clone, Debug, PartialEq)]
pub struct PartClass {
    /// Bytes of each part.
    pub bytes: u64,
    /// Bytes that a part takes on the device, where its cache lies beside it.
    pub device_bytes: u64,
    /// How many there are.
    pub parts: usize,
    /// Seconds that a part takes in a step on the device, and on the CPU.
    pub seconds: (f64, f64),
}

/// Budgets and the disk's speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayLimits {
    /// Bytes of the device's memory for weights.
    pub device: u64,
    /// Bytes of memory for weights.
    pub ram: u64,
    /// Bytes per second of the disk.
    pub disk: f64,
}

/// Parts of each class on the device, in memory and on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct WayCounts {
    /// By class, in the order of the question.
    pub counts: Vec<[usize; WAYS]>,
    /// Seconds of a step.
    pub seconds: f64,
}

/// The fractions of each class by which a step is fastest; none where not even the disk helps.
///
/// A step waits for the disk or for what is computed, whichever is longer: reading goes on meanwhile, and the device and
/// the CPU take turns.
pub fn best_fractions(classes: &[PartClass], limits: &WayLimits) -> Option<Vec<[f64; WAYS]>> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let time = problem.add_var(1.0, (0.0, f64::INFINITY));
    let ways: Vec<[Variable; WAYS]> =
        classes.iter().map(|_| [(); WAYS].map(|()| problem.add_var(0.0, (0.0, 1.0)))).collect();
    for all in &ways {
        problem.add_constraint(all.map(|way| (way, 1.0)), ComparisonOp::Eq, 1.0);
    }
    // Of numbers near 1: bytes by what there is, seconds by what all take on the CPU.
    let unit = classes.iter().map(|c| c.parts as f64 * c.seconds.1.max(c.seconds.0)).sum::<f64>().max(1e-12);
    let all = classes.iter().map(|c| c.parts as f64 * c.bytes as f64).sum::<f64>().max(1.0);
    let budget = |way: usize| {
        let mut sum = LinearExpr::empty();
        let bytes = |c: &PartClass| c.parts as f64 * bytes_in(c, way) as f64 / all;
        classes.iter().zip(&ways).for_each(|(c, w)| sum.add(w[way], bytes(c)));
        sum
    };
    problem.add_constraint(budget(DEVICE), ComparisonOp::Le, limits.device as f64 / all);
    problem.add_constraint(budget(RAM), ComparisonOp::Le, limits.ram as f64 / all);
    let (mut computing, mut reading) = (LinearExpr::empty(), LinearExpr::empty());
    for (c, way) in classes.iter().zip(&ways) {
        let parts = c.parts as f64 / unit;
        computing.add(way[DEVICE], parts * c.seconds.0);
        computing.add(way[RAM], parts * c.seconds.1);
        computing.add(way[DISK], parts * c.seconds.1);
        reading.add(way[DISK], c.parts as f64 * c.bytes as f64 / limits.disk / unit);
    }
    for mut sum in [computing, reading] {
        sum.add(time, -1.0);
        problem.add_constraint(sum, ComparisonOp::Le, 0.0);
    }
    let SolveOutcome::Solution(solution) = problem.solve().ok()? else { return None };
    Some(ways.iter().map(|way| way.map(|v| solution[v].clamp(0.0, 1.0))).collect())
}

/// Whole parts by the best fractions: what is left over goes by the largest remainders as far as budgets allow. Then all
/// counts near by are tried, and parts are moved as long as that makes a step faster. None where parts do not fit anywhere.
pub fn best_ways(classes: &[PartClass], limits: &WayLimits) -> Option<WayCounts> {
    let fractions = best_fractions(classes, limits)?;
    let mut counts: Vec<[usize; WAYS]> = vec![[0; WAYS]; classes.len()];
    let mut left: Vec<(f64, usize, usize)> = vec![];
    for (i, (class, way)) in classes.iter().zip(&fractions).enumerate() {
        for (k, share) in way.iter().enumerate() {
            // What a solver rounds is not missed.
            let exact = share * class.parts as f64 + 1e-9;
            counts[i][k] = exact as usize;
            left.push((exact.fract(), i, k));
        }
    }
    left.sort_by(|a, b| b.0.total_cmp(&a.0));
    for &(_, i, k) in &left {
        let missing = classes[i].parts > counts[i].iter().sum();
        if missing && fits(classes, limits, &with(&counts, i, k)) {
            counts[i][k] += 1;
        }
    }
    for (i, class) in classes.iter().enumerate() {
        counts[i][DISK] += class.parts - counts[i].iter().sum::<usize>();
    }
    nearest_best(classes, limits, &mut counts);
    improve(classes, limits, &mut counts);
    let seconds = step_seconds(classes, limits, &counts);
    Some(WayCounts { counts, seconds })
}

fn with(counts: &[[usize; WAYS]], class: usize, way: usize) -> Vec<[usize; WAYS]> {
    let mut more = counts.to_vec();
    more[class][way] += 1;
    more
}

/// Bytes that a part of a class takes in a way.
fn bytes_in(class: &PartClass, way: usize) -> u64 {
    if way == DEVICE { class.device_bytes } else { class.bytes }
}

fn held(classes: &[PartClass], counts: &[[usize; WAYS]], way: usize) -> u64 {
    classes.iter().zip(counts).map(|(c, n)| bytes_in(c, way) * n[way] as u64).sum()
}

fn fits(classes: &[PartClass], limits: &WayLimits, counts: &[[usize; WAYS]]) -> bool {
    held(classes, counts, DEVICE) <= limits.device && held(classes, counts, RAM) <= limits.ram
}

/// Seconds of a step.
pub fn step_seconds(classes: &[PartClass], limits: &WayLimits, counts: &[[usize; WAYS]]) -> f64 {
    let one = |(c, n): (&PartClass, &[usize; WAYS])| {
        n[DEVICE] as f64 * c.seconds.0 + (n[RAM] + n[DISK]) as f64 * c.seconds.1
    };
    let computing: f64 = classes.iter().zip(counts).map(one).sum();
    computing.max(held(classes, counts, DISK) as f64 / limits.disk)
}

/// Counts near others, tried one class after the other.
struct NearCounts<'a> {
    classes: &'a [PartClass],
    limits: &'a WayLimits,
    /// Of each class, what is tried.
    tried: Vec<Vec<[usize; WAYS]>>,
    counts: Vec<[usize; WAYS]>,
    best: (f64, Vec<[usize; WAYS]>),
}

/// Placements that are tried near the best fractions at most.
const MOST_TRIED: usize = 1 << 18;
/// Parts of a class that are moved in a placement near by at most, in each way.
const FARTHEST: usize = 4;

/// Takes the best of all counts near by: within the largest distance that leaves few enough to be tried.
fn nearest_best(classes: &[PartClass], limits: &WayLimits, counts: &mut Vec<[usize; WAYS]>) {
    let within = |distance: usize| -> Vec<Vec<[usize; WAYS]>> {
        classes.iter().zip(counts.iter()).map(|(class, n)| near(class.parts, n, distance)).collect()
    };
    let few = |tried: &Vec<Vec<_>>| {
        let all = tried.iter().try_fold(1usize, |all, one| all.checked_mul(one.len()));
        all.is_some_and(|all| all <= MOST_TRIED)
    };
    let Some(tried) = (1..=FARTHEST).rev().map(within).find(few) else { return };
    let best = (step_seconds(classes, limits, counts), counts.clone());
    let mut search = NearCounts { classes, limits, tried, counts: counts.clone(), best };
    search.class(0, (0, 0, 0), 0.0);
    *counts = search.best.1;
}

/// Counts of `parts` whose numbers on the device and in memory are no farther than `distance` from those of `n`.
fn near(parts: usize, n: &[usize; WAYS], distance: usize) -> Vec<[usize; WAYS]> {
    let around = |n: usize| n.saturating_sub(distance)..=n.saturating_add(distance).min(parts);
    let one = |device: usize| {
        around(n[RAM]).filter_map(move |ram| Some([device, ram, parts.checked_sub(device + ram)?]))
    };
    around(n[DEVICE]).flat_map(one).collect()
}

impl NearCounts<'_> {
    /// Tries the counts of class `i` and those behind it, where the ones before hold so many bytes of each way and take so
    /// long to compute.
    fn class(&mut self, i: usize, (device, ram, disk): (u64, u64, u64), computing: f64) {
        let seconds = computing.max(disk as f64 / self.limits.disk);
        if device > self.limits.device || ram > self.limits.ram || seconds >= self.best.0 {
            return;
        }
        let Some(class) = self.classes.get(i) else {
            self.best = (seconds, self.counts.clone());
            return;
        };
        for at in 0..self.tried[i].len() {
            let n = self.tried[i][at];
            self.counts[i] = n;
            let bytes = |way: usize| bytes_in(class, way) * n[way] as u64;
            let held = (device + bytes(DEVICE), ram + bytes(RAM), disk + bytes(DISK));
            let more = n[DEVICE] as f64 * class.seconds.0 + (n[RAM] + n[DISK]) as f64 * class.seconds.1;
            self.class(i + 1, held, computing + more);
        }
    }
}

/// Moves one part, or two at once, as long as a step gets faster.
fn improve(classes: &[PartClass], limits: &WayLimits, counts: &mut Vec<[usize; WAYS]>) {
    let moves: Vec<(usize, usize, usize)> = (0..classes.len())
        .flat_map(|i| (0..WAYS).flat_map(move |from| (0..WAYS).map(move |to| (i, from, to))))
        .filter(|(_, from, to)| from != to)
        .collect();
    let apply = |counts: &[[usize; WAYS]], (i, from, to): (usize, usize, usize)| {
        let mut moved = counts.to_vec();
        moved[i][from] = moved[i][from].checked_sub(1)?;
        moved[i][to] += 1;
        Some(moved)
    };
    let better = |counts: &[[usize; WAYS]]| -> Option<Vec<[usize; WAYS]>> {
        let now = step_seconds(classes, limits, counts);
        let ones = moves.iter().filter_map(|&m| apply(counts, m));
        let twos = moves.iter().filter_map(|&m| apply(counts, m));
        let twos = twos.flat_map(|one| moves.iter().filter_map(move |&m| apply(&one, m)).collect::<Vec<_>>());
        let all = ones.chain(twos).filter(|c| fits(classes, limits, c));
        let best = all.map(|c| (step_seconds(classes, limits, &c), c)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 < now * (1.0 - 1e-9)).then_some(best.1)
    };
    while let Some(next) = better(counts) {
        *counts = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Even numbers by chance, below `below`.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % below
        }

        fn class(&mut self, parts: usize) -> PartClass {
            let bytes = 1_000_000 * (1 + self.below(40));
            let device_bytes = bytes + 100_000 * self.below(20);
            // Some are slower on the device than on the CPU, as few multiplications behind a link are.
            let cpu = bytes as f64 / 20e9 * (1.0 + self.below(8) as f64);
            PartClass { bytes, device_bytes, parts, seconds: (cpu * (1 + self.below(60)) as f64 / 40.0, cpu) }
        }
    }

    fn total(classes: &[PartClass]) -> u64 {
        classes.iter().map(|c| c.bytes * c.parts as u64).sum()
    }

    /// With memory for all, only the device's budget binds: what saves most seconds for a byte goes there first.
    fn greedy(classes: &[PartClass], device: u64) -> f64 {
        let mut order: Vec<&PartClass> = classes.iter().filter(|c| c.seconds.0 < c.seconds.1).collect();
        let gain = |c: &PartClass| (c.seconds.1 - c.seconds.0) / c.device_bytes as f64;
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        let (mut left, mut saved) = (device as f64, 0.0);
        for class in order {
            let take = left.min((class.device_bytes * class.parts as u64) as f64);
            saved += take * gain(class);
            left -= take;
        }
        classes.iter().map(|c| c.parts as f64 * c.seconds.1).sum::<f64>() - saved
    }

    #[test]
    fn fractions_are_those_of_greedy_where_one_budget_binds() {
        let mut chance = Chance(7);
        for _ in 0..200 {
            let classes: Vec<PartClass> = (0..5).map(|i| chance.class(1 + 7 * i)).collect();
            let all = total(&classes);
            let device = chance.below(all);
            let limits = WayLimits { device, ram: all, disk: 1e9 };
            let ways = best_fractions(&classes, &limits).expect("a solution");
            let seconds = |(c, w): (&PartClass, &[f64; WAYS])| {
                c.parts as f64 * (w[DEVICE] * c.seconds.0 + (w[RAM] + w[DISK]) * c.seconds.1)
            };
            let found: f64 = classes.iter().zip(&ways).map(seconds).sum();
            let want = greedy(&classes, device);
            assert!((found - want).abs() < 1e-6 * want, "{found} instead of {want}");
        }
    }

    /// The fastest step over all placements of single parts.
    fn brute(classes: &[PartClass], limits: &WayLimits) -> f64 {
        fn all(parts: usize) -> Vec<[usize; WAYS]> {
            let rest = |device| (0..=parts - device).map(move |ram| [device, ram, parts - device - ram]);
            (0..=parts).flat_map(rest).collect()
        }
        let mut placements: Vec<Vec<[usize; WAYS]>> = vec![vec![]];
        for class in classes {
            let longer = |p: &Vec<[usize; WAYS]>| -> Vec<Vec<[usize; WAYS]>> {
                all(class.parts).into_iter().map(|c| [p.as_slice(), &[c]].concat()).collect()
            };
            placements = placements.iter().flat_map(longer).collect();
        }
        let fitting = placements.iter().filter(|p| fits(classes, limits, p));
        fitting.map(|p| step_seconds(classes, limits, p)).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn whole_parts_are_within_three_percent_of_the_best() {
        let mut chance = Chance(11);
        for round in 0..150 {
            let counts: Vec<usize> = (0..3).map(|_| 1 + chance.below(4) as usize).collect();
            let classes: Vec<PartClass> = counts.iter().map(|&n| chance.class(n)).collect();
            assert!(classes.iter().map(|c| c.parts).sum::<usize>() <= 12);
            let all = total(&classes);
            let limits = WayLimits {
                device: chance.below(all),
                ram: chance.below(all + all / 4),
                disk: 1e9 * (1 + chance.below(8)) as f64,
            };
            let found = best_ways(&classes, &limits).expect("a placement");
            assert!(fits(&classes, &limits, &found.counts), "{found:?}");
            let placed = classes.iter().zip(&found.counts).all(|(c, n)| n.iter().sum::<usize>() == c.parts);
            assert!(placed && found.seconds == step_seconds(&classes, &limits, &found.counts));
            let best = brute(&classes, &limits);
            assert!(found.seconds <= 1.03 * best, "round {round}: {} where {best} can be had", found.seconds);
        }
    }

    #[test]
    fn experts_stay_in_memory_where_little_is_multiplied_for_a_byte() {
        let part = |bytes: u64, device: f64, cpu: f64| PartClass {
            bytes,
            device_bytes: bytes,
            parts: 16,
            seconds: (device, cpu),
        };
        // Of experts a token reads a few: a device saves little for their bytes.
        let classes = [part(50_000_000, 1e-4, 2.5e-3), part(400_000_000, 1e-4, 6e-4)];
        let limits = WayLimits { device: 1_000_000_000, ram: 8_000_000_000, disk: 1e9 };
        let found = best_ways(&classes, &limits).expect("a placement");
        assert_eq!(found.counts, [[16, 0, 0], [0, 16, 0]]);
    }
}

//! Searches where the parts of a model are best: a linear program over fractions of each class, then whole parts.
//!
//! FlexGen's search (arXiv 2303.06865): weights on the device, in memory or on disk, and what is not on the device computed by
//! the CPU or sent to the device in every step.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOutcome, Variable};

/// Ways to keep and compute a part: on the device; in memory, by the CPU or sent to the device; on disk, for the CPU or sent
/// to the device.
pub const WAYS: usize = 5;
/// Index of each way.
const DEVICE: usize = 0;
const RAM: usize = 1;
const UP: usize = 2;
const DISK: usize = 3;
const DISK_UP: usize = 4;

/// Parts of a model that are alike: matrices of one kind over all layers.
#[derive(Clone, Debug, PartialEq)]
pub struct PartClass {
    /// Bytes of each part.
    pub bytes: u64,
    /// Bytes that a part takes on the device, where its cache lies beside it: no fewer.
    pub device_bytes: u64,
    /// Bytes that a step sends to the device of a part that is sent there: all, or experts that rows choose.
    pub sent_bytes: u64,
    /// Bytes of staging slots on the device where any part is sent to it; slots serve all classes.
    pub slot_bytes: u64,
    /// How many there are.
    pub parts: usize,
    /// Seconds that a part takes in a step on the device, and on the CPU.
    pub seconds: (f64, f64),
    /// Ways that there are for it.
    pub ways: [bool; WAYS],
    /// The other class whose parts are computed at the same time, where these run on the other machine.
    pub beside: Option<PairedClass>,
}

/// Two classes of which neither reads what the other computes in a layer: the experts that rows choose, and the one that
/// all rows pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairedClass {
    /// One of the two.
    First,
    /// The other one.
    Second,
}

/// Budgets, and the speeds of the disk and of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayLimits {
    /// Bytes of the device's memory for weights.
    pub device: u64,
    /// Bytes of memory for weights.
    pub ram: u64,
    /// Bytes per second of the disk.
    pub disk: f64,
    /// Bytes per second that are sent to the device.
    pub link: f64,
}

/// Parts of each class in each way.
#[derive(Clone, Debug, PartialEq)]
pub struct WayCounts {
    /// By class, in the order of the question.
    pub counts: Vec<[usize; WAYS]>,
    /// Seconds of a step.
    pub seconds: f64,
}

/// What parts take of budgets and of a step.
#[derive(Clone, Copy, Default)]
struct WayLoad {
    device: u64,
    slots: u64,
    ram: u64,
    read: u64,
    sent: u64,
    computing: f64,
    /// Of this, seconds of the device and of the CPU for classes that are computed beside one another.
    beside: [(f64, f64); 2],
}

impl WayLoad {
    fn of(classes: &[PartClass], counts: &[[usize; WAYS]]) -> WayLoad {
        classes.iter().zip(counts).fold(WayLoad::default(), |load, (class, n)| load.with(class, n))
    }

    /// With parts of one more class.
    fn with(self, class: &PartClass, n: &[usize; WAYS]) -> WayLoad {
        let [device, ram, up, disk, disk_up] = n.map(|n| n as u64);
        let (sent, cache) = (up + disk_up, class.device_bytes - class.bytes);
        let seconds = ((device + sent) as f64 * class.seconds.0, (ram + disk) as f64 * class.seconds.1);
        let mut beside = self.beside;
        if let Some(which) = class.beside {
            let own = &mut beside[which as usize];
            *own = (own.0 + seconds.0, own.1 + seconds.1);
        }
        WayLoad {
            device: self.device + device * class.bytes + (device + sent) * cache,
            slots: if sent > 0 { self.slots.max(class.slot_bytes) } else { self.slots },
            ram: self.ram + (ram + up) * class.bytes,
            read: self.read + (disk + disk_up) * class.bytes,
            sent: self.sent + sent * class.sent_bytes,
            computing: self.computing + seconds.0 + seconds.1,
            beside,
        }
    }

    fn fits(&self, limits: &WayLimits) -> bool {
        self.device + self.slots <= limits.device && self.ram <= limits.ram
    }

    /// A step waits for the disk, for the link, or for what is computed, whichever is longest: reading and sending go on
    /// meanwhile. The device and the CPU take turns, but for what they compute beside one another.
    fn seconds(&self, limits: &WayLimits) -> f64 {
        let [first, second] = self.beside;
        let at_once = first.0.min(second.1) + first.1.min(second.0);
        (self.computing - at_once).max(self.read as f64 / limits.disk).max(self.sent as f64 / limits.link)
    }
}

/// Seconds of a step.
pub fn step_seconds(classes: &[PartClass], limits: &WayLimits, counts: &[[usize; WAYS]]) -> f64 {
    WayLoad::of(classes, counts).seconds(limits)
}

/// Classes, and the fractions of each in every way.
type ClassWays<'a> = (&'a [PartClass], &'a [[Variable; WAYS]]);

/// What `of` tells of each part in each way, over all parts.
fn summed((classes, ways): ClassWays<'_>, of: &dyn Fn(&PartClass) -> [f64; WAYS]) -> LinearExpr {
    let mut sum = LinearExpr::empty();
    for (class, way) in classes.iter().zip(ways) {
        let factors = of(class);
        let some = (0..WAYS).filter(|&k| factors[k] != 0.0);
        some.for_each(|k| sum.add(way[k], class.parts as f64 * factors[k]));
    }
    sum
}

/// Takes from the seconds of `computing`, in numbers of `unit`, what both machines compute at once: no more than what either
/// has of classes that are computed beside one another.
fn at_once(problem: &mut Problem, all: ClassWays<'_>, unit: f64, computing: &mut LinearExpr) {
    if all.0.iter().all(|class| class.beside.is_none()) {
        return;
    }
    for (on_device, on_cpu) in
        [(PairedClass::First, PairedClass::Second), (PairedClass::Second, PairedClass::First)]
    {
        let both = problem.add_var(0.0, (0.0, f64::INFINITY));
        computing.add(both, -1.0);
        let of = |class: &PartClass, which: PairedClass, ways: [f64; WAYS], seconds: f64| {
            let own = if class.beside == Some(which) { seconds / unit } else { 0.0 };
            ways.map(|n| n * own)
        };
        let device = summed(all, &|c| of(c, on_device, [1.0, 0.0, 1.0, 0.0, 1.0], c.seconds.0));
        let cpu = summed(all, &|c| of(c, on_cpu, [0.0, 1.0, 0.0, 1.0, 0.0], c.seconds.1));
        for mut most in [device, cpu] {
            most.add(both, -1.0);
            problem.add_constraint(most, ComparisonOp::Ge, 0.0);
        }
    }
}

/// The fractions of each class by which a step is fastest, and its seconds, where staging slots take `slots` bytes: classes
/// that need more are not sent. None where not even the disk helps.
pub fn best_fractions(
    classes: &[PartClass],
    limits: &WayLimits,
    slots: u64,
) -> Option<(Vec<[f64; WAYS]>, f64)> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let time = problem.add_var(1.0, (0.0, f64::INFINITY));
    let may =
        |c: &PartClass, way: usize| c.ways[way] && (c.slot_bytes <= slots || !matches!(way, UP | DISK_UP));
    let ways: Vec<[Variable; WAYS]> = classes
        .iter()
        .map(|c| [0, 1, 2, 3, 4].map(|way| problem.add_var(0.0, (0.0, f64::from(may(c, way))))))
        .collect();
    for all in &ways {
        problem.add_constraint(all.map(|way| (way, 1.0)), ComparisonOp::Eq, 1.0);
    }
    // Of numbers near 1: bytes by what there is, seconds by what all take on the CPU.
    let unit = classes.iter().map(|c| c.parts as f64 * c.seconds.1.max(c.seconds.0)).sum::<f64>().max(1e-12);
    let all = classes.iter().map(|c| c.parts as f64 * c.bytes as f64).sum::<f64>().max(1.0);
    let sum = |of: &dyn Fn(&PartClass) -> [f64; WAYS]| summed((classes, &ways), of);
    let device = sum(&|c| {
        let cache = (c.device_bytes - c.bytes) as f64 / all;
        [c.device_bytes as f64 / all, 0.0, cache, 0.0, cache]
    });
    problem.add_constraint(device, ComparisonOp::Le, limits.device.saturating_sub(slots) as f64 / all);
    let ram = sum(&|c| [0.0, 1.0, 1.0, 0.0, 0.0].map(|n| n * c.bytes as f64 / all));
    problem.add_constraint(ram, ComparisonOp::Le, limits.ram as f64 / all);
    let mut computing = sum(&|c| {
        let (device, cpu) = (c.seconds.0 / unit, c.seconds.1 / unit);
        [device, cpu, device, cpu, device]
    });
    at_once(&mut problem, (classes, &ways), unit, &mut computing);
    let reading = sum(&|c| [0.0, 0.0, 0.0, 1.0, 1.0].map(|n| n * c.bytes as f64 / limits.disk / unit));
    let sending = sum(&|c| [0.0, 0.0, 1.0, 0.0, 1.0].map(|n| n * c.sent_bytes as f64 / limits.link / unit));
    for mut sum in [computing, reading, sending] {
        sum.add(time, -1.0);
        problem.add_constraint(sum, ComparisonOp::Le, 0.0);
    }
    let SolveOutcome::Solution(solution) = problem.solve().ok()? else { return None };
    let ways = ways.iter().map(|way| way.map(|v| solution[v].clamp(0.0, 1.0))).collect();
    Some((ways, unit * solution[time]))
}

/// Whole parts by the best fractions: what is left over goes by the largest remainders as far as budgets allow. Then all
/// counts near by are tried, and parts are moved as long as that makes a step faster. None where parts do not fit anywhere.
///
/// Staging slots take memory of the device once, for whatever is sent: what is linear otherwise is solved for each size of
/// them, and the best of all is taken.
pub fn best_ways(classes: &[PartClass], limits: &WayLimits) -> Option<WayCounts> {
    let mut sizes: Vec<u64> = classes.iter().map(|c| c.slot_bytes).chain([0]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let placed = |slots: u64| {
        let (fractions, _) = best_fractions(classes, limits, slots)?;
        let mut counts = rounded(classes, limits, &fractions);
        nearest_best(classes, limits, &mut counts);
        improve(classes, limits, &mut counts);
        let load = WayLoad::of(classes, &counts);
        load.fits(limits).then(|| WayCounts { counts, seconds: load.seconds(limits) })
    };
    let all = sizes.into_iter().filter(|slots| *slots <= limits.device).filter_map(placed);
    all.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// Whole parts near `fractions`.
fn rounded(classes: &[PartClass], limits: &WayLimits, fractions: &[[f64; WAYS]]) -> Vec<[usize; WAYS]> {
    let mut counts: Vec<[usize; WAYS]> = vec![[0; WAYS]; classes.len()];
    let mut left: Vec<(f64, usize, usize)> = vec![];
    for (i, (class, way)) in classes.iter().zip(fractions).enumerate() {
        for (k, share) in way.iter().enumerate() {
            // What a solver rounds is not missed.
            let exact = share * class.parts as f64 + 1e-9;
            counts[i][k] = exact as usize;
            left.push((exact.fract(), i, k));
        }
    }
    left.sort_by(|a, b| b.0.total_cmp(&a.0));
    for &(_, i, k) in &left {
        let missing = classes[i].parts > counts[i].iter().sum() && classes[i].ways[k];
        let mut more = counts.clone();
        more[i][k] += 1;
        if missing && WayLoad::of(classes, &more).fits(limits) {
            counts = more;
        }
    }
    for (i, class) in classes.iter().enumerate() {
        counts[i][DISK] += class.parts - counts[i].iter().sum::<usize>();
    }
    counts
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

/// Placements that are tried at once at most.
const MOST_TRIED: usize = 1 << 18;
/// Parts of a class that are moved in a placement near by at most, in each way.
const FARTHEST: usize = 4;
/// Classes whose parts are moved together: with five ways, those of more cannot all be tried.
const TOGETHER: usize = 3;

/// Takes the best of all counts near by, of a few classes at a time, as long as that makes a step faster.
fn nearest_best(classes: &[PartClass], limits: &WayLimits, counts: &mut Vec<[usize; WAYS]>) {
    let n = classes.len();
    let few = |set: &u32| set.count_ones() as usize == TOGETHER.min(n);
    let sets: Vec<u32> = (0..1u32 << n.min(16)).filter(few).collect();
    loop {
        let before = step_seconds(classes, limits, counts);
        sets.iter().for_each(|&set| nearest_of(classes, limits, counts, set));
        if step_seconds(classes, limits, counts) >= before * (1.0 - 1e-9) {
            return;
        }
    }
}

/// Takes the best of all counts near by of the classes of a set: within the largest distance that leaves few enough.
fn nearest_of(classes: &[PartClass], limits: &WayLimits, counts: &mut Vec<[usize; WAYS]>, set: u32) {
    let of_class = |(i, n): (usize, &[usize; WAYS]), distance: usize| match set >> i & 1 {
        0 => vec![*n],
        _ => near(&classes[i], n, distance),
    };
    let within = |distance: usize| -> Vec<Vec<[usize; WAYS]>> {
        counts.iter().enumerate().map(|class| of_class(class, distance)).collect()
    };
    let few = |tried: &Vec<Vec<_>>| {
        let all = tried.iter().try_fold(1usize, |all, one| all.checked_mul(one.len()));
        all.is_some_and(|all| all <= MOST_TRIED)
    };
    let Some(tried) = (1..=FARTHEST).rev().map(within).find(few) else { return };
    let best = (step_seconds(classes, limits, counts), counts.clone());
    let mut search = NearCounts { classes, limits, tried, counts: counts.clone(), best };
    search.class(0, WayLoad::default());
    *counts = search.best.1;
}

/// Counts of the parts of a class of which at most `distance` lie in another way each than those of `n`, but for the disk.
fn near(class: &PartClass, n: &[usize; WAYS], distance: usize) -> Vec<[usize; WAYS]> {
    let mut all = vec![[0; WAYS]];
    for way in [DEVICE, RAM, UP, DISK_UP] {
        let most = if class.ways[way] { n[way] + distance } else { 0 };
        let around = n[way].saturating_sub(distance)..=most;
        let with = |counts: [usize; WAYS]| around.clone().map(move |k| (counts, k));
        let longer = all.into_iter().flat_map(with).map(|(mut counts, k)| {
            counts[way] = k;
            counts
        });
        all = longer.filter(|counts| counts.iter().sum::<usize>() <= class.parts).collect();
    }
    let rest = |mut counts: [usize; WAYS]| {
        counts[DISK] = class.parts - counts.iter().sum::<usize>();
        counts
    };
    all.into_iter().map(rest).filter(|counts| class.ways[DISK] || counts[DISK] == 0).collect()
}

impl NearCounts<'_> {
    /// Tries the counts of class `i` and those behind it, where the ones before take `load`.
    fn class(&mut self, i: usize, load: WayLoad) {
        let seconds = load.seconds(self.limits);
        if !load.fits(self.limits) || seconds >= self.best.0 {
            return;
        }
        let Some(class) = self.classes.get(i) else {
            self.best = (seconds, self.counts.clone());
            return;
        };
        for at in 0..self.tried[i].len() {
            let n = self.tried[i][at];
            self.counts[i] = n;
            self.class(i + 1, load.with(class, &n));
        }
    }
}

/// Moves one part, or two at once, as long as a step gets faster.
fn improve(classes: &[PartClass], limits: &WayLimits, counts: &mut Vec<[usize; WAYS]>) {
    let moves: Vec<(usize, usize, usize)> = (0..classes.len())
        .flat_map(|i| (0..WAYS).flat_map(move |from| (0..WAYS).map(move |to| (i, from, to))))
        .filter(|(i, from, to)| from != to && classes[*i].ways[*to])
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
        let all = ones.chain(twos).filter(|c| WayLoad::of(classes, c).fits(limits));
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
            let seconds = (cpu * (1 + self.below(60)) as f64 / 40.0, cpu);
            // Two slots of a half or a quarter of a part each.
            let slot_bytes = bytes >> self.below(2);
            PartClass {
                bytes,
                device_bytes,
                sent_bytes: bytes,
                slot_bytes,
                parts,
                seconds,
                ways: [true; WAYS],
                beside: None,
            }
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
            let limits = WayLimits { device, ram: all, disk: 1e9, link: 1e9 };
            // Without slots nothing is sent.
            let classes: Vec<PartClass> =
                classes.into_iter().map(|c| PartClass { slot_bytes: 1, ..c }).collect();
            let (_, found) = best_fractions(&classes, &limits, 0).expect("a solution");
            let want = greedy(&classes, device);
            assert!((found - want).abs() < 1e-6 * want, "{found} instead of {want}");
        }
    }

    /// With memory for all and slots alone on the device: what saves most seconds for a byte is sent first, until the link
    /// takes as long as what is computed meanwhile.
    fn greedy_sending(classes: &[PartClass], link: f64) -> f64 {
        let mut order: Vec<&PartClass> = classes.iter().filter(|c| c.seconds.0 < c.seconds.1).collect();
        let gain = |c: &PartClass| (c.seconds.1 - c.seconds.0) / c.bytes as f64;
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        let mut computing: f64 = classes.iter().map(|c| c.parts as f64 * c.seconds.1).sum();
        let mut sent = 0.0;
        for class in order {
            // computing - take gain = (sent + take) / link
            let even = (computing - sent / link) / (gain(class) + 1.0 / link);
            let take = even.clamp(0.0, (class.bytes * class.parts as u64) as f64);
            computing -= take * gain(class);
            sent += take;
        }
        computing
    }

    #[test]
    fn what_is_sent_is_that_of_greedy_where_the_link_binds() {
        let mut chance = Chance(5);
        for round in 0..200 {
            let classes: Vec<PartClass> = (0..5).map(|i| chance.class(1 + 7 * i)).collect();
            let classes: Vec<PartClass> =
                classes.into_iter().map(|c| PartClass { device_bytes: c.bytes, ..c }).collect();
            let slots = classes.iter().map(|c| c.slot_bytes).max().expect("some classes");
            let link = 1e9 * (1 + chance.below(64)) as f64;
            let limits = WayLimits { device: slots, ram: total(&classes), disk: 1e9, link };
            let (ways, found) = best_fractions(&classes, &limits, slots).expect("a solution");
            let want = greedy_sending(&classes, link);
            assert!((found - want).abs() < 1e-6 * want, "round {round}: {found} instead of {want}: {ways:?}");
        }
    }

    /// The fastest step over all placements of single parts.
    fn brute(classes: &[PartClass], limits: &WayLimits) -> f64 {
        fn all(parts: usize) -> Vec<[usize; WAYS]> {
            let mut all = vec![[0; WAYS]];
            for way in 0..WAYS {
                let left = |n: &[usize; WAYS]| parts - n.iter().sum::<usize>();
                let longer = |n: [usize; WAYS]| {
                    let least = if way + 1 == WAYS { left(&n) } else { 0 };
                    (least..=left(&n)).map(move |k| {
                        let mut n = n;
                        n[way] = k;
                        n
                    })
                };
                all = all.into_iter().flat_map(longer).collect();
            }
            all
        }
        let mut placements: Vec<Vec<[usize; WAYS]>> = vec![vec![]];
        for class in classes {
            let longer = |p: &Vec<[usize; WAYS]>| -> Vec<Vec<[usize; WAYS]>> {
                all(class.parts).into_iter().map(|c| [p.as_slice(), &[c]].concat()).collect()
            };
            placements = placements.iter().flat_map(longer).collect();
        }
        let fitting = placements.iter().filter(|p| WayLoad::of(classes, p).fits(limits));
        fitting.map(|p| step_seconds(classes, limits, p)).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn whole_parts_are_within_three_percent_of_the_best() {
        let mut chance = Chance(11);
        for round in 0..80 {
            let counts: Vec<usize> = (0..3).map(|_| 1 + chance.below(4) as usize).collect();
            let mut classes: Vec<PartClass> = counts.iter().map(|&n| chance.class(n)).collect();
            if round % 2 == 1 {
                (classes[0].beside, classes[1].beside) =
                    (Some(PairedClass::First), Some(PairedClass::Second));
            }
            assert!(classes.iter().map(|c| c.parts).sum::<usize>() <= 12);
            let all = total(&classes);
            let limits = WayLimits {
                device: chance.below(all),
                ram: chance.below(all + all / 4),
                disk: 1e9 * (1 + chance.below(8)) as f64,
                link: 1e9 * (1 + chance.below(32)) as f64,
            };
            let found = best_ways(&classes, &limits).expect("a placement");
            assert!(WayLoad::of(&classes, &found.counts).fits(&limits), "{found:?}");
            let placed = classes.iter().zip(&found.counts).all(|(c, n)| n.iter().sum::<usize>() == c.parts);
            assert!(placed && found.seconds == step_seconds(&classes, &limits, &found.counts));
            let best = brute(&classes, &limits);
            assert!(found.seconds <= 1.03 * best, "round {round}: {} where {best} can be had", found.seconds);
        }
    }

    /// What of a pair is on the device costs nothing as long as the CPU takes longer for the other.
    #[test]
    fn classes_beside_one_another_are_computed_at_once() {
        let part = |seconds, ways: [bool; WAYS], beside| PartClass {
            bytes: 1_000_000,
            device_bytes: 1_000_000,
            sent_bytes: 1_000_000,
            slot_bytes: 1_000_000,
            parts: 10,
            seconds,
            ways,
            beside: Some(beside),
        };
        let (on_cpu, on_device) = ([false, true, false, false, false], [true, false, false, false, false]);
        let limits = WayLimits { device: 1 << 30, ram: 1 << 30, disk: 1e9, link: 1e9 };
        for (device, seconds) in [(0.5, 20.0), (2.0, 20.0), (3.0, 30.0)] {
            let experts = part((1.0, 2.0), on_cpu, PairedClass::First);
            let classes = [experts, part((device, 9.0), on_device, PairedClass::Second)];
            let found = best_ways(&classes, &limits).expect("a placement");
            let (_, fractions) = best_fractions(&classes, &limits, 0).expect("a solution");
            assert!(
                (found.seconds - seconds).abs() < 1e-9 && (fractions - seconds).abs() < 1e-6,
                "{found:?}"
            );
        }
    }

    #[test]
    fn experts_stay_in_memory_where_little_is_multiplied_for_a_byte() {
        let part = |bytes: u64, device: f64, cpu: f64| PartClass {
            bytes,
            device_bytes: bytes,
            sent_bytes: bytes,
            slot_bytes: bytes,
            parts: 16,
            seconds: (device, cpu),
            ways: [true; WAYS],
            beside: None,
        };
        // Of experts a token reads a few: a device saves little for their bytes.
        let classes = [part(50_000_000, 1e-4, 2.5e-3), part(400_000_000, 1e-4, 6e-4)];
        let limits = WayLimits { device: 1_000_000_000, ram: 8_000_000_000, disk: 1e9, link: 10e9 };
        let found = best_ways(&classes, &limits).expect("a placement");
        assert_eq!(found.counts, [[16, 0, 0, 0, 0], [0, 16, 0, 0, 0]]);
        // With many rows a CPU takes far longer than the link: what does not fit on the device is sent to it.
        let classes = [part(50_000_000, 1e-3, 0.2), part(400_000_000, 5e-3, 1.6)];
        let found = best_ways(&classes, &limits).expect("a placement");
        let sent: usize = found.counts.iter().map(|n| n[UP]).sum();
        assert!(sent > 12 && found.seconds < 1.0, "{found:?}");
    }
}

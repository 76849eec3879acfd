//! Searches where the parts of a model are best: a linear program over fractions of each class, then whole parts.
//!
//! FlexGen's search (arXiv 2303.06865): weights on the device, in memory or on disk, and what is not on the device computed by
//! the CPU or sent to the device in every step.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOutcome, Variable};

/// Placements to keep and compute a part: on the device; in memory, by the CPU or sent to the device; on disk, for the CPU or sent
/// to the device.
pub const PLACES: usize = 5;
/// Index of each place.
const DEVICE: usize = 0;
const RAM: usize = 1;
const UPLOAD: usize = 2;
const DISK: usize = 3;
const DISK_UPLOAD: usize = 4;

/// Parts of a model that are alike: matrices of one kind over all layers.
#[derive(Clone, Debug, PartialEq)]
pub struct PartClass {
    /// Bytes of each part.
    pub bytes: u64,
    /// Bytes that a part takes on the device, where its cache lies beside it: no fewer.
    pub device_bytes: u64,
    /// Bytes that a step sends to the device of a part that is sent there: all, or experts that rows choose.
    pub sent_bytes: u64,
    /// Bytes that a step reads of a part on disk: all, or experts that rows choose.
    pub read_bytes: u64,
    /// Bytes of staging slots on the device where any part is sent to it; slots serve all classes.
    pub slot_bytes: u64,
    /// How many there are.
    pub parts: usize,
    /// Seconds that a part takes in a step on the device, and on the CPU.
    pub seconds: (f64, f64),
    /// Placements that there are for it.
    pub places: [bool; PLACES],
    /// The other class whose parts are computed at the same time, where these run on the other machine.
    pub pair: Option<PairedClass>,
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
pub struct SearchLimits {
    /// Bytes of the device's memory for weights.
    pub device: u64,
    /// Bytes of memory for weights.
    pub ram: u64,
    /// Bytes per second of the disk.
    pub disk: f64,
    /// Bytes per second that are sent to the device.
    pub link: f64,
}

/// Parts of each class in each place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementCounts {
    /// By class, in the order of the question.
    pub counts: Vec<[usize; PLACES]>,
    /// Seconds of a step.
    pub seconds: f64,
}

/// What parts take of budgets and of a step.
#[derive(Clone, Copy, Default)]
struct PlacementLoad {
    device: u64,
    slots: u64,
    ram: u64,
    read: u64,
    sent: u64,
    computing: f64,
    /// Of this, seconds of the device and of the CPU for classes that are computed beside one another.
    pair: [(f64, f64); 2],
}

impl PlacementLoad {
    fn of(classes: &[PartClass], counts: &[[usize; PLACES]]) -> PlacementLoad {
        classes.iter().zip(counts).fold(PlacementLoad::default(), |load, (class, n)| load.with(class, n))
    }

    /// With parts of one more class.
    fn with(self, class: &PartClass, n: &[usize; PLACES]) -> PlacementLoad {
        let [device, ram, upload, disk, disk_upload] = n.map(|n| n as u64);
        let (sent, cache) = (upload + disk_upload, class.device_bytes - class.bytes);
        let seconds = ((device + sent) as f64 * class.seconds.0, (ram + disk) as f64 * class.seconds.1);
        let mut pair = self.pair;
        if let Some(which) = class.pair {
            let own = &mut pair[which as usize];
            *own = (own.0 + seconds.0, own.1 + seconds.1);
        }
        PlacementLoad {
            device: self.device + device * class.bytes + (device + sent) * cache,
            slots: if sent > 0 { self.slots.max(class.slot_bytes) } else { self.slots },
            ram: self.ram + (ram + upload) * class.bytes,
            read: self.read + (disk + disk_upload) * class.read_bytes,
            sent: self.sent + sent * class.sent_bytes,
            computing: self.computing + seconds.0 + seconds.1,
            pair,
        }
    }

    fn fits(&self, limits: &SearchLimits) -> bool {
        self.device + self.slots <= limits.device && self.ram <= limits.ram
    }

    /// A step waits for the disk, for the link, or for what is computed, whichever is longest: reading and sending go on
    /// meanwhile. The device and the CPU take turns, but for what they compute beside one another.
    fn seconds(&self, limits: &SearchLimits) -> f64 {
        let [first, second] = self.pair;
        let at_once = first.0.min(second.1) + first.1.min(second.0);
        (self.computing - at_once).max(self.read as f64 / limits.disk).max(self.sent as f64 / limits.link)
    }
}

/// Seconds of a step.
pub fn step_seconds(classes: &[PartClass], limits: &SearchLimits, counts: &[[usize; PLACES]]) -> f64 {
    PlacementLoad::of(classes, counts).seconds(limits)
}

/// Classes, and the fractions of each in every place.
type ClassPlaces<'a> = (&'a [PartClass], &'a [[Variable; PLACES]]);

/// What `of` tells of each part in each place, over all parts.
fn summed((classes, places): ClassPlaces<'_>, of: &dyn Fn(&PartClass) -> [f64; PLACES]) -> LinearExpr {
    let mut sum = LinearExpr::empty();
    for (class, place) in classes.iter().zip(places) {
        let factors = of(class);
        let some = (0..PLACES).filter(|&k| factors[k] != 0.0);
        some.for_each(|k| sum.add(place[k], class.parts as f64 * factors[k]));
    }
    sum
}

/// Takes from the seconds of `computing`, in numbers of `unit`, what both machines compute at once: no more than what either
/// has of classes that are computed beside one another.
fn at_once(problem: &mut Problem, all: ClassPlaces<'_>, unit: f64, computing: &mut LinearExpr) {
    if all.0.iter().all(|class| class.pair.is_none()) {
        return;
    }
    for (on_device, on_cpu) in
        [(PairedClass::First, PairedClass::Second), (PairedClass::Second, PairedClass::First)]
    {
        let both = problem.add_var(0.0, (0.0, f64::INFINITY));
        computing.add(both, -1.0);
        let of = |class: &PartClass, which: PairedClass, places: [f64; PLACES], seconds: f64| {
            let own = if class.pair == Some(which) { seconds / unit } else { 0.0 };
            places.map(|n| n * own)
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
    limits: &SearchLimits,
    slots: u64,
) -> Option<(Vec<[f64; PLACES]>, f64)> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let time = problem.add_var(1.0, (0.0, f64::INFINITY));
    let may = |c: &PartClass, place: usize| {
        c.places[place] && (c.slot_bytes <= slots || !matches!(place, UPLOAD | DISK_UPLOAD))
    };
    let places: Vec<[Variable; PLACES]> = classes
        .iter()
        .map(|c| [0, 1, 2, 3, 4].map(|place| problem.add_var(0.0, (0.0, f64::from(may(c, place))))))
        .collect();
    for all in &places {
        problem.add_constraint(all.map(|place| (place, 1.0)), ComparisonOp::Eq, 1.0);
    }
    // Of numbers near 1: bytes by what there is, seconds by what all take on the CPU.
    let unit = classes.iter().map(|c| c.parts as f64 * c.seconds.1.max(c.seconds.0)).sum::<f64>().max(1e-12);
    let all = classes.iter().map(|c| c.parts as f64 * c.bytes as f64).sum::<f64>().max(1.0);
    let sum = |of: &dyn Fn(&PartClass) -> [f64; PLACES]| summed((classes, &places), of);
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
    at_once(&mut problem, (classes, &places), unit, &mut computing);
    let reading = sum(&|c| [0.0, 0.0, 0.0, 1.0, 1.0].map(|n| n * c.read_bytes as f64 / limits.disk / unit));
    let sending = sum(&|c| [0.0, 0.0, 1.0, 0.0, 1.0].map(|n| n * c.sent_bytes as f64 / limits.link / unit));
    for mut sum in [computing, reading, sending] {
        sum.add(time, -1.0);
        problem.add_constraint(sum, ComparisonOp::Le, 0.0);
    }
    let SolveOutcome::Solution(solution) = problem.solve().ok()? else { return None };
    let places = places.iter().map(|place| place.map(|v| solution[v].clamp(0.0, 1.0))).collect();
    Some((places, unit * solution[time]))
}

/// Whole parts by the best fractions: what is left over goes by the largest remainders as far as budgets allow. Then all
/// counts near by are tried, and parts are moved as long as that makes a step faster. None where parts do not fit anywhere.
///
/// Staging slots take memory of the device once, for whatever is sent: what is linear otherwise is solved for each size of
/// them, and the best of all is taken.
pub fn best_placement(classes: &[PartClass], limits: &SearchLimits) -> Option<PlacementCounts> {
    let mut sizes: Vec<u64> = classes.iter().map(|c| c.slot_bytes).chain([0]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let placed = |slots: u64| {
        let (fractions, _) = best_fractions(classes, limits, slots)?;
        let mut counts = rounded(classes, limits, &fractions);
        nearest_best(classes, limits, &mut counts);
        improve(classes, limits, &mut counts);
        let load = PlacementLoad::of(classes, &counts);
        load.fits(limits).then(|| PlacementCounts { counts, seconds: load.seconds(limits) })
    };
    let all = sizes.into_iter().filter(|slots| *slots <= limits.device).filter_map(placed);
    all.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// Whole parts near `fractions`.
fn rounded(
    classes: &[PartClass],
    limits: &SearchLimits,
    fractions: &[[f64; PLACES]],
) -> Vec<[usize; PLACES]> {
    let mut counts: Vec<[usize; PLACES]> = vec![[0; PLACES]; classes.len()];
    let mut left: Vec<(f64, usize, usize)> = vec![];
    for (i, (class, place)) in classes.iter().zip(fractions).enumerate() {
        for (k, share) in place.iter().enumerate() {
            // What a solver rounds is not missed.
            let exact = share * class.parts as f64 + 1e-9;
            counts[i][k] = exact as usize;
            left.push((exact.fract(), i, k));
        }
    }
    left.sort_by(|a, b| b.0.total_cmp(&a.0));
    for &(_, i, k) in &left {
        let missing = classes[i].parts > counts[i].iter().sum() && classes[i].places[k];
        let mut more = counts.clone();
        more[i][k] += 1;
        if missing && PlacementLoad::of(classes, &more).fits(limits) {
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
    limits: &'a SearchLimits,
    /// Of each class, what is tried.
    tried: Vec<Vec<[usize; PLACES]>>,
    counts: Vec<[usize; PLACES]>,
    best: (f64, Vec<[usize; PLACES]>),
}

/// Placements that are tried at once at most.
const MOST_TRIED: usize = 1 << 18;
/// Parts of a class that are moved in a placement near by at most, in each place.
const FARTHEST: usize = 4;
/// Classes whose parts are moved together: with five places, those of more cannot all be tried.
const TOGETHER: usize = 3;

/// Takes the best of all counts near by, of a few classes at a time, as long as that makes a step faster.
fn nearest_best(classes: &[PartClass], limits: &SearchLimits, counts: &mut Vec<[usize; PLACES]>) {
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
fn nearest_of(classes: &[PartClass], limits: &SearchLimits, counts: &mut Vec<[usize; PLACES]>, set: u32) {
    let of_class = |(i, n): (usize, &[usize; PLACES]), distance: usize| match set >> i & 1 {
        0 => vec![*n],
        _ => near(&classes[i], n, distance),
    };
    let within = |distance: usize| -> Vec<Vec<[usize; PLACES]>> {
        counts.iter().enumerate().map(|class| of_class(class, distance)).collect()
    };
    let few = |tried: &Vec<Vec<_>>| {
        let all = tried.iter().try_fold(1usize, |all, one| all.checked_mul(one.len()));
        all.is_some_and(|all| all <= MOST_TRIED)
    };
    let Some(tried) = (1..=FARTHEST).rev().map(within).find(few) else { return };
    let best = (step_seconds(classes, limits, counts), counts.clone());
    let mut search = NearCounts { classes, limits, tried, counts: counts.clone(), best };
    search.class(0, PlacementLoad::default());
    *counts = search.best.1;
}

/// Counts of the parts of a class of which at most `distance` lie in another place each than those of `n`, but for the disk.
fn near(class: &PartClass, n: &[usize; PLACES], distance: usize) -> Vec<[usize; PLACES]> {
    let mut all = vec![[0; PLACES]];
    for place in [DEVICE, RAM, UPLOAD, DISK_UPLOAD] {
        let most = if class.places[place] { n[place] + distance } else { 0 };
        let around = n[place].saturating_sub(distance)..=most;
        let with = |counts: [usize; PLACES]| around.clone().map(move |k| (counts, k));
        let longer = all.into_iter().flat_map(with).map(|(mut counts, k)| {
            counts[place] = k;
            counts
        });
        all = longer.filter(|counts| counts.iter().sum::<usize>() <= class.parts).collect();
    }
    let rest = |mut counts: [usize; PLACES]| {
        counts[DISK] = class.parts - counts.iter().sum::<usize>();
        counts
    };
    all.into_iter().map(rest).filter(|counts| class.places[DISK] || counts[DISK] == 0).collect()
}

impl NearCounts<'_> {
    /// Tries the counts of class `i` and those behind it, where the ones before take `load`.
    fn class(&mut self, i: usize, load: PlacementLoad) {
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
fn improve(classes: &[PartClass], limits: &SearchLimits, counts: &mut Vec<[usize; PLACES]>) {
    let moves: Vec<(usize, usize, usize)> = (0..classes.len())
        .flat_map(|i| (0..PLACES).flat_map(move |from| (0..PLACES).map(move |to| (i, from, to))))
        .filter(|(i, from, to)| from != to && classes[*i].places[*to])
        .collect();
    let apply = |counts: &[[usize; PLACES]], (i, from, to): (usize, usize, usize)| {
        let mut moved = counts.to_vec();
        moved[i][from] = moved[i][from].checked_sub(1)?;
        moved[i][to] += 1;
        Some(moved)
    };
    let better = |counts: &[[usize; PLACES]]| -> Option<Vec<[usize; PLACES]>> {
        let now = step_seconds(classes, limits, counts);
        let ones = moves.iter().filter_map(|&m| apply(counts, m));
        let twos = moves.iter().filter_map(|&m| apply(counts, m));
        let twos = twos.flat_map(|one| moves.iter().filter_map(move |&m| apply(&one, m)).collect::<Vec<_>>());
        let all = ones.chain(twos).filter(|c| PlacementLoad::of(classes, c).fits(limits));
        let best = all.map(|c| (step_seconds(classes, limits, &c), c)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 < now * (1.0 - 1e-9)).then_some(best.1)
    };
    while let Some(next) = better(counts) {
        *counts = next;
    }
}

#[cfg(test)]
mod tests;

//! Placements of models by hand, and the program against brute force.

use super::*;
use crate::chance::Chance;

/// A number below `below` by chance.
fn below(chance: &mut Chance, below: u64) -> u64 {
    chance.below(below as usize) as u64
}

fn part_class(chance: &mut Chance, parts: usize) -> PartClass {
    let mut below = |n| below(chance, n);
    let bytes = 1_000_000 * (1 + below(40));
    let device_bytes = bytes + 100_000 * below(20);
    // Some are slower on the device than on the CPU, as few multiplications behind a link are.
    let cpu = bytes as f64 / 20e9 * (1.0 + below(8) as f64);
    let seconds = (cpu * (1 + below(60)) as f64 / 40.0, cpu);
    // Two slots of a half or a quarter of a part each.
    let slot_bytes = bytes >> below(2);
    PartClass {
        bytes,
        device_bytes,
        sent_bytes: bytes,
        read_bytes: bytes,
        slot_bytes,
        parts,
        seconds,
        places: [true; PLACES],
        pair: None,
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
        let classes: Vec<PartClass> = (0..5).map(|i| part_class(&mut chance, 1 + 7 * i)).collect();
        let all = total(&classes);
        let device = below(&mut chance, all);
        let limits = SearchLimits { device, ram: all, disk: 1e9, link: 1e9 };
        // Without slots nothing is sent.
        let classes: Vec<PartClass> = classes.into_iter().map(|c| PartClass { slot_bytes: 1, ..c }).collect();
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
        let classes: Vec<PartClass> = (0..5).map(|i| part_class(&mut chance, 1 + 7 * i)).collect();
        let classes: Vec<PartClass> =
            classes.into_iter().map(|c| PartClass { device_bytes: c.bytes, ..c }).collect();
        let slots = classes.iter().map(|c| c.slot_bytes).max().expect("some classes");
        let link = 1e9 * (1 + below(&mut chance, 64)) as f64;
        let limits = SearchLimits { device: slots, ram: total(&classes), disk: 1e9, link };
        let (places, found) = best_fractions(&classes, &limits, slots).expect("a solution");
        let want = greedy_sending(&classes, link);
        assert!((found - want).abs() < 1e-6 * want, "round {round}: {found} instead of {want}: {places:?}");
    }
}

/// The fastest step over all placements of single parts.
fn brute(classes: &[PartClass], limits: &SearchLimits) -> f64 {
    fn all(parts: usize) -> Vec<[usize; PLACES]> {
        let mut all = vec![[0; PLACES]];
        for place in 0..PLACES {
            let left = |n: &[usize; PLACES]| parts - n.iter().sum::<usize>();
            let longer = |n: [usize; PLACES]| {
                let least = if place + 1 == PLACES { left(&n) } else { 0 };
                (least..=left(&n)).map(move |k| {
                    let mut n = n;
                    n[place] = k;
                    n
                })
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        all
    }
    let mut placements: Vec<Vec<[usize; PLACES]>> = vec![vec![]];
    for class in classes {
        let longer = |p: &Vec<[usize; PLACES]>| -> Vec<Vec<[usize; PLACES]>> {
            all(class.parts).into_iter().map(|c| [p.as_slice(), &[c]].concat()).collect()
        };
        placements = placements.iter().flat_map(longer).collect();
    }
    let fitting = placements.iter().filter(|p| PlacementLoad::of(classes, p).fits(limits));
    fitting.map(|p| step_seconds(classes, limits, p)).fold(f64::INFINITY, f64::min)
}

#[test]
fn whole_parts_are_within_three_percent_of_the_best() {
    let mut chance = Chance(11);
    for round in 0..80 {
        let counts: Vec<usize> = (0..3).map(|_| 1 + below(&mut chance, 4) as usize).collect();
        let mut classes: Vec<PartClass> = counts.iter().map(|&n| part_class(&mut chance, n)).collect();
        if round % 2 == 1 {
            (classes[0].pair, classes[1].pair) = (Some(PairedClass::First), Some(PairedClass::Second));
        }
        assert!(classes.iter().map(|c| c.parts).sum::<usize>() <= 12);
        let all = total(&classes);
        let limits = SearchLimits {
            device: below(&mut chance, all),
            ram: below(&mut chance, all + all / 4),
            disk: 1e9 * (1 + below(&mut chance, 8)) as f64,
            link: 1e9 * (1 + below(&mut chance, 32)) as f64,
        };
        let found = best_placement(&classes, &limits).expect("a placement");
        assert!(PlacementLoad::of(&classes, &found.counts).fits(&limits), "{found:?}");
        let placed = classes.iter().zip(&found.counts).all(|(c, n)| n.iter().sum::<usize>() == c.parts);
        assert!(placed && found.seconds == step_seconds(&classes, &limits, &found.counts));
        let best = brute(&classes, &limits);
        assert!(found.seconds <= 1.03 * best, "round {round}: {} where {best} can be had", found.seconds);
    }
}

/// What of a pair is on the device costs nothing as long as the CPU takes longer for the other.
#[test]
fn classes_beside_one_another_are_computed_at_once() {
    let part = |seconds, places: [bool; PLACES], beside| PartClass {
        bytes: 1_000_000,
        device_bytes: 1_000_000,
        sent_bytes: 1_000_000,
        read_bytes: 1_000_000,
        slot_bytes: 1_000_000,
        parts: 10,
        seconds,
        places,
        pair: Some(beside),
    };
    let (on_cpu, on_device) = ([false, true, false, false, false], [true, false, false, false, false]);
    let limits = SearchLimits { device: 1 << 30, ram: 1 << 30, disk: 1e9, link: 1e9 };
    for (device, seconds) in [(0.5, 20.0), (2.0, 20.0), (3.0, 30.0)] {
        let experts = part((1.0, 2.0), on_cpu, PairedClass::First);
        let classes = [experts, part((device, 9.0), on_device, PairedClass::Second)];
        let found = best_placement(&classes, &limits).expect("a placement");
        let (_, fractions) = best_fractions(&classes, &limits, 0).expect("a solution");
        assert!((found.seconds - seconds).abs() < 1e-9 && (fractions - seconds).abs() < 1e-6, "{found:?}");
    }
}

#[test]
fn experts_stay_in_memory_where_little_is_multiplied_for_a_byte() {
    let part = |bytes: u64, device: f64, cpu: f64| PartClass {
        bytes,
        device_bytes: bytes,
        sent_bytes: bytes,
        read_bytes: bytes,
        slot_bytes: bytes,
        parts: 16,
        seconds: (device, cpu),
        places: [true; PLACES],
        pair: None,
    };
    // Of experts a token reads a few: a device saves little for their bytes.
    let classes = [part(50_000_000, 1e-4, 2.5e-3), part(400_000_000, 1e-4, 6e-4)];
    let limits = SearchLimits { device: 1_000_000_000, ram: 8_000_000_000, disk: 1e9, link: 10e9 };
    let found = best_placement(&classes, &limits).expect("a placement");
    assert_eq!(found.counts, [[16, 0, 0, 0, 0], [0, 16, 0, 0, 0]]);
    // With many rows a CPU takes far longer than the link: what does not fit on the device is sent to it.
    let classes = [part(50_000_000, 1e-3, 0.2), part(400_000_000, 5e-3, 1.6)];
    let found = best_placement(&classes, &limits).expect("a placement");
    let sent: usize = found.counts.iter().map(|n| n[UPLOAD]).sum();
    assert!(sent > 12 && found.seconds < 1.0, "{found:?}");
}

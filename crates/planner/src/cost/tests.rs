//! The cost of steps against arithmetic by hand and a slow twin.

use super::*;
use crate::hardware::ProductSpeed;
use lamina_base::DType;
use lamina_plan::Reach;

fn hardware() -> Hardware {
    let speed = ProductSpeed { points: vec![(1, 1e-11), (64, 64e-11)] };
    Hardware {
        ram: 1e10,
        products: vec![(DType::Q8_0, speed)],
        attend_one: 1e-10,
        attend_many: 1e-11,
        operator: 0.0,
        threads: 2,
    }
}

fn matrix(bytes: f64, macs: f64) -> OpWork {
    let product = ProductWork { dtype: DType::Q8_0, matrices: 1, chosen: 1, bytes, macs };
    OpWork { rows: RowKind::All, products: vec![product], past: PastWork::None, numbers: 0.0 }
}

fn model(extents: Vec<f64>) -> CostModel {
    let works = extents.iter().map(|_| matrix(1e7, 1e7)).collect();
    CostModel {
        hardware: hardware(),
        disk: 1e9,
        works,
        extents,
        layers: vec![],
        buffers: 2,
        experts: None,
        vocab: 0,
        device: None,
    }
}

fn decoding(sequences: usize) -> CostShape {
    CostShape { sequences, rows: 1, depth: 0, logits: 1 }
}

#[test]
fn layers_on_disk_take_its_time() {
    let layer = LayerOnDisk { reach: Reach::All, stride: 1e6, again: false, stores: true };
    let layers = vec![Some(layer), None];
    let shape = CostShape { depth: 100, ..decoding(3) };
    let cost = CostModel { layers, ..model(vec![0.0; 2]) }.step(&shape);
    // Four pages of each sequence are read, and one is written.
    assert_eq!((cost.cache_read, cost.cache_written, cost.streamed), (12e6, 3e6, 12e6));
    assert!((cost.reading - 15e-3).abs() < 1e-12 && cost.seconds >= cost.reading - 1e-12, "{cost:?}");
}

#[test]
fn few_rows_wait_for_memory_and_many_for_the_cores() {
    let model = model(vec![0.0; 10]);
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(close(model.step(&decoding(1)).seconds, 10.0 * 1e-3));
    assert!(close(model.step(&decoding(8)).seconds, 10.0 * 1e-3));
    assert!(close(model.step(&decoding(64)).seconds, 10.0 * 64e-4));
}

/// The same reads and waits, told one event after the other.
fn slow_twin(model: &CostModel, times: &[f64]) -> f64 {
    let reads: Vec<(usize, f64)> = (0..2 * times.len())
        .map(|i| (i, model.extents[i % times.len()]))
        .filter(|(_, bytes)| *bytes > 0.0)
        .collect();
    let (mut arrived, mut used) = (vec![None; 2 * times.len()], vec![None; 2 * times.len()]);
    let (mut disk, mut now, mut ends) = (0.0f64, 0.0f64, vec![]);
    let mut next = 0;
    for op in 0..2 * times.len() {
        // Whatever can be read until this operator runs.
        while next < reads.len() {
            let free = match next.checked_sub(model.buffers) {
                None => Some(0.0),
                Some(before) => used[reads[before].0],
            };
            let Some(free) = free else { break };
            disk = disk.max(free) + reads[next].1 / model.disk;
            arrived[reads[next].0] = Some(disk);
            next += 1;
        }
        if model.extents[op % times.len()] > 0.0 {
            now = now.max(arrived[op].expect("read by now"));
        }
        now += times[op % times.len()];
        used[op] = Some(now);
        ends.push(now);
    }
    ends[2 * times.len() - 1] - ends[times.len() - 1]
}

#[test]
fn the_simulation_is_that_of_its_slow_twin() {
    let mut seed = 7u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % n
    };
    for round in 0..200 {
        let ops = 3 + round % 17;
        let extents: Vec<f64> =
            (0..ops).map(|_| if random(3) == 0 { 0.0 } else { random(9) as f64 * 1e6 }).collect();
        let times: Vec<f64> = (0..ops).map(|_| random(9) as f64 * 1e-3).collect();
        let model = CostModel { buffers: 1 + random(4) as usize, ..model(extents) };
        let (fast, slow) = (model.paced(&times, &decoding(1), 0.0), slow_twin(&model, &times));
        assert!((fast - slow).abs() < 1e-12, "round {round}: {fast} and {slow}");
    }
}

#[test]
fn a_pass_takes_at_least_as_long_as_its_reads_and_its_work() {
    for streamed in [0, 1, 3, 10] {
        let extents: Vec<f64> = (0..10).map(|i| if i < streamed { 1e7 } else { 0.0 }).collect();
        let cost = model(extents).step(&decoding(1));
        assert!(cost.seconds >= cost.reading - 1e-12 && cost.seconds >= cost.computing - 1e-12, "{cost:?}");
        assert!(cost.seconds <= cost.reading + cost.computing + 1e-12, "{cost:?}");
        assert_eq!(cost.streamed, streamed as f64 * 1e7);
    }
}

/// Weights of operators that are alike are on the link while the operator before is computed.
#[test]
fn what_is_sent_costs_the_longer_of_link_and_computing() {
    for (rate, seconds) in [(1e12, 10.0 * 1e-3), (1e9, 10.0 * 1e-2), (5e9, 10.0 * 2e-3)] {
        let device = DeviceCost::of_sent(hardware(), rate, vec![1e7; 10]);
        let cost = CostModel { device: Some(device), ..model(vec![0.0; 10]) }.step(&decoding(1));
        assert!((cost.seconds / seconds - 1.0).abs() < 1e-9, "{cost:?} at {rate}");
        assert!((cost.sending - 1e8 / rate).abs() < 1e-12);
    }
    // Between them others are computed: the link has time for that, too.
    let sent = (0..10).map(|i| if i % 2 == 0 { 1e7 } else { 0.0 }).collect();
    let device = DeviceCost::of_sent(hardware(), 5e9, sent);
    let cost = CostModel { device: Some(device), ..model(vec![0.0; 10]) }.step(&decoding(1));
    assert!((cost.seconds / 1e-2 - 1.0).abs() < 1e-9, "{cost:?}");
}

/// Few experts are sent, but only when rows have chosen them.
#[test]
fn experts_that_are_sent_one_by_one_are_waited_for() {
    let stack = ProductWork { dtype: DType::Q8_0, matrices: 100, chosen: 10, bytes: 1e6, macs: 1e6 };
    let work = OpWork { products: vec![stack], ..matrix(0.0, 0.0) };
    let cost = |rows| {
        let device = DeviceCost::of_sent(hardware(), 1e9, vec![1e8; 4]);
        let works = vec![work.clone(); 4];
        let model = CostModel { works, device: Some(device), ..model(vec![0.0; 4]) };
        model.step(&CostShape { rows, ..decoding(1) })
    };
    let one = cost(1);
    // A tenth of four times 0.1 s, beside which nothing is computed: each takes a tenth of 100 times 0.1 ms.
    assert!((one.sending - 0.04).abs() < 1e-12 && (one.seconds - 0.044).abs() < 1e-9, "{one:?}");
    // Of all of them, layers are sent ahead.
    let many = cost(64);
    assert!((many.sending - 0.4).abs() < 1e-12 && many.seconds < many.sending + 1e-9, "{many:?}");
}

/// Experts that come from disk are sent when rows have chosen them, however many these are, and computed with when all are
/// there.
#[test]
fn experts_from_disk_are_read_and_sent_and_then_computed_with() {
    let stack = ProductWork { dtype: DType::Q8_0, matrices: 100, chosen: 10, bytes: 1e6, macs: 1e6 };
    let works = vec![OpWork { products: vec![stack], ..matrix(0.0, 0.0) }];
    let device = DeviceCost::of_sent(hardware(), 1e9, vec![1e8]);
    let cost = |rows| {
        let hits = ExpertHits::new(50, &[100], 10, None);
        let experts = Some(CachedExperts { hits, serves: vec![true] });
        let model =
            CostModel { works: works.clone(), experts, device: Some(device.clone()), ..model(vec![0.0]) };
        model.step(&CostShape { rows, ..decoding(1) })
    };
    let one = cost(1);
    // 4.5 of 10 MB are missing, at 1 GB/s, and all ten are sent as fast.
    assert!((one.waiting - 4.5e-3).abs() < 1e-9 && (one.sending - 1e-2).abs() < 1e-9, "{one:?}");
    assert!((one.seconds - one.waiting - one.sending - one.computing).abs() < 1e-9, "{one:?}");
    let many = cost(16);
    let chosen = 1.0 - 0.9_f64.powi(16);
    assert!(
        (many.sending - 0.1 * chosen).abs() < 1e-9 && many.seconds > many.waiting + many.sending,
        "{many:?}"
    );
}

/// Operators of 1 ms in turn on both machines: they compute at the same time but where rows are read.
#[test]
fn a_device_computes_until_the_host_reads_of_it() {
    let runs: Vec<bool> = (0..10).map(|i| i % 2 == 0).collect();
    let seconds = |to: &dyn Fn(usize) -> Option<TierSide>| {
        let to = (0..10).map(to).collect();
        let device = DeviceCost::of_runs(hardware(), 1e9, runs.clone(), to);
        CostModel { device: Some(device), ..model(vec![0.0; 10]) }.step(&decoding(1)).seconds
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    // Nothing crosses: each computes its half.
    assert!(close(seconds(&|_| None), 5e-3));
    // Rows cross before every operator: they alternate.
    let side = |i: usize| if runs[i] { TierSide::Device } else { TierSide::Host };
    assert!(close(seconds(&|i| Some(side(i))), 10.0 * (1e-3 + 20e-6)));
    // The same, but the host reads what the device has computed before the device gets more: they do not.
    let early = |i: usize| i.is_multiple_of(2).then_some(TierSide::Host);
    assert!(close(seconds(&early), 5.0 * 1e-3 + 5.0 * 20e-6), "{}", seconds(&early));
}

#[test]
fn experts_are_read_as_far_as_rows_choose_them() {
    let stack = ProductWork { dtype: DType::Q8_0, matrices: 128, chosen: 8, bytes: 1e6, macs: 1e6 };
    assert!((stack.touched(1.0) - 8.0).abs() < 1e-9);
    assert!(stack.touched(16.0) > 64.0 && stack.touched(16.0) < 128.0);
    assert!((stack.touched(1e4) - 128.0).abs() < 1e-6);
}

#[test]
fn missing_experts_are_waited_for_beside_what_is_found() {
    let stack = ProductWork { dtype: DType::Q8_0, matrices: 100, chosen: 10, bytes: 1e6, macs: 1e6 };
    let work = OpWork { products: vec![stack], ..matrix(0.0, 0.0) };
    let with = |slots| {
        let hits = ExpertHits::new(slots, &[100], 10, None);
        let experts = Some(CachedExperts { hits, serves: vec![true] });
        CostModel { works: vec![work.clone()], experts, ..model(vec![0.0]) }.step(&decoding(1))
    };
    let whole = with(100);
    assert_eq!((whole.waiting, whole.streamed), (0.0, 0.0));
    let half = with(50);
    // 45 % are missing: 4.5 MB at 1 GB/s, while 55 % of the others are computed.
    assert!((half.streamed - 4.5e6).abs() < 1.0, "{half:?}");
    assert!((half.waiting - (4.5e-3 - 0.55 * half.computing)).abs() < 1e-9, "{half:?}");
    assert!((half.seconds - half.computing - half.waiting).abs() < 1e-12, "{half:?}");
    let few = with(5);
    assert!(
        (few.waiting - few.streamed / 1e9).abs() < 1e-12 && few.streamed > 9e6,
        "passes through: {few:?}"
    );
}

#[test]
fn windows_end_what_attention_reads() {
    let attend = |reach| {
        let sparsity = AttentionSparsity::NONE;
        let past = PastWork::Positions { reach, bytes: (5e2, 5e2), macs: 1e3, sparsity };
        let work = OpWork { rows: RowKind::All, products: vec![], past, numbers: 0.0 };
        let model = CostModel { works: vec![work], ..model(vec![0.0]) };
        [100, 10_000].map(|depth| model.step(&CostShape { depth, ..decoding(1) }).seconds)
    };
    let [near, far] = attend(Reach::All);
    assert!(far > 90.0 * near);
    let [near, far] = attend(Reach::Window(64));
    assert_eq!(near, far);
}

#[test]
fn what_sparse_attention_leaves_out_takes_no_time() {
    let seconds = |sparsity, rows| {
        let past = PastWork::Positions { reach: Reach::All, bytes: (5e2, 5e2), macs: 1e3, sparsity };
        let work = OpWork { rows: RowKind::All, products: vec![], past, numbers: 0.0 };
        let model = CostModel { works: vec![work], ..model(vec![0.0]) };
        model.step(&CostShape { depth: 64_000, rows, ..decoding(1) }).seconds
    };
    let whole = AttentionSparsity::NONE;
    let values = AttentionSparsity { values: ReadShare::new(0.1), ..whole };
    let prefill = AttentionSparsity { prefill: ReadShare::new(0.1), ..whole };
    let saved = |sparsity, rows| seconds(sparsity, rows) / seconds(whole, rows);
    assert!((saved(values, 1) - 0.55).abs() < 1e-3 && saved(values, 512) == 1.0);
    // A tenth of the blocks, the mean of each, and the three that are near.
    assert!((saved(prefill, 512) - 0.11).abs() < 0.005 && saved(prefill, 1) == 1.0);
}

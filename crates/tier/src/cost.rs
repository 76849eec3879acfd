//! Predicts the time of a step: work over speeds, and waiting for the disk, operator by operator.

use crate::{
    cost_shape::CostShape,
    device_cost::DeviceCost,
    hardware::Hardware,
    hits::ExpertHits,
    layer_cost::LayerOnDisk,
    sender::sent_share,
    tier_side::TierSide,
    work::{OpWork, PastWork, ProductWork},
};
use lamina_plan::{AttentionSparsity, ReadShare, RowKind, SPARSE_BLOCK};
use std::collections::HashMap;

/// Core seconds that reading a byte from disk takes away from computing (O_DIRECT: 0.05 to 0.10 per GB).
const READ_CORE_SECONDS: f64 = 0.08e-9;
/// Seconds that the host takes for a logit of a row: masks, samplers.
const LOGIT_SECONDS: f64 = 1e-9;
/// The memory's bandwidth that the disk leaves to the kernels at least.
const LEAST_RAM_SHARE: f64 = 0.3;
/// How often bandwidth and time are brought into agreement: the second round changes little, the third nothing.
const ROUNDS: usize = 3;

/// Time of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepCost {
    /// Seconds from one step to the next.
    pub seconds: f64,
    /// Seconds of computing, on a device and on the host: these may compute at the same time.
    pub computing: f64,
    /// Seconds that mixtures wait for experts: nobody knows before which they need.
    pub waiting: f64,
    /// Seconds that the disk reads and writes.
    pub reading: f64,
    /// Bytes that are read from disk.
    pub streamed: f64,
    /// Of these, bytes of the cache.
    pub cache_read: f64,
    /// Bytes of the cache that are written to disk.
    pub cache_written: f64,
    /// Seconds that weights are on their way to a device.
    pub sending: f64,
}

/// What an operator reads of experts that are not in memory: known when rows are routed, and waited for.
#[derive(Clone, Copy, Debug, Default)]
struct MissedExperts {
    bytes: f64,
    /// Share of the operator's computing that goes on meanwhile: that of the experts that were found.
    beside: f64,
}

impl MissedExperts {
    /// Seconds that an operator waits which computes for `time`.
    fn wait(&self, time: f64, disk: f64) -> f64 {
        (self.bytes / disk.max(1.0) - self.beside * time).max(0.0)
    }
}

/// What a model does in a step, and how fast the machine is.
#[derive(Clone, Debug)]
pub struct CostModel {
    /// Speeds.
    pub hardware: Hardware,
    /// Bytes per second of the disk.
    pub disk: f64,
    /// Work of the operators, in order.
    pub works: Vec<OpWork>,
    /// Bytes that are read from disk before each operator; 0 where its weights are in memory.
    pub extents: Vec<f64>,
    /// Layers of the cache that are read from disk, each before its first operator; empty where none is.
    pub layers: Vec<Option<LayerOnDisk>>,
    /// Extents that are read ahead at most.
    pub buffers: usize,
    /// Experts that are read when rows ask for them; none where all are in memory.
    pub experts: Option<ExpertHits>,
    /// Logits of a row.
    pub vocab: usize,
    /// What a device beside the host computes of it.
    pub device: Option<DeviceCost>,
}

impl CostModel {
    /// Time of a step of this shape, when others like it went before.
    pub fn step(&self, shape: &CostShape) -> StepCost {
        let runs = |work: &OpWork| shape.count(work.rows) > 0.0;
        let pairs = self.works.iter().zip(&self.extents);
        let dense: f64 = pairs.filter(|(work, _)| runs(work)).map(|(_, bytes)| bytes).sum();
        let missed = self.missed(shape);
        let sent: f64 =
            (0..self.works.len()).filter(|i| runs(&self.works[*i])).map(|i| self.sending(i, shape)).sum();
        let cache_read: f64 = self.layers.iter().flatten().map(|layer| layer.read(shape)).sum();
        let cache_written: f64 = self.layers.iter().flatten().map(|layer| layer.written(shape)).sum();
        let streamed = dense + cache_read + missed.iter().map(|m| m.bytes).sum::<f64>();
        let moved = streamed + cache_written;
        let host = shape.count(RowKind::Logits) * self.vocab as f64 * LOGIT_SECONDS;
        let mut ram = self.hardware.ram;
        let mut cost = StepCost::default();
        for _ in 0..ROUNDS {
            let slowed = match cost.seconds > 0.0 {
                true => 1.0 + READ_CORE_SECONDS * moved / (cost.seconds * self.hardware.threads as f64),
                false => 1.0,
            };
            let time = |(i, work): (usize, &OpWork)| match self.device.as_ref() {
                Some(device) if device.runs(i) => {
                    self.time(work, shape, &device.hardware, device.hardware.ram)
                }
                _ => slowed * self.time(work, shape, &self.hardware, ram),
            };
            let mut times: Vec<f64> = self.works.iter().enumerate().map(time).collect();
            let computing = times.iter().sum::<f64>() + host;
            let waits = times.iter().zip(&missed).map(|(time, missed)| missed.wait(*time, self.disk));
            let waits: Vec<f64> = waits.collect();
            times.iter_mut().zip(&waits).for_each(|(time, wait)| *time += wait);
            let waiting = waits.iter().sum();
            let waits = self.device.is_some() || moved + sent > 0.0;
            let seconds = if waits { self.paced(&times, shape, host) } else { computing };
            let reading = moved / self.disk.max(1.0);
            cost = StepCost {
                seconds,
                computing,
                waiting,
                reading,
                streamed,
                cache_read,
                cache_written,
                sending: sent,
            };
            ram = (self.hardware.ram - moved / seconds.max(1e-9)).max(LEAST_RAM_SHARE * self.hardware.ram);
        }
        cost
    }

    /// What each operator reads of experts that are not in memory.
    fn missed(&self, shape: &CostShape) -> Vec<MissedExperts> {
        // Mixtures of a model are alike, and the law of hits is asked once for each kind of them.
        let mut known = HashMap::new();
        let one = |work: &OpWork| {
            let rows = shape.count(work.rows);
            let stacks = || work.products.iter().filter(|p| p.chosen < p.matrices);
            let (Some(hits), Some(stack)) = (&self.experts, stacks().next()) else {
                return MissedExperts::default();
            };
            let found =
                *known.entry((rows as usize, stack.chosen)).or_insert_with(|| hits.of(rows, stack.chosen));
            let bytes = stacks().map(|p| p.touched(rows) * p.bytes).sum::<f64>();
            let beside = if found.passes_through { 0.0 } else { found.share };
            MissedExperts { bytes: (1.0 - found.share) * bytes, beside }
        };
        self.works.iter().map(one).collect()
    }

    /// Seconds of operator `i` where the device computes it, or else the host, with its weights in the memory of that.
    pub fn operator_seconds(&self, i: usize, shape: &CostShape, on_device: bool) -> f64 {
        let device = self.device.as_ref().map(|d| &d.hardware).filter(|_| on_device);
        let hardware = device.unwrap_or(&self.hardware);
        self.time(&self.works[i], shape, hardware, hardware.ram)
    }

    /// Seconds of an operator whose weights are in memory.
    fn time(&self, work: &OpWork, shape: &CostShape, hardware: &Hardware, ram: f64) -> f64 {
        let rows = shape.count(work.rows);
        if rows == 0.0 {
            return 0.0;
        }
        let products: f64 = work.products.iter().map(|p| product(p, rows, hardware, ram)).sum();
        let moved = 4.0 * work.numbers * rows / ram;
        products + past(&work.past, shape, hardware, ram) + moved + hardware.operator
    }

    /// The share of the weights of operator `i` that is sent where they are sent: of a mixture, experts that rows choose.
    pub fn sent_share(&self, i: usize, shape: &CostShape) -> f64 {
        let work = &self.works[i];
        let stack = work.products.iter().find(|p| p.chosen < p.matrices);
        stack.map_or(1.0, |p| sent_share(shape.count(work.rows), p.chosen, p.matrices))
    }

    /// Seconds that the weights of operator `i` are on the link.
    fn sending(&self, i: usize, shape: &CostShape) -> f64 {
        let sent = |device: &DeviceCost| device.sent(i) / device.link.max(1.0);
        match self.device.as_ref().map_or(0.0, sent) {
            0.0 => 0.0,
            seconds => seconds * self.sent_share(i, shape),
        }
    }

    /// Bytes that the disk moves for operator `i`: its weights, and its layer of the cache, which is written behind it.
    fn moved(&self, i: usize, shape: &CostShape) -> f64 {
        let layer = self.layers.get(i).copied().flatten();
        self.extents[i] + layer.map_or(0.0, |layer| layer.read(shape) + layer.written(shape))
    }

    /// Seconds of what crosses to `side` before operator `i`.
    fn crossing(&self, i: usize, side: TierSide, shape: &CostShape) -> f64 {
        self.device.as_ref().map_or(0.0, |device| device.crossing(i, side, |kind| shape.count(kind)))
    }

    /// Seconds from the end of one pass to the end of the next, where operators wait for their extents: reads go on
    /// across passes, one after the other, each as soon as a buffer is free. Weights are sent to a device while it computes
    /// the operator before; those that are read from disk too, as soon as they are there. A device computes beside the host
    /// until that reads rows of it.
    fn paced(&self, times: &[f64], shape: &CostShape, host: f64) -> f64 {
        let (mut clocks, mut before) = (PassClocks::default(), 0.0);
        for _ in 0..2 {
            before = clocks.host.max(clocks.device);
            clocks.host = before + host;
            for (i, (work, time)) in self.works.iter().zip(times).enumerate() {
                let read = self.crossing(i, TierSide::Host, shape);
                if read > 0.0 {
                    clocks.host = clocks.host.max(clocks.device) + read;
                }
                if shape.count(work.rows) > 0.0 {
                    self.run(i, *time, shape, &mut clocks);
                }
            }
        }
        clocks.host.max(clocks.device) - before
    }

    /// Runs operator `i`, which takes `time`.
    fn run(&self, i: usize, time: f64, shape: &CostShape, clocks: &mut PassClocks) {
        let (bytes, sending) = (self.moved(i, shape), self.sending(i, shape));
        if bytes > 0.0 {
            let free = clocks.freed.len().checked_sub(self.buffers.max(1)).map_or(0.0, |i| clocks.freed[i]);
            clocks.disk = clocks.disk.max(free) + bytes / self.disk.max(1.0);
            clocks.host = clocks.host.max(clocks.disk);
        }
        let on_device = self.device.as_ref().is_some_and(|device| device.runs(i));
        let written = self.crossing(i, TierSide::Device, shape);
        let mut begins = if on_device { clocks.host.max(clocks.device) + written } else { clocks.host };
        if sending > 0.0 {
            let there = if bytes > 0.0 { clocks.disk.max(clocks.begun) } else { clocks.begun };
            // Which experts are sent is read of the device.
            let there = if self.sent_share(i, shape) < 1.0 { begins } else { there };
            clocks.link = clocks.link.max(there) + sending;
            begins = begins.max(clocks.link);
            clocks.begun = begins;
        }
        *(if on_device { &mut clocks.device } else { &mut clocks.host }) = begins + time;
        if bytes > 0.0 {
            clocks.freed.push(begins + time);
        }
    }
}

/// Until when each part of a machine is busy.
#[derive(Default)]
struct PassClocks {
    /// The host computes, or waits for rows of the device or for the disk.
    host: f64,
    /// The device computes.
    device: f64,
    disk: f64,
    link: f64,
    /// When the last operator began whose weights are sent: from then on those of the next one are.
    begun: f64,
    /// When each buffer of what was read became free.
    freed: Vec<f64>,
}

/// Seconds of products with the matrices that rows touch.
fn product(product: &ProductWork, rows: f64, hardware: &Hardware, ram: f64) -> f64 {
    let touched = product.touched(rows);
    // Rows of each matrix that has any.
    let each = rows * product.chosen as f64 / touched.max(1e-9);
    let speed = hardware.product(product.dtype);
    let multiply = speed.map_or(0.0, |s| s.seconds(each) * product.macs);
    touched * multiply.max(product.bytes / ram)
}

/// Seconds of attention over stored keys, or of a recurrent state.
fn past(past: &PastWork, shape: &CostShape, hardware: &Hardware, ram: f64) -> f64 {
    let (sequences, rows) = (shape.sequences as f64, shape.rows as f64);
    match *past {
        PastWork::None => 0.0,
        PastWork::Positions { reach, bytes: (keys, values), macs, sparsity } => {
            let seen = |row: usize| {
                let at = shape.depth + row;
                (at + 1 - reach.first(at)) as f64
            };
            let last = seen(shape.rows - 1);
            if shape.rows == 1 {
                let share = sparsity.values.map_or(1.0, ReadShare::get);
                let multiply = last * macs * (1.0 + share) / 2.0 * hardware.attend_one;
                return sequences * (last * (keys + share * values) / ram).max(multiply);
            }
            // Rows in the middle attend to as many as all do on average. Together they read all.
            let pairs = rows * (attended(seen(0), sparsity) + attended(last, sparsity)) / 2.0;
            sequences * (last * (keys + values) / ram).max(pairs * macs * hardware.attend_many)
        }
        // A row multiplies a state with its key, its value and its query.
        PastWork::State { numbers } => {
            let read = sequences * 8.0 * numbers / ram;
            read.max(sequences * rows * 3.0 * numbers * hardware.attend_one)
        }
    }
}

/// Positions that a row of a prompt multiplies with, of those that it sees: with sparse blocks, those of the first block, of
/// the last two and of a share of the others, and the mean of each of these others with the query alone.
fn attended(seen: f64, sparsity: AttentionSparsity) -> f64 {
    let far = (seen - 3.0 * SPARSE_BLOCK as f64).max(0.0);
    let blocks = |share: ReadShare| share.get() + 0.5 / SPARSE_BLOCK as f64;
    seen - far + far * sparsity.prefill.map_or(1.0, blocks)
}

#[cfg(test)]
mod tests {
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
            assert!(
                cost.seconds >= cost.reading - 1e-12 && cost.seconds >= cost.computing - 1e-12,
                "{cost:?}"
            );
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
            let experts = Some(ExpertHits::new(slots, &[100], 10, None));
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
}

//! Predicts the time of a step: work over speeds, and waiting for the disk, operator by operator.

use crate::{
    cost_shape::CostShape,
    device_cost::DeviceCost,
    hardware::Hardware,
    hits::ExpertHits,
    layer_cost::LayerOnDisk,
    work::{OpWork, PastWork, ProductWork},
};
use lamina_plan::{AttentionSparsity, ReadShare, RowKind, SPARSE_BLOCK};
use lamina_stream::{TierSide, sent_share};
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

/// Experts that are read when rows ask for them.
#[derive(Clone, Debug)]
pub struct CachedExperts {
    /// How many of those that rows ask for are in memory.
    pub hits: ExpertHits,
    /// Of each operator, whether these are its experts: those of other mixtures lie in memory, or on a device.
    pub serves: Vec<bool>,
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
    pub experts: Option<CachedExperts>,
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
        let one = |(i, work): (usize, &OpWork)| {
            let rows = shape.count(work.rows);
            let stacks = || work.products.iter().filter(|p| p.chosen < p.matrices);
            let cached = self.experts.as_ref().filter(|experts| experts.serves[i]);
            let (Some(CachedExperts { hits, .. }), Some(stack)) = (cached, stacks().next()) else {
                return MissedExperts::default();
            };
            let found =
                *known.entry((rows as usize, stack.chosen)).or_insert_with(|| hits.of(rows, stack.chosen));
            let bytes = stacks().map(|p| p.touched(rows) * p.bytes).sum::<f64>();
            // A device computes with those that are sent once all of them are there.
            let at_once = found.passes_through || self.runs_on_device(i);
            let beside = if at_once { 0.0 } else { found.share };
            MissedExperts { bytes: (1.0 - found.share) * bytes, beside }
        };
        self.works.iter().enumerate().map(one).collect()
    }

    fn runs_on_device(&self, i: usize) -> bool {
        self.device.as_ref().is_some_and(|device| device.runs(i))
    }

    /// True where the experts of operator `i` are known to be needed only once rows are routed.
    fn is_cached(&self, i: usize) -> bool {
        self.experts.as_ref().is_some_and(|experts| experts.serves[i])
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
        if self.is_cached(i) {
            return self.read_share(i, shape);
        }
        let stack = self.works[i].products.iter().find(|p| p.chosen < p.matrices);
        stack.map_or(1.0, |p| sent_share(shape.count(self.works[i].rows), p.chosen, p.matrices))
    }

    /// The share of the weights of operator `i` that a step reads of them on disk: of a mixture, experts that rows choose, as
    /// if none of them was found in memory.
    pub fn read_share(&self, i: usize, shape: &CostShape) -> f64 {
        let stack = self.works[i].products.iter().find(|p| p.chosen < p.matrices);
        stack.map_or(1.0, |p| p.touched(shape.count(self.works[i].rows)) / p.matrices as f64)
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
        let on_device = self.runs_on_device(i);
        let written = self.crossing(i, TierSide::Device, shape);
        let mut begins = if on_device { clocks.host.max(clocks.device) + written } else { clocks.host };
        if sending > 0.0 {
            let there = if bytes > 0.0 { clocks.disk.max(clocks.begun) } else { clocks.begun };
            // Which experts are sent is read of the device.
            let routed = self.is_cached(i) || self.sent_share(i, shape) < 1.0;
            let there = if routed { begins } else { there };
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
mod tests;

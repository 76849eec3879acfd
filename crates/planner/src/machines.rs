//! Forecast of one model over several machines: tokens per second by bytes read, multiply-adds and rounds over the link.
//!
//! Nothing here was measured on several machines: a formula over a host's and a link's figures. Ranks (a model cut over
//! machines) are not among what Lamina runs today; replicas (the whole model on each machine) are, so both are foretold.

use crate::error::{PlannerError, Result};

#[cfg(test)]
mod tests;

/// Seconds of a step that do not depend on the model: sampling, text, the batch's way to the ranks.
const HOST_SECONDS: f64 = 1e-3;
/// Rows of a chunk of a prompt.
const CHUNK: usize = 512;
/// Part of the multiply-adds of a host that products of whole prompts reach.
const PROMPT_SPEED: f64 = 0.6;
/// Part of a host's memory that weights and cache may take.
const MEMORY_PART: f64 = 0.9;
/// Bytes of a number that ranks exchange.
const NUMBER: f64 = 4.0;
/// Pieces that a sum is cut into: ranks of a layer own whole subtrees of them.
const PIECES: usize = 8;

/// A link between ranks: what a round takes, and what a byte takes.
#[derive(Clone, Debug, PartialEq)]
pub struct RankLink {
    /// Its name, or the figures that it was given by.
    pub name: String,
    /// Seconds of a round without bytes.
    pub alpha: f64,
    /// Bytes per second, one way.
    pub beta: f64,
}

/// Links by name, with their seconds of a round and bytes per second: assumed, but for memory.
pub const RANK_LINKS: [(&str, f64, f64); 5] = [
    ("sockets", 4e-6, 20e9),
    ("1GbE", 90e-6, 0.115e9),
    ("10GbE", 35e-6, 1.15e9),
    ("25GbE", 25e-6, 2.9e9),
    ("RDMA", 5e-6, 11e9),
];

impl RankLink {
    /// The link that `text` names: one of [`RANK_LINKS`], or `ALPHA,BETA` in seconds and bytes per second.
    ///
    /// # Errors
    /// Neither a name of the list nor two positive numbers.
    pub fn read(text: &str) -> Result<RankLink> {
        let known = RANK_LINKS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text));
        if let Some(&(name, alpha, beta)) = known {
            return Ok(RankLink { name: name.into(), alpha, beta });
        }
        let number = |part: &str| part.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0);
        let figures = text.split_once(',').and_then(|(a, b)| number(a).zip(number(b)));
        let Some((alpha, beta)) = figures else {
            let names = RANK_LINKS.map(|(name, ..)| name).join(", ");
            return Err(PlannerError::InvalidRequest(format!(
                "{text} is no link: take {names}, or ALPHA,BETA (seconds of a round, bytes per second), such as 35e-6,1.15e9"
            )));
        };
        Ok(RankLink { name: text.into(), alpha, beta })
    }

    /// Seconds until each of `ranks` has the `bytes` of all: in one round, or in two that send less; the faster one.
    pub fn exchange(&self, ranks: usize, bytes: f64) -> f64 {
        if ranks <= 1 {
            return 0.0;
        }
        let (n, sent) = (ranks as f64, bytes / self.beta);
        let one = self.alpha + (n - 1.0) * sent;
        let two = 2.0 * self.alpha + 2.0 * (n - 1.0) / n * sent;
        one.min(two)
    }
}

/// What the forecast needs to know of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct RankModel {
    /// Bytes of all weights.
    pub weights: f64,
    /// Bytes of weights that one row reads.
    pub row: f64,
    /// Part of `row` that is experts, 0 to 1; 0 for dense models.
    pub expert_part: f64,
    /// Experts of a layer; 1 for dense models.
    pub experts: f64,
    /// Experts that a row uses.
    pub used: f64,
    /// Layers.
    pub layers: f64,
    /// Numbers of a row between layers.
    pub hidden: f64,
    /// Tokens of the vocabulary.
    pub vocabulary: f64,
    /// Bytes of cache of one token, all layers.
    pub cache: f64,
    /// Whether each rank reads the whole cache (latents have no heads to divide).
    pub whole_cache: bool,
    /// Multiply-adds of one row.
    pub macs: f64,
}

impl RankModel {
    /// Bytes of weights that `rows` read together: more rows touch more experts, until all are.
    fn read(&self, rows: f64) -> f64 {
        if self.experts <= 1.0 {
            return self.row;
        }
        let touched = self.experts * (1.0 - (1.0 - self.used / self.experts).powf(rows));
        self.row * (1.0 - self.expert_part) + self.row * self.expert_part * touched / self.used
    }
}

/// What the forecast needs to know of one machine; all are taken to be equal.
#[derive(Clone, Debug, PartialEq)]
pub struct RankHost {
    /// Bytes of memory.
    pub memory: f64,
    /// Bytes per second that weights are read at.
    pub bandwidth: f64,
    /// Multiply-adds per second.
    pub macs: f64,
}

/// How a model is cut: each layer over `tensor` ranks, the layers over `stages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankGrid {
    tensor: usize,
    stages: usize,
}

impl RankGrid {
    /// The grid of `tensor` ranks a layer and `stages` stages.
    ///
    /// # Errors
    /// Ranks of a layer other than 1, 2, 4 or 8, and no stage at all.
    pub fn new(tensor: usize, stages: usize) -> Result<RankGrid> {
        if !PIECES.is_multiple_of(tensor) {
            return Err(PlannerError::InvalidRequest(format!(
                "{tensor} ranks cannot share a layer: sums are cut into {PIECES} pieces, so that 1, 2, 4 or 8 ranks give equal \
                 bits; take one of these, and what is over as stages or as replicas"
            )));
        }
        if stages == 0 {
            return Err(PlannerError::InvalidRequest("a model has at least 1 stage".into()));
        }
        Ok(RankGrid { tensor, stages })
    }

    /// The grid that `machines` make: up to 8 share each layer, multiples of 8 are stages.
    ///
    /// # Errors
    /// Counts that are neither 1, 2, 4 nor a multiple of 8.
    pub fn of(machines: usize) -> Result<RankGrid> {
        match machines > PIECES && machines.is_multiple_of(PIECES) {
            true => RankGrid::new(PIECES, machines / PIECES),
            false => RankGrid::new(machines, 1),
        }
    }

    /// Machines of the grid.
    pub fn machines(self) -> usize {
        self.tensor * self.stages
    }
}

/// Tokens per second over several machines: a forecast, not a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankForecast {
    /// Of one sequence; none where it does not fit.
    pub one: Option<f64>,
    /// Of all sequences that were asked for together; none where they do not fit.
    pub all: Option<f64>,
    /// Of a prompt; none where one sequence does not fit.
    pub prompt: Option<f64>,
}

/// A model on equal machines with a link between them.
#[derive(Clone, Debug)]
pub struct RankQuestion {
    /// The model.
    pub model: RankModel,
    /// Each machine.
    pub host: RankHost,
    /// The link between them.
    pub link: RankLink,
    /// Tokens that lie behind each sequence.
    pub context: usize,
    /// Sequences that decode together.
    pub sequences: usize,
}

impl RankQuestion {
    /// Tokens per second of the model cut by `grid`: what ranks would reach.
    pub fn ranks(&self, grid: RankGrid) -> RankForecast {
        RankForecast {
            one: self.decode(grid, 1),
            all: self.decode(grid, self.sequences),
            prompt: self.fits(grid, 1).then(|| self.prompt(grid)),
        }
    }

    /// Tokens per second of the whole model on each of `machines`, which divide the sequences: what Lamina runs today.
    pub fn replicas(&self, machines: usize) -> RankForecast {
        let alone = RankGrid { tensor: 1, stages: 1 };
        // The fullest replica ends last, and all of them decode at its pace.
        let share = self.sequences.div_ceil(machines.max(1));
        let pace = self.decode(alone, share).map(|tokens| tokens / share.max(1) as f64);
        RankForecast {
            one: self.decode(alone, 1),
            all: pace.map(|each| each * self.sequences as f64),
            prompt: self.fits(alone, 1).then(|| self.prompt(alone)),
        }
    }

    /// Whether weights and the cache of `rows` sequences fit into the machines of `grid`.
    fn fits(&self, grid: RankGrid, rows: usize) -> bool {
        let cache = rows as f64 * self.context as f64 * self.model.cache;
        (self.model.weights + cache) / grid.machines() as f64 <= MEMORY_PART * self.host.memory
    }

    /// Tokens per second of `rows` sequences; with stages, that many groups of them are in flight.
    fn decode(&self, grid: RankGrid, rows: usize) -> Option<f64> {
        if rows == 0 || !self.fits(grid, rows) {
            return None;
        }
        let (model, tensor) = (&self.model, grid.tensor as f64);
        let group = (rows / grid.stages).max(1) as f64;
        let divided = if model.whole_cache { 1.0 } else { tensor };
        let cache = group * self.context as f64 * model.cache / divided;
        let read = (model.read(group) / tensor + cache) / self.host.bandwidth;
        let computed = group * model.macs / tensor / self.host.macs;
        let row = group * model.hidden * NUMBER;
        let logits = group * model.vocabulary * NUMBER / tensor;
        let sent = self.sums(grid, row) + self.link.exchange(grid.tensor, logits);
        let cuts = (grid.stages - 1) as f64 * (self.link.alpha + row / self.link.beta);
        Some(rows as f64 / (read.max(computed) + sent + HOST_SECONDS + cuts))
    }

    /// Tokens per second of a prompt: the exchange of one chunk runs beside the products of the next.
    fn prompt(&self, grid: RankGrid) -> f64 {
        let (model, tensor, rows) = (&self.model, grid.tensor as f64, CHUNK as f64);
        let computed = rows * model.macs / tensor / (PROMPT_SPEED * self.host.macs);
        let read = model.read(rows) / tensor / self.host.bandwidth;
        let sent = self.sums(grid, rows * model.hidden * NUMBER);
        grid.stages as f64 * rows / computed.max(read).max(sent)
    }

    /// Seconds of the two sums of each layer, `bytes` from each rank.
    fn sums(&self, grid: RankGrid, bytes: f64) -> f64 {
        2.0 * self.model.layers * self.link.exchange(grid.tensor, bytes)
    }
}

//! What several machines like this one make of a model: divided into stages or shards, or whole on each of them.

use super::{ForecastQuestion, SpeedForecast, stage_link::StageLink};

/// A model on several machines like this one.
#[derive(Debug, Clone, PartialEq)]
pub struct MachinesForecast {
    /// How many.
    pub machines: usize,
    /// What lies between them.
    pub link: StageLink,
    /// Each with some of the layers; why not where they cannot be divided, or have no room.
    pub stages: Result<StagesForecast, String>,
    /// Each with some rows of every matrix; why not where it cannot be, or has no room.
    pub shards: Result<ShardsForecast, String>,
    /// Decoding by replicas, each with the whole model and its part of the sequences: one for each batch. Empty where it does
    /// not fit into one machine.
    pub replicas: Vec<ReplicasSpeed>,
}

/// Stages of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct StagesForecast {
    /// Layers of each machine, the leader's first.
    pub layers: Vec<usize>,
    /// Bytes that it takes of each machine.
    pub memory: Vec<u64>,
    /// Tokens of context that all of them have room for.
    pub context: usize,
    /// Whether some machine reads weights, experts or layers of the cache from its disk.
    pub streams: bool,
    /// Decoding, one for each batch.
    pub decode: Vec<SpeedForecast>,
    /// Prompts, one for each length.
    pub prefill: Vec<SpeedForecast>,
}

/// Shards of a model (tensor parallel).
#[derive(Debug, Clone, PartialEq)]
pub struct ShardsForecast {
    /// Bytes that it takes of each machine.
    pub memory: Vec<u64>,
    /// Tokens of context that all of them have room for.
    pub context: usize,
    /// How often machines bring together what they have computed in a step.
    pub rounds: usize,
    /// Whether some machine reads weights from its disk.
    pub streams: bool,
    /// Decoding, one for each batch.
    pub decode: Vec<SpeedForecast>,
    /// Prompts, one for each length.
    pub prefill: Vec<SpeedForecast>,
}

/// Decoding by replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicasSpeed {
    /// Sequences of all replicas together.
    pub batch: usize,
    /// Tokens per second of all of them.
    pub tok_s: f64,
}

impl ReplicasSpeed {
    /// The question to one of `machines` that has its part of the sequences.
    pub fn share(question: &ForecastQuestion, machines: usize) -> ForecastQuestion {
        let batch = question.batch.iter().map(|batch| batch.div_ceil(machines)).collect();
        ForecastQuestion { batch, advice: false, machines: vec![], ..question.clone() }
    }

    /// What all of them give where one gives `share`: the fullest one sets the pace.
    pub fn of(question: &ForecastQuestion, share: &[SpeedForecast]) -> Vec<ReplicasSpeed> {
        let one = |(&batch, speed): (&usize, &SpeedForecast)| {
            let each = speed.tok_s / speed.batch.max(1) as f64;
            ReplicasSpeed { batch, tok_s: each * batch as f64 }
        };
        question.batch.iter().zip(share).map(one).collect()
    }
}

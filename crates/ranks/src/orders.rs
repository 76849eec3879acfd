//! What a leader and a rank agree upon before the first step, as JSON.

use crate::{RankError, Result};
use lamina_plan::{KvType, KvTypes, Limits};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the plan of a model follows from, beside its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageModel {
    /// Options by name, as their texts.
    pub options: Vec<(String, String)>,
    /// Adapters by name, with their files, which are at the same place on all machines.
    pub loras: Vec<(String, PathBuf)>,
}

/// What a rank is told to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankOrder {
    /// Send the next frames back, for who measures the connection; another order may come behind them.
    Echo {
        /// How many.
        frames: usize,
    },
    /// Read the headers and say what is there.
    Open(StageModel),
    /// Plan the memory of the operators between two marks of the plan.
    Place {
        /// The mark that the stage begins behind.
        first: usize,
        /// The mark that it ends with.
        last: usize,
    },
    /// Plan the memory of all operators with this rank's rows of each matrix.
    Shard {
        /// Its number; the leader has 0.
        rank: usize,
        /// How many ranks there are, with the leader.
        ranks: usize,
        /// Whether each keeps the heads that it computes alone.
        by_head: bool,
    },
    /// Load them for steps within these limits.
    Load(StageLimits),
}

/// What a rank answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankAnswer {
    /// Frames are sent back from now on.
    Echoes,
    /// What is there.
    Opened(RankAbout),
    /// What its memory holds.
    Placed(StageLimits),
    /// Its stage can be run; a page of each layer group takes so many bytes, and a state.
    Ready {
        /// Bytes of a page of each group.
        pages: Vec<usize>,
        /// Bytes of a state.
        state: usize,
        /// Weights are read from disk in every step.
        streams: bool,
    },
}

/// A rank and its copy of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankAbout {
    /// Checksum of the plan.
    pub plan: u64,
    /// Checksum of headers, of bytes from all over the files, and of adapters.
    pub files: u64,
    /// What computes: rows have the same bits where it is the same.
    pub kernels: String,
    /// Device and instruction set, for people.
    pub device: String,
    /// Bytes of memory that can be had; none where nobody says.
    pub free: Option<u64>,
}

/// What a machine is built for, and how long a sequence may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageLimits {
    /// Longest sequence in tokens.
    pub context: usize,
    /// Most rows of a step.
    pub rows: usize,
    /// Most rows that pass the final norm.
    pub selected: usize,
    /// Most rows that want logits.
    pub logits: usize,
    /// Pages of each layer group.
    pub pages: Vec<usize>,
    /// Recurrent states.
    pub states: usize,
    /// Types of keys and values of each layer group, by name.
    pub kv: Vec<(String, String)>,
    /// Bytes of the stage's weights.
    pub weights: u64,
}

impl StageLimits {
    /// What a machine is built for, with a longest sequence and the bytes of its weights.
    pub fn of(limits: &Limits, context: usize, weights: u64) -> StageLimits {
        let Limits { rows, selected, logits, pages, states, kv } = limits.clone();
        let kv = kv.iter().map(|types| (types.k.to_string(), types.v.to_string())).collect();
        StageLimits { context, rows, selected, logits, pages, states, kv, weights }
    }

    /// What all of a model's stages have room for. `uses` tells of each stage the layer groups that it has layers of, and
    /// whether it has recurrent ones: what it says of others is no bound.
    ///
    /// # Errors
    /// When they store keys and values in different types.
    pub fn least(stages: &[(StageLimits, StageUse)]) -> Result<StageLimits> {
        let mut least = stages[0].0.clone();
        for (limits, _) in stages {
            if limits.kv != least.kv || limits.pages.len() != least.pages.len() {
                let what = format!("they store keys and values as {:?} and {:?}", limits.kv, least.kv);
                return Err(RankError::Told(format!("{what}: say kv_dtype, which all of them can")));
            }
            least.context = least.context.min(limits.context);
            least.rows = least.rows.min(limits.rows);
            least.selected = least.selected.min(limits.selected);
            least.logits = least.logits.min(limits.logits);
        }
        let of_all =
            |pick: &dyn Fn(&(StageLimits, StageUse)) -> Option<usize>| stages.iter().filter_map(pick).min();
        for group in 0..least.pages.len() {
            let pages = of_all(&|(limits, uses)| uses.groups[group].then_some(limits.pages[group]));
            least.pages[group] = pages.unwrap_or(least.pages[group]);
        }
        let states = of_all(&|(limits, uses)| uses.states.then_some(limits.states));
        least.states = states.unwrap_or(least.states);
        Ok(least)
    }

    /// As a machine takes them.
    ///
    /// # Errors
    /// When a type of keys or values is unknown.
    pub fn limits(&self) -> Result<Limits> {
        let read = |text: &str| {
            text.parse::<KvType>().map_err(|e| RankError::Frame(format!("a type of keys or values: {e}")))
        };
        let kv = self.kv.iter().map(|(k, v)| Ok(KvTypes { k: read(k)?, v: read(v)? }));
        Ok(Limits {
            rows: self.rows,
            selected: self.selected,
            logits: self.logits,
            pages: self.pages.clone(),
            states: self.states,
            kv: kv.collect::<Result<_>>()?,
        })
    }
}

/// What a stage stores of sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageUse {
    /// Of each layer group, whether it has layers of it.
    pub groups: Vec<bool>,
    /// It has recurrent layers.
    pub states: bool,
}

//! A machine that computes nothing, and takes as long as one would: its clock goes on by the time of each step.

use crate::trace::{VOCAB, next_token};
use lamina_plan::{
    BackendError, Batch, BatchSeq, Input, KvLayout, KvType, LayerState, Limits, Mark, Plan, Reach, Rows,
    Slot, Step, Ticket, front,
};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Of a prompt: 1,500 tokens a second.
pub const SECONDS_OF_TOKEN: f64 = 1.0 / 1500.0;
/// Of a step, which reads the weights; of each answer in it.
pub const STEP: f64 = 0.020;
pub const ROW: f64 = 0.0015;

thread_local! {
    static NOW: Cell<Instant> = Cell::new(Instant::now());
}

/// The time of the simulation.
pub fn now() -> Instant {
    NOW.get()
}

/// Sets it.
pub fn set_now(at: Instant) {
    NOW.set(at);
}

pub struct NullMachine {
    plan: Plan,
    limits: Limits,
    /// That the last step takes.
    takes: Duration,
    /// The tokens that it chooses.
    chosen: Vec<u32>,
}

impl NullMachine {
    /// With room for so many pages of the cache.
    pub fn new(pages: usize) -> NullMachine {
        let (slot, mut kv) = (Slot(0), KvLayout::default());
        let group = kv.group(Reach::All);
        kv.layers.push(LayerState::Paged { group, kv_heads: 1, dim: 8 });
        let (ops, slots, weights, ropes) = (vec![], vec![], vec![], vec![]);
        let marks = vec![Mark { ops: 0, slot }; 2];
        let (tokens, vocab) = (VOCAB, VOCAB);
        let plan = Plan {
            ops,
            slots,
            weights,
            ropes,
            kv,
            normed: slot,
            logits: slot,
            marks,
            hidden: 8,
            tokens,
            vocab,
        };
        let limits = Limits {
            rows: 512,
            selected: 64,
            logits: 64,
            pages: vec![pages],
            states: 0,
            kv: vec![KvType::F32.into()],
        };
        NullMachine { plan, limits, takes: Duration::ZERO, chosen: vec![] }
    }

    fn row(&self, i: usize) -> Vec<f32> {
        let mut row = vec![0.0; VOCAB];
        row[self.chosen[i] as usize] = 9.0;
        row
    }
}

/// Seconds of a step: weights are read while prompts are computed, and answers come on top.
fn seconds(batch: &Batch) -> f64 {
    let rows = |s: &BatchSeq| s.rows as usize;
    let answers = batch.seqs.iter().filter(|s| rows(s) == 1).count();
    let prompts: usize = batch.seqs.iter().map(rows).filter(|&rows| rows > 1).sum();
    STEP.max(prompts as f64 * SECONDS_OF_TOKEN) + answers as f64 * ROW
}

impl Step for NullMachine {
    fn submit(&mut self, batch: &Batch) -> Result<Ticket, BackendError> {
        self.takes = Duration::from_secs_f64(seconds(batch));
        let choice = |&i: &u32| {
            let row = batch.selected[i as usize] as usize;
            let Input::Token(token) = batch.inputs[row] else { panic!("only tokens are asked for") };
            next_token(token, batch.positions[row][0] as usize)
        };
        self.chosen = batch.logits.iter().map(choice).collect();
        Ok(Ticket::default())
    }

    fn wait(&mut self, _: Ticket) -> Result<&dyn Rows, BackendError> {
        set_now(now() + self.takes);
        Ok(self)
    }

    fn export_page(&self, _: usize, _: u32) -> Result<Vec<u8>, BackendError> {
        unreachable!("not asked for")
    }

    fn import_page(&mut self, _: usize, _: u32, _: &[u8]) -> Result<(), BackendError> {
        unreachable!("not asked for")
    }

    fn export_state(&self, _: u32) -> Result<Vec<u8>, BackendError> {
        unreachable!("not asked for")
    }

    fn import_state(&mut self, _: u32, _: &[u8]) -> Result<(), BackendError> {
        unreachable!("not asked for")
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }

    fn selects_cells(&self) -> bool {
        false
    }

    fn eager(&self) -> bool {
        false
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl Rows for NullMachine {
    fn logits(&self, i: usize, out: &mut Vec<f32>) -> Result<(), BackendError> {
        *out = self.row(i);
        Ok(())
    }

    fn top_k(&self, i: usize, k: usize) -> Result<Vec<(u32, f32)>, BackendError> {
        Ok(front(&self.row(i), k))
    }

    fn normed(&self, _: usize, _: &mut Vec<f32>) -> Result<(), BackendError> {
        unreachable!("not asked for")
    }

    fn tap(&self, _: usize) -> &[f32] {
        &[]
    }

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

//! Speeds of decoding, of prompts and of whole jobs, by the cost model.

use super::{Bottleneck, ForecastQuestion, JobForecast, SpeedForecast};
use crate::{cost::StepCost, cost_shape::CostShape};
use lamina_plan::{Limits, Plan};

/// The cost of a step: of one machine, or of several.
pub type StepTime<'a> = &'a dyn Fn(&CostShape) -> StepCost;

/// From this share of a step's time on, reading is what limits it.
const BOUND: f64 = 0.9;

/// Waiting for experts limits a step where it takes most of its time: it is the disk that is waited for, but it idles while
/// others compute.
fn bound(cost: &StepCost) -> Bottleneck {
    if cost.waiting > 0.5 * cost.seconds {
        Bottleneck::Experts
    } else if cost.reading >= BOUND * cost.seconds {
        Bottleneck::Disk
    } else if cost.sending >= BOUND * cost.seconds {
        Bottleneck::Link
    } else {
        Bottleneck::Computing
    }
}

/// Sequences of `tokens` tokens that the cache holds at once, at most `batch`.
fn running(limits: &Limits, plan: &Plan, tokens: usize, batch: usize) -> usize {
    let groups = plan.kv.groups.iter().zip(&limits.pages);
    let room = groups.map(|(group, &pages)| pages / group.reach.pages(tokens, 1).max(1)).min();
    // Recurrent models keep a state for each sequence.
    let states = if plan.kv.state_len() > 0 { limits.states } else { batch };
    batch.min(room.unwrap_or(batch)).min(states).min(limits.logits).max(1)
}

/// Decoding behind the first prompt, at the middle of the answer.
pub fn decoding(
    step: StepTime<'_>,
    limits: &Limits,
    plan: &Plan,
    question: &ForecastQuestion,
) -> Vec<SpeedForecast> {
    let before = question.before.or(question.prompt.first().copied()).unwrap_or(0);
    let one = |&batch: &usize| {
        let running = running(limits, plan, before + question.gen_tokens, batch);
        let depth = before + question.gen_tokens / 2;
        let cost = step(&CostShape { sequences: running, rows: 1, depth, logits: 1 });
        SpeedForecast {
            tokens: question.gen_tokens,
            batch,
            running,
            tok_s: running as f64 / cost.seconds,
            bound: bound(&cost),
            streamed_bytes: cost.streamed as u64,
            cache_bytes: (cost.cache_read as u64, cost.cache_written as u64),
        }
    };
    question.batch.iter().map(one).collect()
}

/// Seconds of `sequences` prompts of `tokens` tokens behind `before` others, in steps as the machine is made for; and the
/// first step.
fn prompt_seconds(
    step: StepTime<'_>,
    limits: &Limits,
    (before, tokens): (usize, usize),
    sequences: usize,
) -> (f64, StepCost) {
    let (mut seconds, mut done, mut first) = (0.0, 0, None);
    // Whole prompts share a step where it has room for several.
    let beside = (limits.rows / tokens.max(1)).clamp(1, sequences.max(1));
    while done < tokens {
        let rows = limits.rows.min(tokens - done);
        let logits = usize::from(done + rows == tokens);
        let cost = step(&CostShape { sequences: beside, rows, depth: before + done, logits });
        seconds += cost.seconds;
        first.get_or_insert(cost);
        done += rows;
    }
    (seconds * (sequences as f64 / beside as f64), first.unwrap_or_default())
}

/// Prompts of one sequence.
pub fn prompts(step: StepTime<'_>, limits: &Limits, question: &ForecastQuestion) -> Vec<SpeedForecast> {
    let one = |&tokens: &usize| {
        let (seconds, first) = prompt_seconds(step, limits, (question.before.unwrap_or(0), tokens), 1);
        SpeedForecast {
            tokens,
            batch: 1,
            running: 1,
            tok_s: tokens as f64 / seconds,
            bound: bound(&first),
            streamed_bytes: first.streamed as u64,
            cache_bytes: (first.cache_read as u64, first.cache_written as u64),
        }
    };
    question.prompt.iter().filter(|n| **n > 0).map(one).collect()
}

/// Jobs of each batch: all prompts, then all answers; what the cache does not hold at once comes in turns.
pub fn jobs(
    step: StepTime<'_>,
    limits: &Limits,
    plan: &Plan,
    question: &ForecastQuestion,
) -> Vec<JobForecast> {
    let prompt = question.prompt.first().copied().unwrap_or(0);
    let one = |(&batch, speed): (&usize, SpeedForecast)| {
        let (prefill, _) = prompt_seconds(step, limits, (0, prompt), batch);
        let decode = (batch * question.gen_tokens.saturating_sub(1)) as f64 / speed.tok_s;
        let seconds = prefill + decode;
        JobForecast { batch, seconds, tok_s: (batch * question.gen_tokens) as f64 / seconds }
    };
    question.batch.iter().zip(decoding(step, limits, plan, question)).map(one).collect()
}

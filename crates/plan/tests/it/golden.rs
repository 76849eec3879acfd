//! Every family against the logits and the greedy text of its own code.

use crate::common::{
    Golden, Model, Result, argmax, follow, for_each, golden_folders, prefill, relative_error,
};
use lamina_plan::{KvType, Step};
use std::path::Path;

/// Both sides sum float32 products in their own order; deeper disagreement is a fault.
const TOLERANCE: f64 = 1e-4;

/// Gaps between the two best logits below this are ties, as the fixtures' README says.
const TIE: f32 = 0.02;

#[test]
fn logits_and_greedy_text_are_those_of_the_models_own_code() {
    for_each(golden_folders(), check);
}

/// Checkpoints that are made here, so that a fresh clone compares the reference with the CPU's kernels, too.
#[test]
fn made_families_give_the_logits_of_earlier_builds() {
    let (models, want) = (lamina_fixtures::Models::new(), lamina_fixtures::logits());
    for_each(models.all(), |folder| {
        let (mut runner, _) = Model::open(folder)?.runner(KvType::F32)?;
        let logits = prefill(&mut runner, &[lamina_fixtures::tokens(40)])?.swap_remove(0);
        let last = &logits[logits.len() - runner.plan().vocab..];
        let found: Vec<f32> = last.iter().step_by(20).copied().collect();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let error = relative_error(&found, want.get(&*name).map_or(&[], Vec::as_slice));
        if error.is_nan() || error > TOLERANCE {
            return Err(format!("relative error {error:e}").into());
        }
        Ok(format!("error {error:.1e}"))
    });
}

fn check(folder: &Path) -> Result<String> {
    let golden = Golden::open(folder)?;
    compare(&Model::open(folder)?, &golden)
}

fn compare(model: &Model, golden: &Golden) -> Result<String> {
    let (mut runner, unused) = model.runner(KvType::F32)?;
    if !unused.is_empty() {
        return Err(format!("unused tensors: {}", unused.join(" ")).into());
    }
    let logits = prefill(&mut runner, &golden.prompts)?;
    let errors = logits.iter().zip(&golden.logits).map(|(a, b)| relative_error(a, b));
    let error = errors.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
    if error > TOLERANCE {
        return Err(format!("relative error {error:e}").into());
    }
    let steps = greedy(&mut runner, golden, &logits)?;
    let unread = model.checkpoint.config.unread().join(" ");
    Ok(format!("error {error:.1e}, {steps} greedy steps, unread: {unread}"))
}

/// Compares the greedy text up to the first tie; returns the number of tokens compared.
fn greedy(step: &mut dyn Step, golden: &Golden, logits: &[Vec<f32>]) -> Result<usize> {
    let vocab = step.plan().vocab;
    let mut compared = 0;
    for (s, prompt) in golden.prompts.iter().enumerate() {
        let sure = golden.margin[s].iter().take_while(|&&m| m >= TIE).count();
        let want = &golden.greedy[s][..sure];
        let mut text = vec![argmax(&logits[s][logits[s].len() - vocab..])];
        text.extend(follow(step, s, prompt.len(), &want[..sure.saturating_sub(1)])?);
        if text[..sure] != *want {
            return Err(format!("greedy {text:?}, but should be {want:?}").into());
        }
        compared += sure;
    }
    Ok(compared)
}

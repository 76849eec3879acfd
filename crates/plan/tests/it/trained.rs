//! Trained models say what they were trained to say.

use crate::common::{Model, Result, argmax, follow, prefill, shared};
use lamina_plan::{KvType, Step};
use std::path::Path;

/// Tokens of the reference text that are compared; each one takes a step of the slow backend.
const COMPARED: usize = 60;

#[test]
fn a_story_goes_on_as_in_other_engines_from_both_formats() -> Result<()> {
    let Some(folder) = shared("models/stories260k") else { return Ok(()) };
    let reference: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("reference.json"))?)?;
    let ids = |key: &str| -> Vec<u32> {
        let list = reference[key].as_array().into_iter().flatten();
        list.filter_map(|v| v.as_u64()).map(|v| v as u32).collect()
    };
    let (prompt, mut want) = (ids("prompt_ids"), ids("greedy_ids"));
    want.truncate(COMPARED);
    for path in [folder.clone(), folder.join("stories260k-f32.gguf")] {
        assert_eq!(greedy(&path, &prompt, want.len())?, want, "{}", path.display());
    }
    Ok(())
}

/// Greedy text after `prompt`, each token chosen from the model's own last one.
fn greedy(path: &Path, prompt: &[u32], tokens: usize) -> Result<Vec<u32>> {
    let (mut runner, unused) = Model::open(path)?.runner(KvType::F32)?;
    assert!(unused.is_empty(), "unused tensors: {unused:?}");
    let logits = prefill(&mut runner, &[prompt.to_vec()])?;
    let vocab = runner.plan().vocab;
    let mut text = vec![argmax(&logits[0][logits[0].len() - vocab..])];
    while text.len() < tokens {
        let last = text[text.len() - 1];
        text.extend(follow(&mut runner, 0, prompt.len() + text.len() - 1, &[last])?);
    }
    Ok(text)
}

#[test]
fn every_list_of_six_digits_is_sorted() -> Result<()> {
    let Some(folder) = shared("models/gpt-nano-sort") else { return Ok(()) };
    let (mut runner, unused) = Model::open(&folder)?.runner(KvType::F32)?;
    assert!(unused.is_empty(), "unused tensors: {unused:?}");
    for number in 0..3u32.pow(6) {
        let digits: Vec<u32> = (0..6).map(|i| number / 3u32.pow(i) % 3).collect();
        let logits = prefill(&mut runner, std::slice::from_ref(&digits))?;
        let mut sorted = vec![argmax(&logits[0][5 * 3..])];
        while sorted.len() < 6 {
            let last = sorted[sorted.len() - 1];
            sorted.extend(follow(&mut runner, 0, 5 + sorted.len(), &[last])?);
        }
        let mut want = digits.clone();
        want.sort_unstable();
        assert_eq!(sorted, want, "{digits:?}");
    }
    Ok(())
}

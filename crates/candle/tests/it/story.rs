//! Trained models on candle's CPU device: the greedy text of the CPU backend and of other engines, and the same bits for a
//! sequence alone, in company and in chunks.

use crate::runner::{ONCE, runner, tell};
use lamina_candle::{Candle, MatrixForm};
use lamina_cpu::Cpu;
use lamina_fixtures::{packaged, shared};
use lamina_plan::KvType;

/// Two beginnings of one text, and another one.
const PROMPTS: [&[u32]; 3] = [ONCE[0], ONCE[1], &[0, 404, 276]];

#[test]
fn the_built_in_models_text_is_that_of_the_cpu() {
    for kv_type in [KvType::F32, KvType::F16] {
        let candle = runner(&packaged(), Candle::cpu(MatrixForm::Float32), kv_type, false);
        // The CPU rounds the inputs of quantized products to 8 bits; with float32 weights it does not.
        let cpu = runner(&packaged(), Cpu::new(1).expect("a CPU"), kv_type, true);
        let (candle, cpu) = (tell(candle, &PROMPTS, 40, 64), tell(cpu, &PROMPTS, 40, 64));
        for (candle, cpu) in candle.iter().zip(&cpu) {
            assert_eq!(candle.text, cpu.text, "{kv_type}");
        }
    }
}

#[test]
fn a_sequence_has_the_same_bits_alone_in_company_and_in_chunks() {
    for form in [MatrixForm::Float32, MatrixForm::Stored] {
        let run = |prompts: &[&[u32]], chunk| {
            tell(runner(&packaged(), Candle::cpu(form), KvType::F16, false), prompts, 12, chunk)
        };
        let together = run(&PROMPTS, 64);
        for (prompt, told) in PROMPTS.iter().zip(&together) {
            assert_eq!(run(&[prompt], 64)[0], *told, "{form:?}: alone");
            assert_eq!(run(&[prompt], 3)[0], *told, "{form:?}: in chunks");
        }
    }
}

#[test]
fn a_story_goes_on_as_in_other_engines() {
    let Some(folder) = shared("models/stories260k") else { return };
    let reference = std::fs::read_to_string(folder.join("reference.json")).expect("a reference");
    let reference: serde_json::Value = serde_json::from_str(&reference).expect("JSON");
    let ids = |key: &str| -> Vec<u32> {
        let list = reference[key].as_array().into_iter().flatten();
        list.filter_map(|v| v.as_u64()).map(|v| v as u32).collect()
    };
    let (prompt, mut want) = (ids("prompt_ids"), ids("greedy_ids"));
    want.truncate(120);
    for path in [folder.clone(), folder.join("stories260k-f32.gguf")] {
        let candle = runner(&path, Candle::cpu(MatrixForm::Float32), KvType::F32, false);
        let told = tell(candle, &[&prompt], want.len(), 64);
        assert_eq!(told[0].text[prompt.len()..], want, "{}", path.display());
    }
}

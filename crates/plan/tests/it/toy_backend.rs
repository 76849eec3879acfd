//! The contract assumes no shared memory: a backend of a few hundred lines with bytes of its own passes the kit, and
//! generates the text of the reference.

use crate::common::{Model, Result, pages};
use crate::toy::Toy;
use lamina_arch::weights::Weights;
use lamina_oracle::{
    conform::{self, Tolerance, scope},
    reference::Reference,
};
use lamina_plan::{Backend, Batch, KvType, Limits, Runner, Select, Step, Tap};
use std::path::Path;

#[test]
fn the_toy_passes_the_kit_and_its_refusals_are_counted() {
    let report = conform::run_where(|| Toy, Tolerance::default(), scope::of_this_run());
    report.assert();
    let told = ["toy cannot run the operator", "toy cannot run sparse attention"];
    let known = |why: &str| told.iter().any(|begin| why.starts_with(begin));
    assert!(report.refused.iter().all(|(_, why)| known(why)), "{report}");
    // Latent attention, experts and recurrent layers.
    assert!(!report.refused.is_empty() && report.cases > 2 * report.refused.len(), "{report}");
}

/// Greedy tokens after a prompt, and the residual rows after the first layer of each step.
fn story(backend: impl Backend + 'static, model: &Model) -> Result<(Vec<u32>, Vec<f32>)> {
    let weights = Weights::new(&model.checkpoint, model.family, &model.spec);
    let plan = model.plan.clone();
    if let Some(what) = backend.refuses(&plan) {
        return Err(what.into());
    }
    let mut uploaded = vec![];
    for w in &plan.weights {
        let (rows, cols) = w.kind.shape();
        uploaded.push(backend.upload(w, &weights.get(&w.name, rows, cols)?)?);
    }
    let groups = plan.kv.groups.len();
    let (pages_of, kv) = (vec![64; groups], vec![KvType::F32.into(); groups]);
    let limits = Limits { rows: 32, selected: 2, logits: 1, pages: pages_of, states: 0, kv };
    let mut runner = Runner::new(backend, plan, uploaded, limits)?;
    let prompt: Vec<u32> = (0..23).map(|i| (i * 37 + 5) % model.spec.vocab as u32).collect();
    let (mut tokens, mut tapped) = (prompt.clone(), vec![]);
    for step in 0..12 {
        let start = if step == 0 { 0 } else { tokens.len() - 1 };
        let mut batch = Batch::default();
        batch.push(&tokens[start..], start, pages(runner.plan(), 0, prompt.len()), Select::Last);
        // With a tap and without: steps of one shape that are not alike.
        if step % 3 == 1 {
            batch.taps.push(Tap { mark: 1, rows: 0..1 });
        }
        let rows = runner.run(&batch)?;
        (0..batch.taps.len()).for_each(|i| tapped.extend_from_slice(rows.tap(i)));
        let (best, _) = rows.argmax(0)?;
        tokens.push(best);
    }
    Ok((tokens, tapped))
}

#[test]
fn the_toy_generates_the_text_of_the_reference() -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/lamina/models/lamina-tiny.gguf");
    let model = Model::open_file(&file)?;
    let (toy, reference) = (story(Toy, &model)?, story(Reference, &model)?);
    assert_eq!(toy.0, reference.0);
    let close = toy.1.iter().zip(&reference.1).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
    assert!(close && toy.1.len() == 4 * model.spec.hidden, "tapped rows differ");
    Ok(())
}

//! Adapters at run time against adapters merged into the weights, for every matrix of every family.

use crate::common::{Model, Result, folders, for_each, logits, pages, prompts, relative_error};
use lamina_arch::weights::{Tensor, Weights};
use lamina_fixtures::Numbers;
use lamina_oracle::reference::Reference;
use lamina_plan::{
    Backend, Batch, KvType, LORA, Limits, Plan, Runner, Select, Step, WeightKind, adapt, batch::Copy, op::Op,
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Float32 sums in another order, through all layers; a wrong scale or matrix is off by more than a tenth.
const TOLERANCE: f64 = 1e-4;

/// Ranks of the two adapters for the matrix with number `i`: each alone, both, none.
fn ranks(i: usize) -> Vec<usize> {
    [[2, 0], [0, 3], [2, 3], [0, 0]][i % 4].into()
}

const SCALES: [f32; 2] = [0.8, -0.5];

#[test]
fn adapters_at_run_time_are_the_merged_model() {
    for_each(folders(), check);
}

fn check(folder: &Path) -> Result<String> {
    let model = Model::open(folder)?;
    let is_matrix = |k| matches!(k, WeightKind::Matrix { .. });
    let matrices = model.plan.weights.iter().filter(|w| is_matrix(w.kind));
    let ranks: BTreeMap<_, _> = matrices.enumerate().map(|(i, w)| (w.name.clone(), ranks(i))).collect();
    let plan = adapt(model.plan.clone(), &ranks);
    let changed = plan.ops.iter().filter(|op| matches!(op, Op::LowRank(_))).count();
    let want = ranks.values().filter(|r| r.iter().sum::<usize>() > 0).count();
    if changed != want {
        return Err(format!("{changed} products are changed, but {want} matrices have adapters").into());
    }
    let prompt = &prompts(folder)?[0];
    let mut adapted = runner(&model, plan, false)?;
    let mut merged = runner(&model, model.plan.clone(), true)?;
    let base = run(&mut adapted, prompt, &[])?;
    let got = run(&mut adapted, prompt, &SCALES)?;
    let error = relative_error(&got, &run(&mut merged, prompt, &[])?);
    let effect = relative_error(&got, &base);
    if error.is_nan() || error > TOLERANCE || effect < 0.01 {
        return Err(format!("error {error:e}, effect {effect:e}").into());
    }
    if base != run(&mut adapted, prompt, &[0.0, 0.0])? {
        return Err("scale 0 is not none".into());
    }
    Ok(format!("{changed} matrices, effect {effect:.2}, error {error:.1e}"))
}

/// Numbers that depend on the name and the adapter; of both matrices together about a third of a weight's size.
fn numbers(name: &str, adapter: usize, len: usize, size: f32) -> Vec<f32> {
    let seed = name.bytes().fold(adapter as u64 + 7, |h, b| h.wrapping_mul(1_099_511_628_211) ^ u64::from(b));
    let mut numbers = Numbers::seeded(seed);
    (0..len).map(|_| size * numbers.uniform()).collect()
}

/// `[rank x cols]` and `[rows x rank]` of an adapter.
fn pair(name: &str, adapter: usize, rank: usize, rows: usize, cols: usize) -> [Vec<f32>; 2] {
    let a = numbers(&format!("{name} a"), adapter, rank * cols, (1.0 / cols as f32).sqrt());
    [a, numbers(&format!("{name} b"), adapter, rows * rank, 0.5)]
}

/// The model on `plan`; its weights are those of the files, or with the adapters merged into them.
fn runner(model: &Model, plan: Plan, merged: bool) -> Result<Runner> {
    let weights = Weights::new(&model.checkpoint, model.family, &model.spec);
    let is_matrix = |k| matches!(k, WeightKind::Matrix { .. });
    let order: Vec<_> = model.plan.weights.iter().filter(|w| is_matrix(w.kind)).collect();
    let of = |name: &str| {
        let i = order.iter().position(|w| w.name == name).expect("a matrix of the plan");
        let (rows, cols) = order[i].kind.shape();
        let pairs = ranks(i).into_iter().enumerate().filter(|(_, rank)| *rank > 0);
        pairs
            .map(|(adapter, rank)| (adapter, rank, pair(name, adapter, rank, rows, cols)))
            .collect::<Vec<_>>()
    };
    let mut uploaded = vec![];
    for w in &plan.weights {
        let (rows, cols) = w.kind.shape();
        let values = if let Some(name) = w.name.strip_suffix(LORA[0]) {
            of(name).into_iter().flat_map(|(_, _, [a, _])| a).collect()
        } else if let Some(name) = w.name.strip_suffix(LORA[1]) {
            let parts = of(name);
            let row = |r: usize| parts.iter().flat_map(move |(_, rank, [_, b])| &b[r * rank..(r + 1) * rank]);
            (0..rows).flat_map(row).copied().collect()
        } else {
            let mut values = weights.get(&w.name, rows, cols)?.to_f32()?;
            if merged && is_matrix(w.kind) {
                of(&w.name).iter().for_each(|(adapter, rank, [a, b])| {
                    add(&mut values, cols, *rank, SCALES[*adapter], a, b);
                });
            }
            values
        };
        uploaded.push(Reference.upload(w, &Tensor::from_f32(&w.name, rows, cols, &values))?);
    }
    let groups = plan.kv.groups.len();
    let (pages, kv) = (vec![64; groups], vec![KvType::F32.into(); groups]);
    let limits = Limits { rows: 1024, selected: 1024, logits: 1024, pages, states: 2, kv };
    Ok(Runner::new(Reference, plan, uploaded, limits)?)
}

fn add(values: &mut [f32], cols: usize, rank: usize, scale: f32, a: &[f32], b: &[f32]) {
    for (row, b) in values.chunks_exact_mut(cols).zip(b.chunks_exact(rank)) {
        for (factor, a) in b.iter().zip(a.chunks_exact(cols)) {
            row.iter_mut().zip(a).for_each(|(v, a)| *v += scale * factor * a);
        }
    }
}

/// Logits of every position.
fn run(step: &mut dyn Step, prompt: &[u32], scales: &[f32]) -> Result<Vec<f32>> {
    let mut batch = Batch::default();
    let place = lamina_plan::SeqPlace { lora: Arc::from(scales), ..pages(step.plan(), 0, prompt.len()) };
    batch.copies.push(Copy::State { from: None, to: place.state });
    batch.push(prompt, 0, place, Select::All);
    logits(step, &batch)
}

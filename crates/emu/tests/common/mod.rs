//! The built-in model on a backend, without an engine.

use lamina_arch::{
    Family,
    weights::{Tensor, Weights},
};
use lamina_plan::{Backend, Batch, KvType, Limits, Runner, Select, SeqPlace, Step, emit};
use lamina_store::Checkpoint;

/// `Once upon a time`, and how the model goes on: the second sequence begins with both.
const ONCE: [u32; 5] = [0, 452, 474, 259, 403];
pub const THERE_WAS: [u32; 14] = [12, 404, 276, 259, 375, 428, 625, 558, 14, 325, 614, 268, 380, 720];

/// Greedy tokens of two sequences side by side, and the bits of the last logits.
pub fn story<B: Backend>(backend: B, kv_type: KvType, plain: bool) -> ([Vec<u32>; 2], Vec<u32>) {
    let checkpoint = Checkpoint::open(lamina_fixtures::packaged()).expect("the built-in model");
    let family = Family::of(&checkpoint).expect("a family");
    let spec = family.spec(&checkpoint).expect("a spec");
    let weights = Weights::new(&checkpoint, family, &spec);
    let plan = emit(&spec, &|name| weights.has(name));
    assert_eq!(backend.refuses(&plan), None);
    let upload = |w: &lamina_plan::WeightSpec| {
        let (rows, cols) = w.kind.shape();
        let stored = weights.get(&w.name, rows, cols).expect("a weight");
        let float = || Tensor::from_f32(&w.name, rows, cols, &stored.to_f32().expect("decodes"));
        backend.upload(w, &if plain { float() } else { stored.clone() }).expect("uploads")
    };
    let uploaded = plan.weights.iter().map(upload).collect();
    let groups = plan.kv.groups.len();
    let (pages, kv) = (vec![8; groups], vec![kv_type.into(); groups]);
    let limits = Limits { rows: 64, selected: 2, logits: 2, pages, states: 0, kv };
    let mut runner = Runner::new(backend, plan, uploaded, limits).expect("a machine");
    let mut texts = [ONCE.to_vec(), [&ONCE[..], &THERE_WAS[..]].concat()];
    let (mut done, mut last) = ([0; 2], vec![]);
    for _ in 0..40 {
        let mut batch = Batch::default();
        for (s, text) in texts.iter().enumerate() {
            let pages = vec![vec![4 * s as u32, 4 * s as u32 + 1, 4 * s as u32 + 2]; groups];
            let place = SeqPlace { pages, prompt_len: 19, ..SeqPlace::default() };
            batch.push(&text[done[s]..], done[s], place, Select::Last);
        }
        let rows = runner.run(&batch).expect("a step");
        last.clear();
        for (s, text) in texts.iter_mut().enumerate() {
            let mut logits = vec![];
            rows.logits(s, &mut logits).expect("logits");
            last.extend(logits.iter().map(|v| v.to_bits()));
            done[s] = text.len();
            text.push(rows.argmax(s).expect("a token").0);
        }
    }
    (texts, last)
}

//! Looks inside of steps on the emulated GPU: they change no bit, and agree with the step that they look into.

use crate::common::runner::{ONCE, runner, tell, tell_watched};
use lamina_emu::Emu;
use lamina_fixtures::packaged;
use lamina_gpu::Gpu;
use lamina_plan::{
    Batch, KvType, Step, Watch, WatchInside,
    op::{Attention, Experts},
};
use std::time::Instant;

/// All that can be looked at.
#[derive(Default)]
struct InsideWatch {
    ops: usize,
    /// Marks, rows of the batch, and bits of their logits.
    lens: Vec<(usize, usize, Vec<u32>)>,
    keys: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
}

impl Watch for InsideWatch {
    fn op(&mut self, _: usize, begin: Instant, end: Instant) {
        assert!(begin <= end);
        self.ops += 1;
    }

    fn inside(&mut self) -> Option<&mut dyn WatchInside> {
        Some(self)
    }
}

impl WatchInside for InsideWatch {
    fn wants_lens(&self) -> bool {
        true
    }

    fn wants_attention(&self) -> bool {
        true
    }

    fn lens(&mut self, _: &Batch, mark: usize, row: usize, logits: &[f32]) {
        self.lens.push((mark, row, logits.iter().map(|v| v.to_bits()).collect()));
    }

    fn experts(&mut self, _: &Batch, _: usize, _: &Experts, _: &[(u32, f32)]) {
        panic!("the built-in model has no experts");
    }

    fn keys(&mut self, _: &Batch, _: usize, keys: &[f32]) {
        self.keys.push(keys.to_vec());
    }

    fn queries(&mut self, _: &Batch, _: usize, _: &Attention, queries: &[f32]) {
        self.queries.push(queries.to_vec());
    }
}

/// Times of operators, in the order in which they were told.
#[derive(Default)]
struct Times(Vec<(usize, Instant, Instant)>);

impl Watch for Times {
    fn op(&mut self, index: usize, begin: Instant, end: Instant) {
        self.0.push((index, begin, end));
    }
}

#[test]
fn operators_are_told_by_the_clock_of_the_device() {
    const TOKENS: usize = 3;
    let model = |emu: &Emu| runner(&packaged(), Gpu::new(emu.clone()), KvType::F16, false);
    let want = tell(model(&Emu::default()), &ONCE, TOKENS, 64);
    let (emu, mut times) = (Emu::default(), Times::default());
    let ops = model(&emu).plan().ops.len();
    let begin = Instant::now();
    assert_eq!(tell_watched(model(&emu), &ONCE, TOKENS, 64, Some(&mut times)), want);
    assert_eq!(times.0.len(), TOKENS * ops);
    // A stamp behind each operator of a step and one before them, of which the last step's are left.
    assert_eq!(emu.stamps(), ops + 1);
    for step in times.0.chunks_exact(ops) {
        assert!(step.iter().map(|(index, ..)| *index).eq(0..ops));
        assert!(step.windows(2).all(|pair| pair[0].2 == pair[1].1), "one ends where the next one begins");
    }
    assert!(times.0[0].1 >= begin && times.0.is_sorted_by_key(|(_, begin, _)| *begin));
}

#[test]
fn looks_inside_change_no_bit_and_end_in_the_logits_of_the_step() {
    const TOKENS: usize = 6;
    let model = || runner(&packaged(), Gpu::new(Emu::default()), KvType::F16, false);
    let want = tell(model(), &ONCE, TOKENS, 64);
    let mut watch = InsideWatch::default();
    let layers = model().plan().kv.layers.len();
    let ops = model().plan().ops.len();
    let got = tell_watched(model(), &ONCE, TOKENS, 64, Some(&mut watch));
    assert_eq!(got, want);
    assert_eq!(watch.ops, TOKENS * ops);
    assert_eq!((watch.keys.len(), watch.queries.len()), (TOKENS * layers, TOKENS * layers));
    let numbers = || watch.keys.iter().chain(&watch.queries).flatten();
    assert!(numbers().all(|x| x.is_finite()) && numbers().any(|x| *x != 0.0));
    // Before the first layer and behind each of them, for both sequences of a step.
    let looks: Vec<_> = watch.lens.chunks_exact((layers + 1) * ONCE.len()).collect();
    assert_eq!((looks.len(), watch.lens.len()), (TOKENS, TOKENS * (layers + 1) * ONCE.len()));
    for (step, look) in looks.iter().enumerate() {
        let last = &look[layers * ONCE.len()..];
        for (told, (mark, _, bits)) in want.iter().zip(last) {
            assert_eq!(*mark, layers);
            assert!(*bits == told.bits[step], "behind the last layer of step {step} is what the model says");
        }
        assert!(look[0].2 != last[0].2, "before the first layer it says something else");
    }
}

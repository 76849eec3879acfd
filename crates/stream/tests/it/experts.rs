//! Experts that are read as they are asked for: whatever is guessed, however the disk answers, each is computed once with its
//! own bytes, in no more memory than there are slots.

use crate::common::odd::odd;
use lamina_base::Bytes;
use lamina_disk::{Extent, MatrixName, PanelAccess, PanelError, PanelFolder, PanelRange};
use lamina_fixtures::extent;
use lamina_plan::{
    BackendError, Batch, ExpertCounts, ExpertGuess, Input, Ops, Queue, Slot, WeightId,
    op::{self, Act, ExpertRanks, Experts, HeldExperts, RouterScore, Routing},
};
use lamina_stream::{ExpertCache, ExpertStack};
use std::{collections::HashMap, fs, ops::Range, path::Path, sync::Arc};
use tempfile::TempDir;

const STACKS: usize = 3;
const EXPERTS: usize = 16;
const TOP_K: usize = 3;
const PANEL: usize = 1000;
/// Where early logits are; those of a stack are in the slot of its number.
const EARLY: u16 = 100;

type Result<T> = std::result::Result<T, BackendError>;

/// How good guesses are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Guesses {
    None,
    Right,
    Wrong,
}

fn random(of: [usize; 3]) -> usize {
    let mix = of.iter().fold(1_u64, |h, v| {
        (h ^ *v as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    });
    (mix >> 32) as usize
}

/// What the rows of a step ask for. Now and then a step asks for all.
fn asked(step: usize, stack: usize) -> Vec<usize> {
    if step % 11 == 7 {
        return (0..EXPERTS).collect();
    }
    // Texts go on with what they began with.
    let mut experts: Vec<usize> = (0..TOP_K).map(|i| random([step / (2 + i), stack, i]) % EXPERTS).collect();
    experts.sort_unstable();
    experts.dedup();
    experts
}

/// The byte that an expert's panel of one of its three matrices is filled with.
fn byte(stack: usize, which: usize, expert: usize) -> u8 {
    (stack * 80 + which * 20 + expert) as u8
}

/// A machine that looks at what it is given instead of computing with it.
#[derive(Default)]
struct Witness {
    step: usize,
    guesses: Option<Guesses>,
    slots: usize,
    bound: HashMap<(u32, usize), Bytes>,
    routed: Vec<usize>,
    computed: Vec<usize>,
    /// Mixtures that were summed.
    summed: usize,
}

impl Queue for Witness {
    fn begin(&mut self, _: &Batch) -> Result<()> {
        Ok(())
    }

    fn bind(&mut self, weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()> {
        match bytes {
            Some(bytes) => self.bound.insert((weight.0, piece), bytes),
            None => self.bound.remove(&(weight.0, piece)),
        };
        assert!(self.bound.len() <= 3 * self.slots, "more experts than slots");
        Ok(())
    }

    fn route_experts(&mut self, _: &Batch, o: &Experts) -> Result<Vec<usize>> {
        let true_ones = asked(self.step, usize::from(o.logits.0 % EARLY));
        self.routed = match self.guesses.filter(|_| o.logits.0 >= EARLY) {
            None => true_ones,
            Some(Guesses::Wrong) => {
                (0..EXPERTS).filter(|e| !true_ones.contains(e)).take(o.routing.top_k).collect()
            }
            Some(_) => true_ones.into_iter().take(o.routing.top_k).collect(),
        };
        self.computed.clear();
        Ok(self.routed.clone())
    }

    fn some_experts(&mut self, _: &Batch, o: &Experts, which: Range<usize>) -> Result<()> {
        let stack = usize::from(o.logits.0);
        for &expert in &self.routed[which] {
            for (i, weight) in [o.gate, o.up, o.down].iter().enumerate() {
                let bytes = self.bound.get(&(weight.0, expert)).expect("bound");
                assert!(bytes.len() == PANEL && bytes.iter().all(|b| *b == byte(stack, i, expert)));
            }
            self.computed.push(expert);
        }
        Ok(())
    }

    fn sum_experts(&mut self, _: &Batch, o: &Experts) -> Result<()> {
        self.computed.sort_unstable();
        assert_eq!(self.computed, asked(self.step, usize::from(o.logits.0)), "each once");
        self.summed += 1;
        Ok(())
    }

    fn read(&self, _: Slot, _: Range<usize>, _: &mut Vec<f32>) -> Result<()> {
        unreachable!("experts alone")
    }

    fn write(&mut self, _: Slot, _: Range<usize>, _: &[f32]) -> Result<()> {
        unreachable!("experts alone")
    }

    fn export_page(&self, _: usize, _: u32) -> Result<Vec<u8>> {
        unreachable!("experts alone")
    }

    fn import_page(&mut self, _: usize, _: u32, _: &[u8]) -> Result<()> {
        unreachable!("experts alone")
    }

    fn export_state(&self, _: u32) -> Result<Vec<u8>> {
        unreachable!("experts alone")
    }

    fn import_state(&mut self, _: u32, _: &[u8]) -> Result<()> {
        unreachable!("experts alone")
    }
}

macro_rules! no_other_operator {
    (plain { $($(#[$doc:meta])* $method:ident $Op:ident,)* } $($fused:tt)*) => {
        impl Ops for Witness {
            $(fn $method(&mut self, _: &Batch, _: &op::$Op) -> Result<()> { unreachable!("experts alone") })*
        }
    };
}

lamina_plan::for_each_op!(no_other_operator);

/// The mixture of a stack, with its own logits or early ones.
fn mixture(stack: usize, logits: u16) -> Experts {
    let weight = |i: usize| WeightId((3 * stack + i) as u32);
    Experts {
        x: Slot(50),
        logits: Slot(logits),
        select_bias: None,
        gate: weight(0),
        up: weight(1),
        down: weight(2),
        biases: None,
        inner: 1,
        act: Act::Silu,
        held: HeldExperts::All,
        routing: Routing {
            experts: EXPERTS,
            top_k: TOP_K,
            score: RouterScore::Softmax,
            renorm: false,
            scale: 1.0,
            groups: None,
            weight_input: false,
            fewer: None,
            ranks: ExpertRanks::All,
        },
        out: Slot(51),
    }
}

fn stacks(root: &Path) -> Vec<ExpertStack> {
    let mut folder = PanelFolder::open(root, "model", PanelAccess::default()).unwrap();
    let name = |w: usize| MatrixName { name: format!("w{w}"), layout: "l".into() };
    let matrices: Vec<_> = (0..3 * STACKS).map(|w| (name(w), EXPERTS, PANEL)).collect();
    let pack = &mut |w: usize, range: Range<usize>, out: &mut [u8]| {
        for (expert, out) in range.zip(out.chunks_exact_mut(PANEL)) {
            out.fill(byte(w / 3, w % 3, expert));
        }
        Ok::<(), PanelError>(())
    };
    folder.add(&matrices, pack).unwrap();
    let run = |w: usize, expert: usize| {
        let (file, place) = folder.find(&name(w)).unwrap();
        (file.clone(), PanelRange::new(file, place, expert..expert + 1))
    };
    let extent =
        |stack: usize, expert| Arc::new(Extent::new((0..3).map(|i| run(3 * stack + i, expert)).collect()));
    let stack = |stack: usize| ExpertStack {
        weights: [0, 1, 2].map(|i| WeightId((3 * stack + i) as u32)),
        extents: (0..EXPERTS).map(|expert| extent(stack, expert)).collect(),
    };
    (0..STACKS).map(stack).collect()
}

/// A cache of experts beside the machine that they are bound to.
struct Case {
    cache: ExpertCache,
    machine: Witness,
}

impl Case {
    fn new(root: &TempDir, slots: usize, guesses: Guesses, (fails, seed): (Option<usize>, u64)) -> Case {
        let cache = ExpertCache::new(stacks(root.path()), odd(fails, seed), slots);
        let guess = |stack: usize| ExpertGuess {
            before: mixture(stack, 0).gate,
            next: mixture(stack + 1, EARLY + stack as u16 + 1),
            normed: Slot(52),
        };
        let all: Vec<_> = (0..STACKS - 1).map(guess).collect();
        let cache = cache.with_guesses(if guesses == Guesses::None { &[] } else { &all });
        Case { cache, machine: Witness { guesses: Some(guesses), slots, ..Witness::default() } }
    }

    fn step(&mut self, step: usize) -> Result<()> {
        self.machine.step = step;
        let b = Batch { inputs: vec![Input::Token(0)], ..Batch::default() };
        (0..STACKS)
            .try_for_each(|stack| self.cache.run(&mut self.machine, &b, &mixture(stack, stack as u16), stack))
    }

    fn steps(&mut self, steps: Range<usize>) -> ExpertCounts {
        steps.for_each(|step| self.step(step).unwrap());
        self.cache.counts().experts
    }
}

#[test]
fn every_expert_is_computed_once_whatever_is_guessed() {
    for (seed, slots) in [1, 2, 3, 8, 9, 16, 24, 47, 48].into_iter().enumerate() {
        for guesses in [Guesses::None, Guesses::Right, Guesses::Wrong] {
            let root = tempfile::tempdir().unwrap();
            let mut case = Case::new(&root, slots, guesses, (None, seed as u64));
            let counts = case.steps(0..60);
            assert_eq!(case.machine.summed, 60 * STACKS);
            let made = guesses != Guesses::None && slots >= 9;
            assert!(!made || counts.guessed > 0, "{slots} slots, {guesses:?}: {counts:?}");
            assert_eq!(counts.guessed_right > 0, counts.guessed > 0 && guesses == Guesses::Right);
        }
    }
}

#[test]
fn guesses_that_are_wrong_stop() {
    let root = tempfile::tempdir().unwrap();
    let mut case = Case::new(&root, 24, Guesses::Wrong, (None, 3));
    let judged = case.steps(0..400).guessed;
    assert!((256..=512).contains(&judged), "{judged}");
    assert_eq!(case.steps(400..800).guessed, judged);
}

#[test]
fn a_failed_read_fails_one_step_at_most_and_that_of_a_guess_none() {
    let (mut harmless, mut harmful) = (0, 0);
    for fails in extent::some(1..60, 0, 4) {
        let root = tempfile::tempdir().unwrap();
        let mut case = Case::new(&root, 24, Guesses::Wrong, (Some(fails), fails as u64));
        let errors: Vec<String> =
            (0..100).filter_map(|step| case.step(step).err().map(|e| e.to_string())).collect();
        assert!(errors.len() <= 1 && errors.iter().all(|e| e.contains("broken disk")), "{fails}: {errors:?}");
        harmless += usize::from(errors.is_empty());
        harmful += errors.len();
    }
    assert!(harmless > 0 && harmful > 0, "{harmless} and {harmful}");
}

#[test]
fn what_was_hot_is_read_before_it_is_asked_for() {
    let (root, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = kept.path().join("uses");
    let start = || Case::new(&root, 12, Guesses::None, (None, 5));
    let first_steps = |mut case: Case| {
        case.cache = case.cache.with_kept_counts(path.clone());
        // The disk has time to answer.
        (0..STACKS).for_each(|_| drop(case.step(0)));
        case.steps(0..4)
    };
    let cold = first_steps(start());
    let whole = fs::read(&path).unwrap();
    let warm = first_steps(start());
    assert!(warm.hits > cold.hits, "{warm:?} {cold:?}");
    for damaged in [&whole[..9], &[&[0], &whole[1..]].concat()[..], &[]] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(first_steps(start()), cold);
    }
}

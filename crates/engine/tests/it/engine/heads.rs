//! Heads that guess tokens: a head that was made of its model is always right, any other changes no bit.

use super::{speculation::*, *};
use lamina_arch::spec::{HeadFeed, HeadJoin, HeadSource, HeadSpec, JoinFirst, LastRow};
use lamina_engine::{DraftAsk, Drafter, HeadDrafter, LoadedHead, Medusa};
use lamina_plan::{Step, WeightKind, WeightSpec, emit_features, emit_head, emit_medusa};

/// What a test's head is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    join: HeadJoin,
    /// It reads residuals, which are projected.
    residuals: bool,
    feed: HeadFeed,
    blank_first: bool,
    /// Each but the first guesses one token further.
    layers: usize,
}

pub const KINDS: [Kind; 5] = [
    Kind {
        join: HeadJoin::Normed(JoinFirst::Embedding),
        residuals: false,
        feed: HeadFeed::Residual,
        blank_first: true,
        layers: 1,
    },
    Kind {
        join: HeadJoin::Normed(JoinFirst::Hidden),
        residuals: false,
        feed: HeadFeed::Normed,
        blank_first: false,
        layers: 1,
    },
    Kind { join: HeadJoin::Plain, residuals: false, feed: HeadFeed::Residual, blank_first: false, layers: 1 },
    Kind {
        join: HeadJoin::Beside { normed: false },
        residuals: true,
        feed: HeadFeed::Residual,
        blank_first: false,
        layers: 1,
    },
    Kind {
        join: HeadJoin::Normed(JoinFirst::Embedding),
        residuals: false,
        feed: HeadFeed::Normed,
        blank_first: true,
        layers: 3,
    },
];

/// The model of these mixers, with a head of a kind behind it.
fn spec_with(mixers: &[Mixer], kind: Kind) -> ModelSpec {
    let mut spec = spec(mixers.to_vec());
    let layer = Layer { mixer: attention(), ..spec.layers[0].clone() };
    let source = match kind.residuals {
        true => HeadSource::Residuals(vec![0, spec.layers.len() - 1]),
        false => HeadSource::Last(LastRow::Normed),
    };
    let head = HeadSpec {
        layer,
        join: kind.join,
        final_norm: (kind.join != HeadJoin::Plain).then(norm),
        source,
        feed: kind.feed,
        blank_first: kind.blank_first,
        vocab: VOCAB,
    };
    spec.heads = vec![head; kind.layers];
    spec
}

type Numbers = fn(&WeightSpec) -> Vec<f32>;

fn runner_with(plan: Plan, s: Setup, numbers: Numbers) -> Runner {
    let uploaded = |w: &WeightSpec| {
        let (rows, cols) = w.kind.shape();
        Reference.upload(w, &Tensor::from_f32(&w.name, rows, cols, &numbers(w))).expect("uploads")
    };
    let weights = plan.weights.iter().map(uploaded).collect();
    let groups = plan.kv.groups.len();
    let limits = Limits {
        rows: s.rows,
        selected: s.rows,
        logits: s.rows.min(16),
        pages: vec![s.pages; groups],
        states: if plan.kv.state_len() > 0 { s.pages.min(16) } else { 0 },
        kv: vec![KvType::F32.into(); groups],
    };
    Runner::new(Reference, plan, weights, limits).expect("builds")
}

/// Numbers that follow from the name and place.
pub fn random(w: &WeightSpec) -> Vec<f32> {
    let (rows, cols) = w.kind.shape();
    let seed = w.name.bytes().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    let value = |k: usize| {
        let h = (k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed.wrapping_mul(77_777)) >> 40;
        (h as f32 / 8_388_608.0 - 1.0) * if rows == 1 { 1.0 } else { 3.0 / (cols as f32).sqrt() }
    };
    (0..rows * cols).map(value).collect()
}

/// The same with logits far apart: a guess is likely in the head's own eyes, so that it goes on.
fn sharp(w: &WeightSpec) -> Vec<f32> {
    let factor = if w.name == "output.weight" { 8.0 } else { 1.0 };
    random(w).iter().map(|v| v * factor).collect()
}

/// A model whose next token follows from the last one alone, and a head that is its only layer again: attention adds
/// nothing, embeddings are rows that a norm leaves as they are, and the projection passes the embedding on.
fn copied(w: &WeightSpec) -> Vec<f32> {
    let (rows, cols) = w.kind.shape();
    let part = w.name.rsplit_once("blk.").map_or(&*w.name, |(_, rest)| &rest[2..]);
    let whole = WeightSpec { name: part.to_owned(), kind: w.kind };
    match part {
        _ if matches!(w.kind, WeightKind::Vector { .. }) => vec![1.0; cols],
        "token_embd.weight" => random(&whole).iter().map(|v| v.signum()).collect(),
        "attn_output.weight" => vec![0.0; rows * cols],
        "nextn.eh_proj.weight" => {
            (0..rows * cols).map(|k| f32::from(u8::from(k / cols == k % cols))).collect()
        }
        _ => random(&whole),
    }
}

/// An engine with a head that guesses.
pub fn headed(mixers: &[Mixer], kind: Kind, s: Setup, small: Setup, numbers: Numbers) -> Engine {
    let drafter: Box<dyn Drafter> = Box::new(head(mixers, kind, small, numbers));
    engine_with(mixers, s, numbers).drafting(vec![drafter], None)
}

/// A head for the model of these mixers.
fn head(mixers: &[Mixer], kind: Kind, small: Setup, numbers: Numbers) -> HeadDrafter {
    let spec = spec_with(mixers, kind);
    let plan = emit(&spec, &|_| false);
    let width = plan.hidden * 2;
    let features = kind.residuals.then(|| emit_features(&spec, width, &|_| false));
    let layer = |h| Box::new(runner_with(emit_head(&spec, h, &|_| false), small, numbers)) as Box<dyn Step>;
    let layers = (0..kind.layers).map(layer);
    let head = LoadedHead {
        name: "head",
        layers: layers.collect(),
        features: features.map(|plan| Box::new(runner_with(plan, small, numbers)) as Box<dyn Step>),
        taps: if kind.residuals { vec![0, spec.layers.len() - 1] } else { vec![plan.marks.len() - 1] },
        feed: usize::from(kind.feed == HeadFeed::Normed),
        blank_first: kind.blank_first,
        ids: vec![],
        depth: 7,
    };
    HeadDrafter::new(head)
}

/// An engine with Medusa heads.
pub fn medusa(mixers: &[Mixer], setup: Setup) -> Engine {
    let spec = spec_with(mixers, KINDS[0]);
    let mark = emit(&spec, &|_| false).marks.len() - 1;
    let head =
        |i| -> Box<dyn Step> { Box::new(runner_with(emit_medusa(&spec, i, 2, &|_| false), ROOMY, random)) };
    let drafter: Box<dyn Drafter> = Box::new(Medusa::new((0..4).map(head).collect(), mark));
    engine_with(mixers, setup, random).drafting(vec![drafter], None)
}

/// Answers of the model of [`headed`] and [`medusa`] without either.
pub fn plain(mixers: &[Mixer], p: &[u32], g: Generation, n: usize) -> Vec<Vec<(u32, u32)>> {
    answer(&mut engine_with(mixers, ROOMY, random), p, g, n).answers
}

fn engine_with(mixers: &[Mixer], s: Setup, numbers: Numbers) -> Engine {
    let plan = emit(&spec(mixers.to_vec()), &|_| false);
    Engine::new(Box::new(runner_with(plan, s, numbers)), CONTEXT, s.reuse)
}

fn answer(e: &mut Engine, p: &[u32], g: Generation, n: usize) -> Outcome {
    let receiver = add(e, p.to_vec(), g);
    finish(e);
    outcome(&receiver, n)
}

#[test]
fn a_head_that_is_its_model_again_is_always_right() {
    for layers in [1, 3] {
        let kind = Kind { blank_first: false, layers, ..KINDS[0] };
        let mixers = [attention()];
        let mut g = generation(5, 40, 1);
        g.params.set("temperature", 0.0).expect("known");
        for p in [looped(2, 70), prompt(3, 1), prompt(4, 2)] {
            let want = answer(&mut engine_with(&mixers, ROOMY, copied), &p, g.clone(), 1);
            for width in if layers == 1 { [1, 3, 7] } else { [1, 2, 3] } {
                let mut e = headed(&mixers, kind, ROOMY, ROOMY, copied);
                assert_eq!(answer(&mut e, &p, fixed(g.clone(), width), 1), want, "{width}");
                let c = e.counters();
                assert!(c.drafted > 10 && c.accepted == c.drafted, "{width} {c:?}");
            }
        }
    }
}

#[test]
fn layers_that_follow_an_answer_guess_what_they_guess_of_it_at_once() {
    for kind in [KINDS[0], KINDS[4]] {
        let drafter = || head(&[attention()], kind, ROOMY, sharp);
        let text = prompt(3, 60);
        let row =
            |at: usize| (0..16).map(move |i| ((at * 16 + i) * 2_654_435_761 % 1000) as f32 / 250.0 - 2.0);
        let guesses = |d: &mut HeadDrafter, len: usize| {
            d.propose(&[DraftAsk::new(7, &text[..len], 3)]).expect("guesses").remove(0)
        };
        let (mut following, mut seen, mut longest) = (drafter(), 0, 0);
        for len in [2, 3, 9, 10, 11, 14, 15, 40, 41, 60] {
            let (new, all): (Vec<f32>, Vec<f32>) =
                ((seen..len - 1).flat_map(row).collect(), (0..len - 1).flat_map(row).collect());
            following.observe(7, seen, &[&new], len - 1 - seen);
            seen = len - 1;
            let mut fresh = drafter();
            fresh.observe(7, 0, &[&all], len - 1);
            let chains = guesses(&mut following, len);
            assert_eq!(chains, guesses(&mut fresh, len), "{len} {kind:?}");
            longest = longest.max(chains.first().map_or(0, |chain| chain.tokens.len()));
        }
        assert_eq!(longest, 3);
    }
}

#[test]
fn heads_change_no_bit() {
    for mixers in memories() {
        for kind in KINDS {
            for temperature in [0.0, 1.0] {
                let mut g = generation(5, 30, 1);
                g.params.set("temperature", temperature).expect("known");
                let p = looped(2, 70);
                let want = answer(&mut engine_with(&mixers, ROOMY, random), &p, g.clone(), 1);
                for width in [1, 4] {
                    let mut e = headed(&mixers, kind, ROOMY, ROOMY, random);
                    assert_eq!(answer(&mut e, &p, fixed(g.clone(), width), 1), want, "{kind:?} {width}");
                    let c = e.counters();
                    assert!(c.drafted > 10 && c.accepted < c.drafted, "{kind:?} {c:?}");
                }
            }
        }
    }
}

#[test]
fn company_pieces_preemption_and_forks_change_no_bit_of_what_heads_guess() {
    for (mixers, kind) in memories().into_iter().zip([KINDS[0], KINDS[4], KINDS[2], KINDS[3]]) {
        let asks: Vec<_> =
            (0..6).map(|i| (looped(i, 5 + 13 * i), generation(i as i64, 30, 1 + i % 3))).collect();
        let alone = |(i, (p, g)): (usize, &(Vec<u32>, Generation))| {
            answer(&mut engine_with(&mixers, ROOMY, random), p, g.clone(), 1 + i % 3).answers
        };
        let wants: Vec<_> = asks.iter().enumerate().map(alone).collect();
        let setups = [
            ROOMY,
            Setup { rows: 7, ..ROOMY },
            Setup { reuse: false, ..ROOMY },
            Setup { pages: 9, rows: 20, ..ROOMY },
        ];
        for (k, setup) in setups.into_iter().enumerate() {
            // The head has memory for two sequences.
            let mut e = headed(&mixers, kind, setup, Setup { pages: 7, rows: 20, ..ROOMY }, random);
            for round in 0..2 {
                let send = |(i, (p, g)): (usize, &(Vec<u32>, Generation))| {
                    add(&mut e, p.clone(), if i < 2 { g.clone() } else { fixed(g.clone(), i) })
                };
                let receivers: Vec<_> = asks.iter().enumerate().map(send).collect();
                finish(&mut e);
                for (i, (receiver, want)) in receivers.iter().zip(&wants).enumerate() {
                    let got = outcome(receiver, 1 + i % 3);
                    assert_eq!((&got.answers, got.error), (want, None), "setup {k} round {round} ask {i}");
                }
            }
            assert!(e.counters().drafted > 50, "{k} {:?}", e.counters());
            e.publish();
            let state = e.board().read();
            assert_eq!(state.free_pages, state.pages);
        }
    }
}

#[test]
fn a_machine_that_cannot_select_all_rows_has_no_guesses_of_heads() {
    let (mixers, kind) = ([attention()], KINDS[0]);
    let head = LoadedHead {
        name: "head",
        layers: vec![Box::new(runner_with(
            emit_head(&spec_with(&mixers, kind), 0, &|_| false),
            ROOMY,
            random,
        ))],
        features: None,
        taps: vec![2],
        feed: 0,
        blank_first: true,
        ids: vec![],
        depth: 3,
    };
    let mut e = engine(mixers.to_vec(), ROOMY).drafting(vec![Box::new(HeadDrafter::new(head))], None);
    let want = answer(&mut engine(mixers.to_vec(), ROOMY), &prompt(1, 9), generation(5, 20, 1), 1);
    assert_eq!(answer(&mut e, &prompt(1, 9), fixed(generation(5, 20, 1), 3), 1), want);
    assert_eq!(e.counters().drafted, 0);
}

#[test]
fn medusa_heads_change_no_bit() {
    for mixers in memories() {
        for (setup, temperature) in [(ROOMY, 0.0), (Setup { rows: 7, ..ROOMY }, 1.0)] {
            let mut g = generation(5, 30, 3);
            g.params.set("temperature", temperature).expect("known");
            let p = looped(2, 70);
            let want = answer(&mut engine_with(&mixers, ROOMY, random), &p, g.clone(), 3);
            for width in [1, 3, 9] {
                let mut e = medusa(&mixers, setup);
                assert_eq!(answer(&mut e, &p, fixed(g.clone(), width), 3).answers, want.answers, "{width}");
                assert!(e.counters().drafted > 20, "{:?}", e.counters());
            }
        }
    }
}

//! Several chains of drafts in one step: the same bits as without, and nothing is left of those that were wrong.

use super::{
    heads::{KINDS, headed, medusa},
    speculation::*,
    *,
};
use crate::known::{KnownAnswers, Rightness};
use lamina_engine::{Drafter, Lookahead, Speculate};

/// Guesses of known answers with branches, the first chain wrong behind a depth below `wrong_below`.
fn branched(texts: &[Vec<u32>], wrong_below: usize) -> Box<dyn Drafter> {
    let right = Rightness::Branched(wrong_below);
    Box::new(KnownAnswers::new(Arc::new(Mutex::new(texts.to_vec())), right))
}

fn wide(g: Generation, width: usize, branches: usize) -> Generation {
    let speculate = Speculate { width: Some(width), branches: Some(branches), method: None };
    Generation { speculate, ..g }
}

#[test]
fn branches_change_no_bit() {
    for mixers in memories() {
        let p = looped(2, 70);
        for temperature in [0.0, 1.0] {
            let mut g = generation(5, 40, 1);
            g.params.set("temperature", temperature).expect("known");
            let want = alone(&mixers, ROOMY, p.clone(), g.clone());
            let texts = [text(&p, &want.answers[0])];
            for (wrong_below, width, branches) in
                [(1, 1, 2), (1, 3, 4), (3, 2, 3), (3, 4, 4), (6, 4, 2), (6, 9, 4)]
            {
                let drafters = vec![branched(&texts, wrong_below)];
                let mut e = engine(mixers.clone(), ROOMY).drafting(drafters, None);
                let receiver = add(&mut e, p.clone(), wide(g.clone(), width, branches));
                finish(&mut e);
                assert_eq!(outcome(&receiver, 1), want, "{wrong_below} {width} {branches}");
                let c = e.counters();
                // With 1 the first chain is always wrong: what was accepted was a branch.
                assert!(c.accepted > 0 && c.accepted < c.drafted, "{c:?}");
                assert_eq!(c.tokens, 40);
            }
        }
    }
}

#[test]
fn company_pieces_preemption_and_several_answers_change_no_bit_of_branches() {
    for mixers in memories() {
        let asks: Vec<_> =
            (0..6).map(|i| (looped(i, 5 + 13 * i), generation(i as i64, 30, 1 + 3 * (i % 2)))).collect();
        let wants: Vec<_> =
            asks.iter().map(|(p, g)| alone(&mixers, ROOMY, p.clone(), g.clone()).answers).collect();
        let texts: Vec<_> = asks
            .iter()
            .zip(&wants)
            .flat_map(|((p, _), answers)| answers.iter().map(|a| text(p, a)).collect::<Vec<_>>())
            .collect();
        let setups = [
            ROOMY,
            Setup { rows: 7, ..ROOMY },
            Setup { reuse: false, ..ROOMY },
            Setup { pages: 9, ..ROOMY },
            Setup { pages: 9, rows: 12, ..ROOMY },
        ];
        for (k, setup) in setups.into_iter().enumerate() {
            let mut e = engine(mixers.clone(), setup).drafting(vec![branched(&texts, 4)], None);
            for round in 0..2 {
                let send = |(i, (p, g)): (usize, &(Vec<u32>, Generation))| {
                    // Some follow measurement, one has no branches.
                    let g = match i {
                        0 => g.clone(),
                        1 => fixed(g.clone(), 3),
                        _ => wide(g.clone(), i, 2 + i % 3),
                    };
                    add(&mut e, p.clone(), g)
                };
                let receivers: Vec<_> = asks.iter().enumerate().map(send).collect();
                finish(&mut e);
                for (i, (receiver, want)) in receivers.iter().zip(&wants).enumerate() {
                    let got = outcome(receiver, 1 + 3 * (i % 2));
                    assert_eq!((&got.answers, got.error), (want, None), "setup {k} round {round} ask {i}");
                }
            }
            assert!(e.counters().accepted > 0);
            e.publish();
            let state = e.board().read();
            assert_eq!(state.free_pages, state.pages, "all pages are free in the end");
        }
    }
}

#[test]
fn what_branches_wrote_is_found_by_nobody() {
    for mixers in memories() {
        let p = looped(3, 70);
        let want = alone(&mixers, ROOMY, p.clone(), generation(5, 60, 1));
        let said = text(&p, &want.answers[0]);
        // The next turn of a conversation, and a text that leaves the answer in its middle.
        let later = [[&said[..], &[1, 2, 3]].concat(), [&said[..100], &[7, 7, 7, 7]].concat()];
        let after = |drafters: Vec<Box<dyn Drafter>>, g| {
            let mut e = engine(mixers.clone(), ROOMY).drafting(drafters, None);
            let receiver = add(&mut e, p.clone(), g);
            finish(&mut e);
            assert_eq!(outcome(&receiver, 1), want);
            e.publish();
            let kept = e.board().read().cached_pages;
            let next = later.clone().map(|p| {
                let receiver = add(&mut e, p, generation(6, 9, 1));
                finish(&mut e);
                outcome(&receiver, 1)
            });
            (kept, next)
        };
        let plain = after(vec![], generation(5, 60, 1));
        let drafted = after(vec![branched(std::slice::from_ref(&said), 5)], wide(generation(5, 60, 1), 6, 4));
        let same = |(a, b): (&Outcome, &Outcome)| a.answers == b.answers;
        assert!(plain.1.iter().zip(&drafted.1).all(same));
        // Snapshots of a state are taken where a step ends, so fewer beginnings may be found of recurrent models.
        if mixers.iter().all(|m| matches!(m, Mixer::Gqa(_))) {
            assert_eq!(drafted, plain);
        }
    }
}

#[test]
fn second_choices_of_models_and_heads_change_no_bit() {
    for (i, mixers) in memories().into_iter().enumerate() {
        for temperature in [0.0, 1.0] {
            let mut g = generation(5, 30, 3);
            g.params.set("temperature", temperature).expect("known");
            let p = looped(2, 70);
            // Penalties make a drafter choose as the request would.
            let penalties = [("repetition_penalty", 1.3), ("frequency_penalty", 0.4)];
            penalties.iter().filter(|_| i % 2 == 1).for_each(|&(n, v)| g.params.set(n, v).expect("known"));
            let other = vec![attention(), attention(), attention()];
            let want = alone(&mixers, ROOMY, p.clone(), g.clone()).answers;
            for setup in [ROOMY, Setup { rows: 16, ..ROOMY }] {
                for drafter in [model(&mixers, ROOMY), model(&other, ROOMY)] {
                    // What the model says behind wrong guesses becomes branches, too.
                    let drafters = vec![drafter, Box::<Lookahead>::default()];
                    let mut e = engine(mixers.clone(), setup).drafting(drafters, None);
                    let receiver = add(&mut e, p.clone(), wide(g.clone(), 3, 4));
                    finish(&mut e);
                    assert_eq!(outcome(&receiver, 3).answers, want);
                    assert!(e.counters().drafted > 20, "{:?}", e.counters());
                }
            }
            let (small, want) = (Setup { rows: 16, ..ROOMY }, heads::plain(&mixers, &p, g.clone(), 3));
            for setup in [ROOMY, small] {
                let engines =
                    [headed(&mixers, KINDS[i], setup, ROOMY, heads::random), medusa(&mixers, setup)];
                for mut e in engines {
                    let receiver = add(&mut e, p.clone(), wide(g.clone(), 3, 4));
                    finish(&mut e);
                    assert_eq!(outcome(&receiver, 3).answers, want);
                    assert!(e.counters().drafted > 20, "{:?}", e.counters());
                }
            }
        }
    }
}

#[test]
fn a_second_choice_that_is_right_spares_a_step() {
    // The same model is right with its first choice when greedy; asked for the second best, its branch is.
    let mixers = vec![attention(), attention()];
    let mut g = generation(5, 40, 1);
    g.params.set("temperature", 1.2).expect("known");
    let want = alone(&mixers, ROOMY, looped(2, 70), g.clone());
    let accepted = |branches| {
        let mut e = engine(mixers.clone(), ROOMY).drafting(vec![model(&mixers, ROOMY)], None);
        let receiver = add(&mut e, looped(2, 70), wide(g.clone(), 1, branches));
        finish(&mut e);
        assert_eq!(outcome(&receiver, 1), want);
        e.counters().accepted
    };
    assert!(accepted(4) > accepted(1), "{} and {}", accepted(4), accepted(1));
}

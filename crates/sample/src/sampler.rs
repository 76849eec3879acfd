//! The sampling state of one request.

use super::candidate::Candidate;
use super::candidates::Candidates;
use super::chain::{Edit, Looks, Pick, Shape, Stage};
use super::draw::Random;
use super::logprobs::{ReportedProbs, drawn, logprobs};
use super::look::ChoiceLooks;
use super::peak::{Peak, keep_certain};
use super::stream::{Stream, fresh_seed};
use super::{Context, Processor, SAMPLERS, SampleError, SamplerState, SamplingParams, mask};

/// Longest front of a ranking that is asked of a backend instead of the whole row.
const LONGEST_FRONT: usize = 128;

/// A chosen token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The token.
    pub id: u32,
    /// Natural logarithm of its probability, the model's or what it was drawn by (`post_sampling_probs`); only if
    /// `logprobs` is set.
    pub logprob: Option<f32>,
    /// The most likely tokens and their logprobs, most likely first; only if `logprobs` is above 0.
    pub top: Vec<(u32, f32)>,
}

/// Chooses the tokens of one request. Give it the prompt with [`accept`](Self::accept) (DRY and the penalties look at it),
/// then for each row of logits [`sample`](Self::sample) and `accept` the chosen token.
///
/// ```
/// use lamina_sample::{Context, Sampler, SamplingParams};
/// let mut params = SamplingParams::default();
/// params.set("temperature", 0.0)?;
/// let mut sampler = Sampler::new(&params, Context::new(3))?;
/// let chosen = sampler.sample(&mut [0.1, 2.0, 0.3], None)?;
/// sampler.accept(chosen.id);
/// assert_eq!(chosen.id, 1);
/// # Ok::<(), lamina_sample::SampleError>(())
/// ```
pub struct Sampler {
    vocab: usize,
    processor: Option<Processor>,
    edits: Vec<Box<dyn Edit>>,
    shapes: Vec<Box<dyn Shape>>,
    /// What the shapes are called.
    names: Vec<&'static str>,
    pick: Box<dyn Pick>,
    seed: u64,
    stream: Stream,
    min_keep: usize,
    report: ReportedProbs,
    history: Vec<u32>,
    /// Buffers kept from one token to the next.
    items: Vec<Candidate>,
    raw: Vec<f32>,
}

impl Sampler {
    /// Checks the parameters and builds the chain; samplers with neutral parameters are not part of it.
    pub fn new(params: &SamplingParams, context: Context) -> Result<Self, SampleError> {
        params.check()?;
        let stages = params.stages(&context)?;
        let picks_its_own_way = stages.iter().any(|s| matches!(s, Stage::Pick(_)));
        let (mut edits, mut shapes, mut pick) = (Vec::new(), Vec::new(), None);
        let mut names = Vec::new();
        for (stage, info) in stages.into_iter().zip(SAMPLERS) {
            match stage {
                Stage::Off => {}
                Stage::Edit(edit) => edits.push(edit),
                Stage::Cut(_) if picks_its_own_way => {}
                Stage::Cut(shape) | Stage::Scale(shape) => {
                    shapes.push(shape);
                    names.push(info.name);
                }
                Stage::Pick(own) => pick = pick.or(Some(own)),
            }
        }
        let seed = params.draw.seed.map_or_else(fresh_seed, |s| s as u64);
        Ok(Self {
            vocab: context.vocab,
            processor: context.processor,
            edits,
            shapes,
            names,
            pick: pick.unwrap_or_else(|| Box::new(Random)),
            seed,
            stream: Stream::new(seed, context.index),
            min_keep: params.draw.min_keep as usize,
            report: params.logprobs.report(),
            history: Vec::new(),
            items: Vec::new(),
            raw: Vec::new(),
        })
    }

    /// The sampler of answer `index` to the same prompt: what was said is the same, the random stream is its own.
    pub fn fork(&self, index: u64) -> Self {
        Self {
            processor: self.processor.clone(),
            edits: self.edits.iter().map(|edit| (**edit).fork()).collect(),
            shapes: self.shapes.iter().map(|shape| (**shape).fork()).collect(),
            names: self.names.clone(),
            pick: (*self.pick).fork(),
            stream: Stream::new(self.seed, index),
            history: self.history.clone(),
            items: Vec::new(),
            raw: Vec::new(),
            ..*self
        }
    }

    /// Without its processor, which is not asked of rows that are only guessed.
    pub fn unprocessed(self) -> Self {
        Self { processor: None, ..self }
    }

    /// Where it stands.
    pub fn state(&mut self) -> SamplerState {
        let surprise = self.pick.surprise().copied();
        SamplerState { seed: self.seed, index: self.stream.index(), drawn: self.stream.drawn(), surprise }
    }

    /// Goes on where another sampler of the same parameters stood. What was said is told by [`accept`](Self::accept).
    pub fn resume(&mut self, state: SamplerState) {
        self.seed = state.seed;
        self.stream = Stream::behind(state.seed, state.index, state.drawn);
        if let (Some(mine), Some(surprise)) = (self.pick.surprise(), state.surprise) {
            *mine = surprise;
        }
    }

    /// Adds a token to what was said: each token of the prompt, then each chosen one. Ids beyond the vocabulary
    /// (placeholders of pictures) are allowed and never penalized.
    pub fn accept(&mut self, id: u32) {
        if !self.edits() {
            return;
        }
        self.history.push(id);
        self.edits.iter_mut().for_each(|edit| edit.accept(&self.history));
    }

    /// Chooses a token. `logits`: the model's row, of the vocabulary's length; it is worked on in place. `mask`: one bit
    /// per token, 32 a word from the lowest bit, set where a token is allowed; tokens beyond its end are not.
    pub fn sample(&mut self, logits: &mut [f32], mask: Option<&[u32]>) -> Result<Sampled, SampleError> {
        if logits.len() != self.vocab {
            return Err(SampleError::WrongLength { given: logits.len(), vocab: self.vocab });
        }
        if let ReportedProbs::Model(_) = self.report {
            self.raw.clear();
            self.raw.extend_from_slice(logits);
        }
        let peak = self.edit(logits, mask)?;
        let mut candidates = Candidates::new(logits, peak, &mut self.items, self.min_keep);
        let id = choose(&mut candidates, &mut self.shapes, &mut *self.pick, &mut self.stream);
        match reported(self.report, &*self.pick, &mut candidates, id) {
            Some(sampled) => Ok(sampled),
            None => self.given(&self.raw, id),
        }
    }

    /// [`Sampler::sample`], which looks at the distribution between its stages. Token, random numbers and report are the
    /// same.
    pub fn sample_traced(
        &mut self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        looks: &mut ChoiceLooks,
    ) -> Result<Sampled, SampleError> {
        if logits.len() != self.vocab {
            return Err(SampleError::WrongLength { given: logits.len(), vocab: self.vocab });
        }
        self.raw.clear();
        self.raw.extend_from_slice(logits);
        looks.clear();
        let log_sum = looks.note_row("model", &self.raw);
        let peak = self.edit(logits, mask)?;
        if mask.is_some() || self.edits() {
            looks.note_row("edits", logits);
        }
        let mut candidates = Candidates::new(logits, peak, &mut self.items, self.min_keep);
        for (shape, name) in self.shapes.iter_mut().zip(&self.names) {
            shape.apply(&mut candidates, &mut self.stream);
            candidates.look(name, looks);
        }
        let id = self.pick.pick(&mut candidates, &mut self.stream);
        if !self.pick.draws() {
            looks.note("greedy", [(id, 0.0)].into_iter());
        }
        looks.place(&self.raw, log_sum, id);
        match reported(self.report, &*self.pick, &mut candidates, id) {
            Some(sampled) => Ok(sampled),
            None => self.given(&self.raw, id),
        }
    }

    /// How many from the front of a row's ranking are all that the choice depends on; none where the whole row counts,
    /// or a longer front than is worth asking a backend for.
    pub fn front(&self) -> Option<usize> {
        if self.edits() || self.reports() {
            return None;
        }
        let first = self.shapes.first().map_or_else(|| self.pick.looks(), |shape| shape.looks());
        match first {
            Looks::Front(n) => Some(n.max(self.min_keep)).filter(|&n| n <= LONGEST_FRONT),
            Looks::Everything => None,
        }
    }

    /// [`Sampler::sample`] from the first [`Sampler::front`] tokens of a row and their logits: larger ones first, of
    /// equal ones the lower token, NaN before all. The token is the one that the whole row would give.
    pub fn sample_front(&mut self, front: &[(u32, f32)]) -> Result<Sampled, SampleError> {
        let certain: Vec<_>;
        let front = match front.first() {
            Some(&(token, logit)) if logit.is_nan() => {
                return Err(SampleError::NotANumber { token: token as usize });
            }
            None | Some((_, f32::NEG_INFINITY)) => {
                return Err(SampleError::NothingLeft { vocab: self.vocab });
            }
            // Tokens with a logit of +inf are certain, as in a whole row.
            Some((_, f32::INFINITY)) => {
                certain = front.iter().filter(|c| c.1 == f32::INFINITY).map(|c| (c.0, 0.0)).collect();
                &certain[..]
            }
            Some(_) => front,
        };
        let mut candidates = Candidates::of_front(front, &mut self.items, self.min_keep);
        let id = choose(&mut candidates, &mut self.shapes, &mut *self.pick, &mut self.stream);
        Ok(Sampled { id, logprob: None, top: Vec::new() })
    }

    /// Whether each token is reported with its logprob.
    pub fn reports(&self) -> bool {
        self.report != ReportedProbs::Off
    }

    /// A token that was chosen without sampling, with what is reported of it, for which the model's row of logits is
    /// looked at. No random number is drawn.
    pub fn given(&self, logits: &[f32], id: u32) -> Result<Sampled, SampleError> {
        let (logprob, top) = match self.report {
            ReportedProbs::Off => (None, Vec::new()),
            ReportedProbs::Model(top) => {
                let (logprob, top) = logprobs(logits, id, top)?;
                (Some(logprob), top)
            }
            // It was certain.
            ReportedProbs::Drawn(top) => (Some(0.0), std::iter::repeat_n((id, 0.0), top.min(1)).collect()),
        };
        Ok(Sampled { id, logprob, top })
    }

    /// True where tokens that were said, a bias, or a processor change a row.
    pub fn edits(&self) -> bool {
        !self.edits.is_empty() || self.processor.is_some()
    }

    /// The likeliest token after mask and edits, which work on the row in place, and its logit; none where none is left or
    /// a logit is not a number.
    pub fn peak(&mut self, logits: &mut [f32], mask: Option<&[u32]>) -> Option<(u32, f32)> {
        let fits = logits.len() == self.vocab;
        let peak = fits.then(|| self.edit(logits, mask).ok()).flatten()?;
        Some((peak.id, peak.logit))
    }

    /// Processor, mask and edits, and the highest logit that they leave, which is finite.
    fn edit(&mut self, logits: &mut [f32], mask: Option<&[u32]>) -> Result<Peak, SampleError> {
        let mut peak = Peak::of(logits)?;
        if let Some(processor) = &self.processor {
            processor.process(&self.history, logits)?;
        }
        if let Some(mask) = mask {
            mask::apply(mask, logits);
        }
        self.edits.iter_mut().for_each(|edit| edit.edit(logits, &self.history));
        if mask.is_some() || self.edits() {
            peak = Peak::of(logits)?;
        }
        match peak.logit {
            f32::NEG_INFINITY => Err(SampleError::NothingLeft { vocab: self.vocab }),
            f32::INFINITY => {
                keep_certain(logits);
                Ok(Peak { id: peak.id, logit: 0.0 })
            }
            _ => Ok(peak),
        }
    }
}

/// A token with the probabilities that it was drawn by, where those are reported.
fn reported(report: ReportedProbs, pick: &dyn Pick, candidates: &mut Candidates, id: u32) -> Option<Sampled> {
    let ReportedProbs::Drawn(top) = report else { return None };
    pick.draws().then(|| {
        let (logprob, top) = drawn(candidates, id, top);
        Sampled { id, logprob: Some(logprob), top }
    })
}

/// Cuts, scales, and picks.
fn choose(
    candidates: &mut Candidates,
    shapes: &mut [Box<dyn Shape>],
    pick: &mut dyn Pick,
    stream: &mut Stream,
) -> u32 {
    shapes.iter_mut().for_each(|shape| shape.apply(candidates, stream));
    pick.pick(candidates, stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::row;
    use crate::{Kind, Value, Xtc, params};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn params_of(values: &[(&str, f64)]) -> SamplingParams {
        let mut params = SamplingParams::default();
        values.iter().for_each(|&(name, value)| params.set(name, value).unwrap());
        params
    }

    fn sampler(values: &[(&str, f64)], vocab: usize) -> Sampler {
        Sampler::new(&params_of(values), Context::new(vocab)).unwrap()
    }

    /// Logits that look random and are the same in every run.
    fn noise(vocab: usize, salt: u64) -> Vec<f32> {
        let mut stream = Stream::new(salt, 9);
        (0..vocab).map(|_| (stream.uniform() * 16.0 - 8.0) as f32).collect()
    }

    fn text(sampler: &mut Sampler, vocab: usize, tokens: u64) -> Vec<u32> {
        let mut one = |step| {
            let id = sampler.sample(&mut noise(vocab, step), None).unwrap().id;
            sampler.accept(id);
            id
        };
        (0..tokens).map(&mut one).collect()
    }

    const EVERYTHING: &[(&str, f64)] = &[
        ("seed", 5.0),
        ("repeat_penalty", 1.2),
        ("presence_penalty", 0.3),
        ("dry_multiplier", 0.8),
        ("top_n_sigma", 2.0),
        ("top_k", 50.0),
        ("typical_p", 0.9),
        ("xtc_probability", 0.5),
        ("dynatemp_range", 0.3),
    ];

    #[test]
    fn a_seed_gives_the_same_text() {
        for more in [("mirostat", 0.0), ("mirostat", 1.0), ("mirostat", 2.0), ("top_k", 0.0)] {
            let values = [EVERYTHING, &[more]].concat();
            let run = || text(&mut sampler(&values, 300), 300, 60);
            assert_eq!(run(), run());
        }
    }

    #[test]
    fn the_samples_of_a_request_have_streams_of_their_own() {
        let params = params_of(&[("seed", 5.0)]);
        let run = |index| {
            text(&mut Sampler::new(&params, Context { index, ..Context::new(300) }).unwrap(), 300, 40)
        };
        assert_ne!(run(0), run(1));
        assert_eq!(run(1), run(1));
    }

    #[test]
    fn a_fork_goes_on_as_a_sampler_of_its_own() {
        for more in [("mirostat", 0.0), ("mirostat", 1.0), ("mirostat", 2.0), ("frequency_penalty", 0.5)] {
            let params = params_of(&[EVERYTHING, &[more]].concat());
            let make = |index| {
                let mut s = Sampler::new(&params, Context { index, ..Context::new(300) }).unwrap();
                (0..50).for_each(|i| s.accept(i % 7));
                s
            };
            let first = make(0);
            for index in [1, 5] {
                let (mut fork, mut own) = (first.fork(index), make(index));
                assert_eq!(text(&mut fork, 300, 40), text(&mut own, 300, 40), "{more:?}");
            }
        }
    }

    #[test]
    fn another_request_in_between_changes_nothing() {
        let mut a = sampler(EVERYTHING, 300);
        let mut b = sampler(&[("seed", 6.0)], 300);
        let alone = text(&mut sampler(EVERYTHING, 300), 300, 30);
        let mut interleaved = Vec::new();
        for step in 0..30 {
            b.sample(&mut noise(300, step + 1000), None).unwrap();
            let id = a.sample(&mut noise(300, step), None).unwrap().id;
            a.accept(id);
            interleaved.push(id);
        }
        assert_eq!(interleaved, alone);
    }

    /// The first `n` of a row, as a backend gives them.
    fn front(row: &[f32], n: usize) -> Vec<(u32, f32)> {
        let mut all: Vec<_> = row.iter().enumerate().map(|(id, &x)| (id as u32, x)).collect();
        // Stable: of equal ones the lower token stays first.
        all.sort_by(|a, b| {
            b.1.is_nan().cmp(&a.1.is_nan()).then(b.1.partial_cmp(&a.1).unwrap_or(std::cmp::Ordering::Equal))
        });
        all.truncate(n);
        all
    }

    #[test]
    fn a_front_is_asked_for_where_nothing_behind_it_counts() {
        let of = |values: &[(&str, f64)]| sampler(values, 300).front();
        assert_eq!(of(&[("temperature", 0.0)]), Some(1));
        assert_eq!(of(&[("temperature", 0.0), ("top_k", 9.0), ("xtc_probability", 1.0)]), Some(1));
        assert_eq!(of(&[]), Some(40));
        assert_eq!(of(&[("top_k", 20.0), ("min_keep", 30.0)]), Some(30));
        for whole in ["logprobs", "top_n_sigma", "repeat_penalty", "mirostat", "dry_multiplier"] {
            assert_eq!(of(&[(whole, 2.0)]), None, "{whole}");
        }
        assert_eq!((of(&[("top_k", 0.0)]), of(&[("top_k", 129.0)])), (None, None));
    }

    proptest! {
        #[test]
        fn a_front_gives_what_the_row_gives(
            mut row in row(1..300), seed in 0i64..1000, k in 1i32..60, min_keep in 0i32..50, temperature in 0u8..4,
            cuts in prop::collection::vec((0usize..4, 0.05f64..1.0), 0..3), wild in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4), 0..3),
        ) {
            for (at, what) in wild {
                let at = at.index(row.len());
                row[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0][what];
            }
            let mut p = params_of(&[("temperature", f64::from(temperature) / 2.0), ("min_keep", min_keep.into())]);
            p.set("top_k", i64::from(k)).unwrap();
            for (cut, value) in cuts {
                p.set(["top_p", "min_p", "typical_p", "xtc_probability"][cut], value).unwrap();
            }
            p.draw.seed = Some(seed);
            let make = || Sampler::new(&p, Context::new(row.len())).unwrap();
            let (mut whole, mut from_front) = (make(), make());
            for _ in 0..3 {
                let want = whole.sample(&mut row.clone(), None);
                let n = from_front.front().expect("starts with top-k, or is greedy");
                prop_assert_eq!(from_front.sample_front(&front(&row, n)), want);
            }
        }

        /// Whatever the row and the parameters: a token that is not masked, or the error that says why not.
        #[test]
        fn any_row_with_any_parameters(
            row in row(1..200), seed in 0i64..1000,
            values in prop::collection::vec((0usize..30, 0.0f64..=1.0), 0..8),
            history in prop::collection::vec(0u32..200, 0..30),
        ) {
            let mut p = SamplingParams::default();
            for (at, share) in values {
                let numbers: Vec<_> = params().filter(|p| matches!(p.kind, Kind::Float | Kind::Int)).collect();
                let param = numbers[at % numbers.len()];
                let value = param.range.start() + share * (param.range.end().min(100.0) - param.range.start());
                p.set(param.name, if param.kind == Kind::Int { value.round() } else { value }).unwrap();
            }
            p.draw.seed = Some(seed);
            p.logprobs.count = Some(3);
            let mut sampler = Sampler::new(&p, Context::new(row.len())).unwrap();
            history.iter().for_each(|&id| sampler.accept(id));
            let chosen = sampler.sample(&mut row.clone(), None).unwrap();
            prop_assert!(row[chosen.id as usize].is_finite());
            prop_assert!(chosen.logprob.unwrap() <= 1e-6 && chosen.top.len() <= 3);
        }

        #[test]
        fn greedy_is_the_argmax_whatever_cuts(row in row(1..300), k in 0i32..50) {
            let mut sampler = sampler(&[("temperature", 0.0), ("top_k", k.into()), ("xtc_probability", 1.0)], row.len());
            let want = Peak::of(&row).unwrap().id;
            prop_assert_eq!(sampler.sample(&mut row.clone(), None).unwrap().id, want);
        }

        #[test]
        fn a_mask_is_obeyed(row in row(1..200), mask in prop::collection::vec(any::<u32>(), 1..7), seed in 0i64..100) {
            let mut sampler = sampler(&[("seed", seed as f64)], row.len());
            let allowed = |id: usize| mask.get(id / 32).is_some_and(|w| w >> (id % 32) & 1 == 1);
            let any = (0..row.len()).any(|id| allowed(id) && row[id].is_finite());
            match sampler.sample(&mut row.clone(), Some(&mask)) {
                Ok(chosen) => prop_assert!(allowed(chosen.id as usize)),
                Err(e) => { prop_assert!(!any); prop_assert_eq!(e, SampleError::NothingLeft { vocab: row.len() }) }
            }
        }

        /// With every sampler neutral, draws follow the plain softmax: the same stream through a slow twin.
        #[test]
        fn neutral_parameters_draw_from_the_softmax(row in crate::testing::mild_row(1..50), seed in 0i64..1000) {
            let neutral = [("temperature", 1.0), ("top_k", 0.0), ("top_p", 1.0), ("min_p", 0.0), ("seed", seed as f64)];
            let id = sampler(&neutral, row.len()).sample(&mut row.clone(), None).unwrap().id;
            let u = Stream::new(seed as u64, 0).uniform();
            let p = crate::testing::softmax(&row);
            let before: f64 = p[..id as usize].iter().sum();
            // f32 probabilities: sums of 50 are off by at most 50 * 6e-8.
            prop_assert!(before - 3e-6 <= u && u <= before + p[id as usize] + 3e-6);
        }
    }

    #[test]
    fn the_default_chain_by_hand() {
        // 0.5, 0.25, 0.2 and 0.05 at temperature 1: top_p 0.9 drops the last, min_p 0.45 the third.
        let row: Vec<f32> = [0.05f32, 0.5, 0.2, 0.25].iter().map(|p| p.ln()).collect();
        let mut sampler = sampler(&[("temperature", 1.0), ("top_p", 0.9), ("min_p", 0.45), ("seed", 1.0)], 4);
        let ones = (0..3000).filter(|_| match sampler.sample(&mut row.clone(), None).unwrap().id {
            1 => true,
            3 => false,
            other => panic!("{other} was cut"),
        });
        // Two thirds of 3000, give or take four standard deviations of 26.
        assert!((1897..=2103).contains(&ones.count()));
    }

    #[test]
    fn mirostat_takes_the_place_of_the_cuts() {
        // top_k 1 would always give token 1; mirostat with a high target lets others through.
        let values =
            [("mirostat", 2.0), ("mirostat_tau", 10.0), ("top_k", 1.0), ("seed", 3.0), ("temperature", 1.0)];
        let mut sampler = sampler(&values, 4);
        let ids: Vec<u32> =
            (0..50).map(|_| sampler.sample(&mut [0.0, 0.1, 0.0, 0.0], None).unwrap().id).collect();
        assert!(ids.iter().any(|&id| id != 1));
    }

    #[test]
    fn extreme_rows() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let draw =
            |row: &[f32]| sampler(&[("seed", 1.0)], row.len()).sample(&mut row.to_vec(), None).map(|s| s.id);
        assert_eq!(draw(&[0.0]), Ok(0));
        assert_eq!(draw(&[3e38, -3e38]), Ok(0));
        assert_eq!(draw(&[1.0, inf, 2.0]), Ok(1));
        assert_eq!(draw(&[-inf, f32::MIN]), Ok(1));
        assert_eq!(draw(&[-inf, -inf]), Err(SampleError::NothingLeft { vocab: 2 }));
        assert_eq!(draw(&[]), Err(SampleError::NothingLeft { vocab: 0 }));
        assert_eq!(draw(&[0.0, nan, nan]), Err(SampleError::NotANumber { token: 1 }));
        let short = sampler(&[], 4).sample(&mut [0.0; 3], None);
        assert_eq!(short, Err(SampleError::WrongLength { given: 3, vocab: 4 }));
    }

    #[test]
    fn logprobs_are_the_models_own() {
        let mut params = params_of(&[("temperature", 0.1), ("logprobs", 2.0), ("repeat_penalty", 5.0)]);
        params.set("logit_bias", BTreeMap::from([(0, 100.0)])).unwrap();
        let mut sampler = Sampler::new(&params, Context::new(3)).unwrap();
        sampler.accept(2);
        let row: Vec<f32> = [0.1f32, 0.3, 0.6].iter().map(|p| p.ln()).collect();
        let got = sampler.sample(&mut row.clone(), Some(&[0b011])).unwrap();
        assert_eq!(got.id, 0);
        assert!((got.logprob.unwrap() - 0.1f32.ln()).abs() < 1e-6); // one rounding of ln and of the sum
        assert_eq!(got.top.iter().map(|t| t.0).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn probabilities_behind_the_samplers_are_those_of_the_draw() {
        let row: Vec<f32> = [0.05f32, 0.5, 0.2, 0.25].iter().map(|p| p.ln()).collect();
        let near = |log: f32, p: f32| (log.exp() - p).abs() < 1e-6;
        let of = |more: &[(&str, f64)]| {
            let base = [("post_sampling_probs", 1.0), ("logprobs", 3.0), ("temperature", 1.0), ("seed", 1.0)];
            sampler(&[&base[..], more].concat(), 4)
        };
        let got = of(&[("top_k", 2.0)]).sample(&mut row.clone(), None).unwrap();
        assert_eq!(got.top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 3], "{got:?}");
        assert!(near(got.top[0].1, 2.0 / 3.0) && near(got.top[1].1, 1.0 / 3.0), "{got:?}");
        assert_eq!(got.logprob, got.top.iter().find(|t| t.0 == got.id).map(|t| t.1));
        let greedy = of(&[("temperature", 0.0)]).sample(&mut row.clone(), None).unwrap();
        assert_eq!((greedy.id, greedy.logprob, greedy.top), (1, Some(0.0), vec![(1, 0.0)]));
        let forced = of(&[]).given(&row, 2).unwrap();
        assert_eq!((forced.logprob, forced.top), (Some(0.0), vec![(2, 0.0)]));
        // What is reported has no part in the choice.
        for more in [("mirostat", 0.0), ("mirostat", 1.0), ("mirostat", 2.0), ("top_k", 0.0)] {
            let values = [EVERYTHING, &[more]].concat();
            let told = [&values[..], &[("logprobs", 2.0), ("post_sampling_probs", 1.0)]].concat();
            assert_eq!(text(&mut sampler(&values, 300), 300, 60), text(&mut sampler(&told, 300), 300, 60));
        }
    }

    #[test]
    fn unlawful_fields_are_refused() {
        let xtc = Xtc { probability: 2.0, threshold: 0.1 };
        let params = SamplingParams { xtc, ..SamplingParams::default() };
        assert!(matches!(Sampler::new(&params, Context::new(2)), Err(SampleError::OutOfRange { .. })));
        assert_eq!(params.get("xtc_probability"), Ok(Value::Float(2.0)));
    }
}

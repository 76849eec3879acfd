//! Drafts of a step: which sequences may get any, what speculation is told of them, and what is handed back.

use crate::{
    answer::Answer,
    engine::results::{Outcome, RowPlace},
    policy::cost::{Cost, Size},
    schedule::{Schedule, Share, StepPlan},
    sequence::{Sequence, purpose::Purpose},
};
use lamina_plan::{Rows, Step};
use lamina_speculate::{
    DraftAsk, DraftBudget, DraftEdits, DraftSlot, DraftedStep, Drafter, Drafts, MOST_DRAFTS, MOST_TUNED,
    Rejected, Speculator, TappedRows, Verification, WantedTaps,
};

/// Sequences with more rows than so in a step get no drafts: most of these rows would be computed again where a
/// recurrent state has to be put back.
const MOST_OWN_ROWS: usize = MOST_DRAFTS + 1;

/// Drafters, and how an engine drafts.
pub(crate) struct Drafting {
    speculator: Speculator,
    rejected: Rejected,
    /// Of requests that do not say.
    width: Option<usize>,
}

/// A plan of a step, into which drafts are put.
struct PlannedStep<'a> {
    plan: &'a mut StepPlan,
    schedule: &'a mut Schedule,
}

impl PlannedStep<'_> {
    fn sequence(&self, share: usize) -> &Sequence {
        &self.schedule.running[self.plan.shares[share].seq]
    }

    fn answer(&mut self, share: usize) -> Option<&mut Answer> {
        match &mut self.schedule.running[self.plan.shares[share].seq].purpose {
            Purpose::Answer(answer) => Some(answer),
            Purpose::Pass { .. } | Purpose::Beams(_) => None,
        }
    }
}

impl DraftedStep for PlannedStep<'_> {
    fn ask(&self, share: usize) -> DraftAsk<'_> {
        ask(self.sequence(share))
    }

    fn legal(&mut self, share: usize, tokens: &[u32]) -> usize {
        let Some(answer) = self.answer(share) else { return 0 };
        let (ends, never) = (&answer.generation.end_tokens, &answer.generation.never);
        let len = tokens.iter().take_while(|t| !ends.contains(t) && !never.contains(t)).count();
        answer.legal(&tokens[..len])
    }

    fn extend(&mut self, share: usize, drafts: usize) -> usize {
        self.schedule.extend(self.plan, share, drafts)
    }

    fn branch(&mut self, share: usize, drafts: usize) -> bool {
        self.schedule.branch(self.plan, share, drafts)
    }

    fn put(&mut self, share: usize, drafts: Drafts, method: &'static str) {
        if let Some(answer) = self.answer(share) {
            answer.speculation.method = method;
            answer.drafts = drafts;
        }
    }
}

impl Drafting {
    /// By `drafters` for a machine, `width` guesses at a time in requests that do not say.
    pub fn new(drafters: Vec<Box<dyn Drafter>>, step: &dyn Step, width: Option<usize>) -> Drafting {
        let recurrent = step.plan().kv.state_len() > 0;
        let rejected = if recurrent { Rejected::Recomputed } else { Rejected::Overwritten };
        Drafting { speculator: Speculator::new(drafters, step), rejected, width }
    }

    /// Names of the drafters.
    pub fn methods(&self) -> Vec<&'static str> {
        self.speculator.methods()
    }

    /// Adds drafts to the sequences of a plan, in rows and pages that are left; no sequence grows beyond `context`.
    pub fn guess(&mut self, plan: &mut StepPlan, schedule: &mut Schedule, cost: &Cost, context: usize) {
        if !self.speculator.guesses() {
            return;
        }
        let room = schedule.left(plan);
        let slots = self.slots(plan, schedule, context, room);
        if slots.is_empty() {
            return;
        }
        let rows = plan.shares.iter().map(|s| s.rows).sum();
        let depth = plan.shares.iter().map(|s| s.start + s.rows).sum::<usize>() / plan.shares.len();
        let answers = plan.shares.iter().filter(|s| s.left == 0).count();
        let seconds = |rows| cost.predict(Size { rows, depth });
        let budget = DraftBudget { seconds: &seconds, rows, answers, room, rejected: self.rejected };
        self.speculator.guess(slots, &mut PlannedStep { plan, schedule }, &budget);
    }

    /// The sequences that may get drafts in a step with `room` rows left.
    fn slots(&self, plan: &StepPlan, schedule: &Schedule, context: usize, room: usize) -> Vec<DraftSlot> {
        // While prompts are computed, rows are not free. A prompt without rows may wait for a step of answers alone to be
        // measured (`Cost::prompt_rows`), which steps with drafts would put off for ever.
        let going_on = |share: &Share| goes_on(share, &schedule.running[share.seq]);
        let all_have = schedule.running.iter().filter(|s| !s.paused).count() == plan.shares.len();
        if !all_have {
            return vec![];
        }
        let quiet = plan.shares.iter().all(going_on);
        let slot = |(i, share): (usize, &Share)| {
            let s = &schedule.running[share.seq];
            let Purpose::Answer(answer) = &s.purpose else { return None };
            let mut speculate = answer.generation.speculate.clone();
            speculate.width = speculate.width.or(self.width);
            let width = speculate.width.unwrap_or(if quiet { MOST_TUNED } else { 0 });
            // The last token of an answer is chosen and not computed.
            let most = width.min(room).min(s.room(context).saturating_sub(1));
            let able = most > 0 && going_on(share);
            able.then(|| DraftSlot::new(i, share.rows, most, speculate))
        };
        plan.shares.iter().enumerate().filter_map(slot).collect()
    }

    /// Hidden rows that drafters want of a share: of an answer that may be drafted those that they keep.
    pub fn wanted(&self, s: &Sequence, share: &Share) -> WantedTaps<'_> {
        let Purpose::Answer(answer) = &s.purpose else { return WantedTaps::default() };
        if answer.generation.speculate.width.or(self.width) == Some(0) || s.whole {
            return WantedTaps::default();
        }
        self.speculator.wanted(s.tokens.len(), share.start..share.start + share.rows + share.drafts)
    }

    /// Hands the hidden rows of a step to the drafters, as far as their tokens are kept.
    pub fn observe(
        &mut self,
        rows: &dyn Rows,
        plan: &StepPlan,
        places: &[RowPlace],
        outcomes: &[Outcome],
        running: &[Sequence],
    ) {
        for ((share, place), outcome) in plan.shares.iter().zip(places).zip(outcomes) {
            let (Some((first, count)), None | Some(Ok(_))) = (place.watched, &outcome.next) else { continue };
            let (s, all) = (&running[share.seq], share.rows + share.drafts);
            let accepted = outcome.verified.accepted();
            let branch = outcome.verified.chain.checked_sub(1);
            let of_first = if branch.is_none() { accepted } else { 0 };
            let kept = (count + share.rows + of_first).saturating_sub(all);
            let tapped = TappedRows { first, count, kept, start: share.start + all - count };
            self.speculator.observe(rows, s.id, tapped);
            if let Some(i) = branch
                && let Some(first) = place.branches[i].watched
            {
                let (count, start) = (s.held.branches[i].drafts, share.start + share.rows);
                self.speculator.observe(rows, s.id, TappedRows { first, count, kept: accepted, start });
            }
        }
    }

    /// Learns what came of a sequence's step; `said` has the likeliest token of the rows of its first chain, where drafters
    /// listen. The result is how many guesses there were.
    pub fn learn(&mut self, s: &mut Sequence, verified: &Verification, said: &[u32]) -> usize {
        let Purpose::Answer(answer) = &mut s.purpose else { return 0 };
        let drafts = std::mem::take(&mut answer.drafts);
        let drafted = self.speculator.learn(&ask(s), &drafts, verified, said);
        if let Purpose::Answer(answer) = &mut s.purpose {
            answer.speculation.count(drafted, verified.accepted());
        }
        drafted
    }

    /// Sequence `to` goes on from where sequence `from` is.
    pub fn fork(&mut self, from: u64, to: &[u64]) {
        self.speculator.fork(from, to);
    }

    /// A sequence has ended.
    pub fn forget(&mut self, s: &Sequence) {
        if matches!(s.purpose, Purpose::Answer(_)) {
            self.speculator.forget(&ask(s));
        }
    }
}

/// True for the rows of an answer that has begun, up to its last token.
fn goes_on(share: &Share, s: &Sequence) -> bool {
    // Drafts beside a window would see what rows in their place do not.
    share.left == 0 && s.answered() > 0 && share.rows <= MOST_OWN_ROWS && s.is_drafted() && !s.closes()
}

fn ask(s: &Sequence) -> DraftAsk<'_> {
    let edits = match &s.purpose {
        Purpose::Answer(answer) => Some(&**answer as &dyn DraftEdits),
        Purpose::Pass { .. } | Purpose::Beams(_) => None,
    };
    let (prompt_len, shared) = (s.prompt_len, s.terms.cache_salt.is_none());
    DraftAsk { prompt_len, shared, edits, ..DraftAsk::new(s.id, &s.tokens, 1) }
}

//! Verification of drafts: which of them are the answer's next tokens, by its own choices.

use crate::{
    answer::{Answer, Chosen},
    drafting::Verified,
    error::Result,
    row::LogitsRow,
};
use lamina_plan::Rows;

/// Chooses an answer's next tokens from the row of its last token, number `first` of the rows with logits, and from
/// those of its drafts behind it, as long as what is chosen is what was drafted. `room` tokens are left to the answer.
///
/// Each choice is made exactly as in a step of its own: mask, penalties, random numbers and stop strings follow from the
/// tokens that were chosen before, and rows behind a wrong draft are never looked at.
///
/// # Errors
/// When the first row leaves no choice; a later one's failure comes behind the tokens before it.
pub(crate) fn choose(
    answer: &mut Answer,
    rows: &dyn Rows,
    first: usize,
    room: usize,
) -> (Result<Chosen>, Verified) {
    let drafts = std::mem::take(&mut answer.drafts.guesses.tokens);
    let mut seen = Verified::default();
    let mut all = match answer.choose(LogitsRow::of(rows, first), room) {
        Ok(chosen) => chosen,
        Err(e) => return (Err(e), seen),
    };
    let mut met = 0;
    loop {
        // Forced tokens may be several: those that were drafted have their rows, and the last of them goes on.
        let news = &all.tokens[met..];
        let same = news.iter().zip(&drafts[seen.accepted..]).take_while(|(t, d)| t.id == **d).count();
        let differs = same < news.len() || news.is_empty();
        seen.accepted += same;
        seen.compared = seen.accepted + usize::from(differs && seen.accepted < drafts.len());
        if differs || all.stop.is_some() || all.tokens.len() >= room {
            break;
        }
        met = all.tokens.len();
        match answer.choose(LogitsRow::of(rows, first + seen.accepted), room - met) {
            Ok(chosen) => all.append(chosen),
            Err(e) => {
                all.failure = Some(e);
                break;
            }
        }
    }
    answer.drafts.guesses.tokens = drafts;
    (Ok(all), seen)
}

//! Purpose of a sequence's rows: an answer, or a pass.

use crate::{answer::Answer, beams::BeamGroup, request::Pass};
use lamina_plan::{Plan, RowKind};

/// Purpose of a sequence's rows: an answer, or a pass.
pub(crate) enum Purpose {
    /// An answer.
    Answer(Box<Answer>),
    /// Rows of the given tokens.
    Pass {
        /// Which rows, and who takes them.
        pass: Pass,
        /// Rows that were handed out.
        handed: usize,
        /// The rows are there without being selected.
        free: bool,
    },
    /// The likeliest answers.
    Beams(Box<BeamGroup>),
}

impl Purpose {
    /// Tokens at the end of the prompt that an answer had before it was cut.
    pub fn resumed(&self) -> usize {
        if let Purpose::Answer(answer) = self {
            answer.generation.resume.map_or(0, |r| r.answered)
        } else {
            0
        }
    }

    /// A pass none of whose rows was handed out.
    pub fn of_pass(pass: Pass, plan: &Plan) -> Purpose {
        Purpose::Pass { free: is_free(&pass, plan), pass, handed: 0 }
    }
}

/// True where a pass wants rows that no selection takes away: behind the last layer, and for logits, there are others.
fn is_free(pass: &Pass, plan: &Plan) -> bool {
    let mark = pass.hidden.and_then(|mark| plan.marks.get(mark));
    mark.is_some_and(|mark| plan.kind(mark.slot) == RowKind::All)
}

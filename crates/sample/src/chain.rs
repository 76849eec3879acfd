//! The parts a request's chain is made of, and how parameters become them.

use super::candidates::Candidates;
use super::params::Group;
use super::stream::Stream;
use super::{Context, SampleError};

/// Changes single logits, knowing what was said before.
pub(super) trait Edit: Send + ForkEdit {
    /// `logits`: the whole row; `history`: every token accepted so far, the prompt's too.
    fn edit(&mut self, logits: &mut [f32], history: &[u32]);

    /// Called after each token has been added to `history`.
    fn accept(&mut self, _history: &[u32]) {}
}

/// Cuts or scales candidates.
pub(super) trait Shape: Send + ForkShape {
    fn apply(&mut self, candidates: &mut Candidates, stream: &mut Stream);

    /// How much of the ranking it looks at, and leaves.
    fn looks(&self) -> Looks {
        Looks::Everything
    }
}

/// Chooses the token.
pub(super) trait Pick: Send + ForkPick {
    fn pick(&mut self, candidates: &mut Candidates, stream: &mut Stream) -> u32;

    /// How much of the ranking it looks at.
    fn looks(&self) -> Looks {
        Looks::Everything
    }

    /// False where no other token could have been chosen.
    fn draws(&self) -> bool {
        true
    }

    /// Mirostat's highest surprise, which moves with every token; none elsewhere.
    fn surprise(&mut self) -> Option<&mut f32> {
        None
    }
}

/// Another answer to the same prompt goes on with a stage from the state that it is in.
macro_rules! forks {
    ($($fork:ident: $stage:ident),*) => {$(
        pub(super) trait $fork {
            fn fork(&self) -> Box<dyn $stage>;
        }

        impl<T: $stage + Clone + 'static> $fork for T {
            fn fork(&self) -> Box<dyn $stage> {
                Box::new(self.clone())
            }
        }
    )*};
}
forks! { ForkEdit: Edit, ForkShape: Shape, ForkPick: Pick }

/// How much of the ranking of candidates a stage looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// All that the stages before it have left.
    Everything,
    /// So many from the front; what is behind them changes nothing.
    Front(usize),
}

/// Stage of a chain that a sampler becomes by its parameters.
pub(super) enum Stage {
    /// Its parameters are neutral, or it has no part in the chain.
    Off,
    /// Changes single logits.
    Edit(Box<dyn Edit>),
    /// Cuts candidates away; left out where a [`Stage::Pick`] chooses in its own way.
    Cut(Box<dyn Shape>),
    /// Reshapes the distribution of all candidates.
    Scale(Box<dyn Shape>),
    /// Chooses in its own way; the first in the list wins.
    Pick(Box<dyn Pick>),
}

pub(super) trait Build: Group {
    fn stage(&self, context: &Context) -> Result<Stage, SampleError>;
}

/// The new value of a logit: an edit leaves what is masked masked and what is certain certain, and it never
/// overflows, so no row of finite logits ends with nothing to choose from.
pub(super) fn edited(logit: f32, edit: impl FnOnce(f32) -> f32) -> f32 {
    if logit.is_finite() { edit(logit).clamp(f32::MIN, f32::MAX) } else { logit }
}

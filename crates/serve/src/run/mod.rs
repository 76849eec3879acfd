//! The one way from a request to its answer: a job goes in, pieces come out, and a dialect's renderer writes them.

mod attempt;
mod collect;
mod delta;
mod draws;
mod embed;
mod form;
mod frames;
pub mod ids;
mod indentation;
mod job;
mod open_choice;
mod prompt;
mod render;
mod rerank;
mod respond;
mod resume;
mod slot_turn;
mod split;
mod stream;

pub use attempt::Attempt;
pub use collect::{AnswerBlock, BlockKind, ToolUse, WholeAnswer, WholeChoice};
pub use delta::{AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Ended, TokenUsage};
pub use draws::{FixedDraws, arrival, asked_at, carried};
pub use embed::{shortened, vectors};
pub use form::{FormSource, WantedForm};
pub use frames::Frames;
pub use job::{AnswerJob, Wishes};
pub use prompt::{JobPrompt, MediaTokens, PromptMedia};
pub use render::{Render, Started};
pub use rerank::{MOST_DOCUMENTS, SentDocument, may_ask, send_documents};
pub use respond::{Observer, RenderedStream, whole};
pub use slot_turn::SlotTurn;
pub use split::Split;
pub use stream::Run;

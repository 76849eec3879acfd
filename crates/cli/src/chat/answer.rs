//! One answer of a conversation.

use super::{
    ChatLoop, Flow,
    partner::{Reply, ReplyEnd},
};
use crate::{error::Result, output::note};

impl ChatLoop {
    /// Answers the last message. A message that cannot be answered is taken back, so that the next one does not fail
    /// for the same reason.
    pub(super) fn answer(&mut self) -> Result<Flow> {
        match self.partner.answer(&mut self.session, &self.wanted) {
            Ok(reply) => {
                self.keep(&reply);
                Ok(Flow::Next)
            }
            Err(e) => {
                self.session.undo();
                Err(e)
            }
        }
    }

    /// Adds the answer to the conversation and says why it ended, where that is not plain.
    fn keep(&mut self, reply: &Reply) {
        let is_empty = reply.text.trim().is_empty() && reply.calls.is_empty();
        match reply.ending {
            ReplyEnd::Complete if is_empty => note("the model ended its answer at once: it is empty"),
            ReplyEnd::Complete => {}
            ReplyEnd::Stopped => note("stopped"),
            ReplyEnd::Limit(words) => note(words),
        }
        if reply.ending == ReplyEnd::Stopped && is_empty {
            // Two messages of the user in a row are what many templates refuse.
            self.session.undo();
        } else {
            self.session.answered(reply.text.trim(), &reply.calls);
            if !reply.calls.is_empty() {
                note("/result TEXT gives the model what a call returned");
            }
        }
        if self.stats {
            note(&reply.stats);
        }
    }
}

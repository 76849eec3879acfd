//! Events on their way: the text of tokens is made, and events are sent, while the machine computes the next step.
//!
//! What the next step depends on is not put off: a token that ends an answer, and the text of answers with stop strings,
//! are known before. All else leaves here, in the order in which it happened.

use crate::events::{
    output::Event,
    sink::{Gone, SharedSink},
    text::AnswerText,
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Where the events of a sequence go.
#[derive(Clone)]
pub(crate) struct EventOutlet {
    sink: SharedSink,
    cancel: Arc<AtomicBool>,
}

impl EventOutlet {
    pub fn new(sink: SharedSink, cancel: Arc<AtomicBool>) -> EventOutlet {
        EventOutlet { sink, cancel }
    }

    /// True when the caller has given up.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// True while the reader keeps up.
    pub fn room(&self) -> bool {
        self.sink.room()
    }

    /// A caller that has gone away needs no events; its cancel flag ends the sequence.
    pub fn send(&self, event: Event) {
        if let Err(Gone) = self.sink.send(event) {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// The text of an answer, which its sequence and its events on their way share.
#[derive(Clone)]
pub(crate) struct SharedText(Arc<Mutex<AnswerText>>);

impl SharedText {
    pub fn new(text: AnswerText) -> SharedText {
        SharedText(Arc::new(Mutex::new(text)))
    }

    pub fn lock(&self) -> MutexGuard<'_, AnswerText> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event on its way.
pub(crate) struct Parcel {
    pub outlet: EventOutlet,
    /// The sequence that it is of.
    pub sequence: u64,
    pub event: Event,
    /// Makes the event's text, where that is still to be done.
    pub text: Option<SharedText>,
    /// Bytes that are held back behind it.
    pub held: usize,
}

/// Text of a sequence that goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentText {
    pub sequence: u64,
    pub bytes: usize,
    /// Bytes that are held back behind it: the beginning of a character or of a stop string.
    pub held: usize,
}

impl Parcel {
    /// True for a token without its text.
    fn is_unspelled(&self) -> bool {
        self.text.is_some() && matches!(self.event, Event::Token(_))
    }

    /// Which answer it is of.
    fn answer(&self) -> Option<*const Mutex<AnswerText>> {
        self.text.as_ref().map(|text| Arc::as_ptr(&text.0))
    }

    /// Makes the text of a token.
    fn spell(&mut self) {
        if let (Event::Token(token), Some(text)) = (&mut self.event, self.text.take()) {
            let mut text = text.lock();
            // A failure is told where the answer ends, which it does at the next step.
            token.text = text.push(token.id).map(|(text, _)| text).unwrap_or_default();
            self.held = text.held();
        }
    }

    /// Makes the text that was held back to the end of an answer.
    fn finish(&mut self) {
        if let (Event::Finished { text: rest, .. }, Some(text)) = (&mut self.event, &self.text) {
            match text.lock().rest() {
                Ok(held) => *rest = held,
                Err(e) => self.event = Event::Failed(e),
            }
        }
    }

    /// The text that it has; none where it is no part of an answer's.
    fn sent(&self) -> Option<SentText> {
        let bytes = match &self.event {
            Event::Token(token) => token.text.len(),
            Event::Finished { text, .. } if !text.is_empty() => text.len(),
            _ => return None,
        };
        Some(SentText { sequence: self.sequence, bytes, held: self.held })
    }
}

/// Events in the order in which they happened.
#[derive(Default)]
pub(crate) struct PendingEvents {
    parcels: Vec<Parcel>,
}

impl PendingEvents {
    pub fn push(&mut self, parcel: Parcel) {
        self.parcels.push(parcel);
    }

    /// Makes texts, one task per answer, and sends everything. `spread` runs tasks on the backend's threads; `told` is told
    /// of each text.
    pub fn flush(
        &mut self,
        spread: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
        mut told: impl FnMut(SentText),
    ) {
        let mut parcels = std::mem::take(&mut self.parcels);
        spell(&mut parcels, spread);
        for mut parcel in parcels.drain(..) {
            parcel.finish();
            parcel.sent().into_iter().for_each(&mut told);
            parcel.outlet.send(parcel.event);
        }
        // Its memory is kept.
        self.parcels = parcels;
    }
}

/// Makes the texts of all tokens that have none.
fn spell(parcels: &mut [Parcel], spread: impl FnOnce(usize, &(dyn Fn(usize) + Sync))) {
    let mut tokens: Vec<&mut Parcel> = parcels.iter_mut().filter(|p| p.is_unspelled()).collect();
    // Stable: the tokens of an answer stay in order.
    tokens.sort_by_key(|p| p.answer());
    let answers: Vec<_> = tokens.chunk_by_mut(|a, b| a.answer() == b.answer()).map(Mutex::new).collect();
    let one = |i: usize| {
        let mut tokens = answers[i].lock().unwrap_or_else(PoisonError::into_inner);
        tokens.iter_mut().for_each(|token| token.spell());
    };
    match answers.len() {
        0 => {}
        1 => one(0),
        n => spread(n, &one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::output::{FinishReason, Timings, Token};
    use lamina_sample::stop::{StopSet, StopText};
    use std::sync::mpsc::channel;

    #[test]
    fn events_go_out_in_their_order_and_texts_are_made_by_any_thread() {
        let (sender, receiver) = channel();
        let outlet = EventOutlet::new(SharedSink::new(Box::new(sender)), Arc::default());
        let stop = Arc::new(StopSet::default());
        let texts = [0, 1].map(|_| SharedText::new(AnswerText::new(None, &[], &stop, StopText::Exclude)));
        let mut outbox = PendingEvents::default();
        for (index, id) in [(0, 7), (1, 8), (0, 9)] {
            let token = Token {
                index,
                id,
                text: String::new(),
                forced: false,
                logprob: None,
                top: vec![],
                sampler: None,
            };
            let text = Some(texts[index].clone());
            outbox.push(Parcel {
                outlet: outlet.clone(),
                sequence: index as u64,
                event: Event::Token(token),
                text,
                held: 0,
            });
        }
        let (reason, timings) = (FinishReason::Cancelled, Timings::default());
        let event =
            Event::Finished { index: 1, text: String::new(), reason, complete: None, sampler: None, timings };
        outbox.push(Parcel { outlet, sequence: 1, event, text: Some(texts[1].clone()), held: 0 });
        let mut sent = vec![];
        outbox.flush(|n, task| (0..n).rev().for_each(task), |text| sent.push(text.sequence));
        assert_eq!(sent, [0, 1, 0], "an end without text sends none");
        let ids: Vec<_> = receiver
            .try_iter()
            .map(|e| match e {
                Event::Token(t) => (t.index, t.id),
                Event::Finished { index, .. } => (index, 0),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids, [(0, 7), (1, 8), (0, 9), (1, 0)]);
        outbox.flush(|_, _| panic!("nothing is left"), |_| panic!("nothing is left"));
    }
}

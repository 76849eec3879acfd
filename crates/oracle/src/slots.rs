//! Staging slots of a simulated device, and the link that fills them.

use lamina_base::Bytes;
use lamina_disk::{BufferPool, LentBuffer};
use lamina_plan::{BackendError, Ops, SentWeight, WeightId, backend::Result, staged_bytes};
use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

/// What happened to a staging slot, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingEvent {
    /// Weights began to be copied to it.
    Sent(usize, Vec<WeightId>),
    /// They were there: operators multiply with them from now on.
    Arrived(usize),
    /// No operator needs them any more.
    Released(usize),
}

/// A matrix in a slot: its weight, which of its matrices it is, and its bytes there.
type PlacedMatrix = (WeightId, usize, Range<usize>);

/// What was sent to a slot.
struct SlotContents {
    buffer: LentBuffer,
    /// All weights that have a place in it.
    weights: Vec<WeightId>,
    placed: Vec<PlacedMatrix>,
    /// When it is there.
    there: Instant,
}

/// What is in a slot.
enum SimulatedSlot {
    Free,
    /// On its way, or there.
    Sent(SlotContents),
    /// Bound.
    Arrived(Vec<PlacedMatrix>),
}

/// Staging slots of a simulated device.
pub(crate) struct SimulatedSlots {
    memory: BufferPool,
    slots: Vec<SimulatedSlot>,
    /// Bytes of a slot.
    bytes: usize,
    /// The link is busy until then.
    busy: Instant,
    /// Until when operators read what was in each slot.
    used: Vec<Instant>,
}

impl SimulatedSlots {
    pub fn new(slots: usize, bytes: usize) -> SimulatedSlots {
        SimulatedSlots {
            memory: BufferPool::new(slots, bytes),
            slots: (0..slots).map(|_| SimulatedSlot::Free).collect(),
            bytes,
            busy: Instant::now(),
            used: vec![Instant::now(); slots],
        }
    }

    /// Copies weights to a slot, beside what is there of the same weights. They are there when the link, at so many bytes per
    /// second, has sent them and all before; it begins when no operator reads any more what was in the slot.
    pub fn send(&mut self, slot: usize, weights: &[SentWeight], rate: f64) -> Result<()> {
        let need: usize = weights.iter().map(|w| staged_bytes(w.len)).sum();
        match self.slots.get(slot) {
            Some(SimulatedSlot::Arrived(_)) => return Err(wrong(format!("staging slot {slot} is in use"))),
            Some(_) if need <= self.bytes => {}
            _ => return Err(wrong(format!("{need} bytes of weights in slot {slot} of {}", self.bytes))),
        }
        let named: Vec<WeightId> = weights.iter().map(|w| w.weight).collect();
        let (mut buffer, mut placed) = match std::mem::replace(&mut self.slots[slot], SimulatedSlot::Free) {
            SimulatedSlot::Sent(sent) if sent.weights == named => (sent.buffer, sent.placed),
            before => {
                drop(before);
                let full = || wrong("more staging slots in use than there are".to_owned());
                (self.memory.lend().ok_or_else(full)?, vec![])
            }
        };
        let mut at = 0;
        for sent in weights {
            for (piece, bytes) in sent.matrices() {
                let Range { start, end } = sent.place(&(piece..piece + 1));
                buffer[at + start..at + end].copy_from_slice(&bytes);
                placed.push((sent.weight, piece, at + start..at + end));
            }
            at += staged_bytes(sent.len);
        }
        let copied: usize = weights.iter().map(SentWeight::copied_bytes).sum();
        let there = self.busy.max(Instant::now()).max(self.used[slot])
            + Duration::from_secs_f64(copied as f64 / rate);
        self.busy = there;
        self.slots[slot] = SimulatedSlot::Sent(SlotContents { buffer, weights: named, placed, there });
        Ok(())
    }

    /// Sleeps until what was sent to a slot is there.
    pub fn settle(&self, slot: usize) {
        if let Some(SimulatedSlot::Sent(sent)) = self.slots.get(slot) {
            thread::sleep(sent.there.saturating_duration_since(Instant::now()));
        }
    }

    /// Binds what was sent to a slot; tells when it is there.
    pub fn arrive(&mut self, machine: &mut dyn Ops, slot: usize) -> Result<Instant> {
        let SimulatedSlot::Sent(SlotContents { buffer, placed, there, .. }) =
            std::mem::replace(&mut self.slots[slot], SimulatedSlot::Free)
        else {
            return Err(wrong(format!("nothing was sent to staging slot {slot}")));
        };
        let bytes = Bytes::new(buffer);
        for (weight, piece, at) in &placed {
            machine.bind(*weight, *piece, bytes.slice(at.clone()))?;
        }
        self.slots[slot] = SimulatedSlot::Arrived(placed);
        Ok(there)
    }

    /// Takes what is in a slot away from the machine, whose operators read it until `done`.
    pub fn release(&mut self, machine: &mut dyn Ops, slot: usize, done: Instant) -> Result<()> {
        self.used[slot] = done;
        if let SimulatedSlot::Arrived(placed) = std::mem::replace(&mut self.slots[slot], SimulatedSlot::Free)
        {
            placed.into_iter().try_for_each(|(weight, piece, _)| machine.bind(weight, piece, None))?;
        }
        Ok(())
    }
}

fn wrong(what: String) -> BackendError {
    BackendError::Unsupported { backend: "simulated device", what }
}

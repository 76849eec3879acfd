//! Staging slots of a simulated device, and the link that fills them.

use lamina_base::Bytes;
use lamina_disk::{BufferPool, LentBuffer};
use lamina_plan::{BackendError, Ops, SentWeight, WeightId, backend::Result, staged_bytes};
use std::{
    ops::Range,
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

/// What is in a slot.
enum SimulatedSlot {
    Free,
    /// On its way, until then.
    Sent(LentBuffer, Vec<PlacedMatrix>, Instant),
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

    /// Copies weights to a slot. They are there when the link, at so many bytes per second, has sent them and all before;
    /// it begins when no operator reads any more what was in the slot.
    pub fn send(&mut self, slot: usize, weights: &[SentWeight], rate: f64) -> Result<()> {
        let need: usize = weights.iter().map(|w| staged_bytes(w.bytes.len())).sum();
        match self.slots.get(slot) {
            Some(SimulatedSlot::Arrived(_)) => return Err(wrong(format!("staging slot {slot} is in use"))),
            Some(_) if need <= self.bytes => self.slots[slot] = SimulatedSlot::Free,
            _ => return Err(wrong(format!("{need} bytes of weights in slot {slot} of {}", self.bytes))),
        }
        let full = || wrong("more staging slots in use than there are".to_owned());
        let mut buffer = self.memory.lend().ok_or_else(full)?;
        let (mut at, mut placed) = (0, vec![]);
        for sent in weights {
            for piece in sent.copied() {
                let (from, to) =
                    (sent.piece(piece), sent.piece(piece).start + at..sent.piece(piece).end + at);
                buffer[to.clone()].copy_from_slice(&sent.bytes[from]);
                placed.push((sent.weight, piece, to));
            }
            at += staged_bytes(sent.bytes.len());
        }
        let copied: usize = weights.iter().map(SentWeight::copied_bytes).sum();
        self.busy = self.busy.max(Instant::now()).max(self.used[slot])
            + Duration::from_secs_f64(copied as f64 / rate);
        self.slots[slot] = SimulatedSlot::Sent(buffer, placed, self.busy);
        Ok(())
    }

    /// Binds what was sent to a slot; tells when it is there.
    pub fn arrive<M: Ops>(&mut self, machine: &mut M, slot: usize) -> Result<Instant> {
        let SimulatedSlot::Sent(buffer, placed, there) =
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
    pub fn release<M: Ops>(&mut self, machine: &mut M, slot: usize, done: Instant) -> Result<()> {
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

//! Staging slots of a simulated device, and the link that fills them.

use lamina_base::Bytes;
use lamina_disk::{BufferPool, LentBuffer};
use lamina_plan::{BackendError, Ops, SentWeight, WeightId, backend::Result, staged_bytes};
use std::{
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

/// A weight in a slot: its pieces, and its first byte and bytes there.
type PlacedWeight = (WeightId, usize, usize, usize);

/// What is in a slot.
enum SimulatedSlot {
    Free,
    /// On its way, until then.
    Sent(LentBuffer, Vec<PlacedWeight>, Instant),
    /// Bound.
    Arrived(Vec<PlacedWeight>),
}

/// Staging slots of a simulated device.
pub(crate) struct SimulatedSlots {
    memory: BufferPool,
    slots: Vec<SimulatedSlot>,
    /// Bytes of a slot.
    bytes: usize,
    /// The link is busy until then.
    busy: Instant,
}

impl SimulatedSlots {
    pub fn new(slots: usize, bytes: usize) -> SimulatedSlots {
        SimulatedSlots {
            memory: BufferPool::new(slots, bytes),
            slots: (0..slots).map(|_| SimulatedSlot::Free).collect(),
            bytes,
            busy: Instant::now(),
        }
    }

    /// Copies weights to a slot. They are there when the link, at so many bytes per second, has sent them and all before.
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
        for SentWeight { weight, pieces, bytes } in weights {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            placed.push((*weight, *pieces, at, bytes.len()));
            at += staged_bytes(bytes.len());
        }
        self.busy = self.busy.max(Instant::now()) + Duration::from_secs_f64(need as f64 / rate);
        self.slots[slot] = SimulatedSlot::Sent(buffer, placed, self.busy);
        Ok(())
    }

    /// Waits for what was sent to a slot, and binds it.
    pub fn arrive<M: Ops>(&mut self, machine: &mut M, slot: usize) -> Result<()> {
        let SimulatedSlot::Sent(buffer, placed, there) =
            std::mem::replace(&mut self.slots[slot], SimulatedSlot::Free)
        else {
            return Err(wrong(format!("nothing was sent to staging slot {slot}")));
        };
        thread::sleep(there.saturating_duration_since(Instant::now()));
        let bytes = Bytes::new(buffer);
        for &(weight, pieces, at, len) in &placed {
            let each = len / pieces.max(1);
            for i in 0..pieces {
                let first = at + i * each;
                machine.bind(weight, i, bytes.slice(first..first + each))?;
            }
        }
        self.slots[slot] = SimulatedSlot::Arrived(placed);
        Ok(())
    }

    /// Takes what is in a slot away from the machine.
    pub fn release<M: Ops>(&mut self, machine: &mut M, slot: usize) -> Result<()> {
        if let SimulatedSlot::Arrived(placed) = std::mem::replace(&mut self.slots[slot], SimulatedSlot::Free)
        {
            for (weight, pieces, ..) in placed {
                (0..pieces).try_for_each(|i| machine.bind(weight, i, None))?;
            }
        }
        Ok(())
    }
}

fn wrong(what: String) -> BackendError {
    BackendError::Unsupported { backend: "simulated device", what }
}

//! Brings rows from one of two machines to the other.

use crate::{tier_plan::SlotHolders, tier_side::TierSide};
use lamina_plan::{Batch, Ops, Slot, SlotSpec, backend::Result};

/// Which of two machines have the rows of each slot in a step, and what brings them to the other.
pub(crate) struct RowTransfer {
    slots: Vec<SlotSpec>,
    holders: SlotHolders,
    /// Rows on their way.
    rows: Vec<f32>,
    /// Bytes of rows that have crossed.
    bytes: u64,
}

impl RowTransfer {
    pub fn new(slots: &[SlotSpec]) -> RowTransfer {
        RowTransfer { slots: slots.to_vec(), holders: SlotHolders::new(slots.len()), rows: vec![], bytes: 0 }
    }

    /// Begins a step: no rows are anywhere.
    pub fn begin(&mut self) {
        self.holders.clear();
    }

    /// Who has which rows.
    pub fn holders(&self) -> &SlotHolders {
        &self.holders
    }

    /// Bytes of rows that have crossed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Slots whose rows are others from now on, on `side` alone.
    pub fn wrote(&mut self, slots: &[Slot], side: TierSide) {
        slots.iter().for_each(|&slot| self.holders.write(slot, side));
    }

    /// Brings the rows of a slot to `to`, unless they are there.
    pub fn cross(
        &mut self,
        (device, host): (&mut dyn Ops, &mut dyn Ops),
        b: &Batch,
        slot: Slot,
        to: TierSide,
    ) -> Result<()> {
        if !self.holders.misses(slot, to) {
            return Ok(());
        }
        let rows = 0..b.count(self.slots[slot.0 as usize].rows);
        if !rows.is_empty() {
            match to {
                TierSide::Device => {
                    host.read(slot, rows.clone(), &mut self.rows)?;
                    device.write(slot, rows, &self.rows)?;
                }
                TierSide::Host => {
                    device.read(slot, rows.clone(), &mut self.rows)?;
                    host.write(slot, rows, &self.rows)?;
                }
            }
            self.bytes += size_of_val(&self.rows[..]) as u64;
        }
        self.holders.bring(slot, to);
        Ok(())
    }
}

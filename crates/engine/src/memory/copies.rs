//! Copies of pages and states that the machine still has to make.

use lamina_plan::batch::Copy;

/// Copies in order, in two parts.
#[derive(Default)]
pub(crate) struct Copies {
    /// In no plan yet.
    due: Vec<Copy>,
    /// In the plan of the next step, which was not run yet.
    planned: Vec<Copy>,
}

impl Copies {
    /// Adds a copy behind those that are due.
    pub fn push(&mut self, copy: Copy) {
        self.due.push(copy);
    }

    /// Copies that are in no plan yet: before them nothing may be put into pages and states.
    pub fn due(&self) -> &[Copy] {
        &self.due
    }

    /// Takes the due ones, to be made at once.
    pub fn take(&mut self) -> Vec<Copy> {
        std::mem::take(&mut self.due)
    }

    /// Takes the due ones for the plan of the next step: what they fill is not there yet.
    pub fn plan(&mut self) -> Vec<Copy> {
        let copies = self.take();
        self.planned.extend_from_slice(&copies);
        copies
    }

    /// A step is planned: all copies of the one before were made.
    pub fn begin_plan(&mut self) {
        self.planned.clear();
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Copies::default();
    }

    /// True where a state holds what it is known for: no copy into it is still to be made.
    pub fn have_filled(&self, state: u32) -> bool {
        let fills = |copy: &Copy| matches!(copy, Copy::State { to, .. } if *to == state);
        !self.due.iter().chain(&self.planned).any(fills)
    }
}

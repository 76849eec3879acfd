//! A machine without its fused operators: they fall back to the default bodies, which are their meaning.

use lamina_plan::{Ops, Wrapper};

/// A machine with plain operators only.
pub struct Unfused(pub Box<dyn Ops>);

impl Wrapper for Unfused {
    const FUSED: bool = false;

    fn inner(&self) -> &dyn Ops {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.0
    }
}

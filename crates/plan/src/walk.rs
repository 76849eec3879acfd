//! A list of operators on a machine, recorded or run one by one.

use crate::{
    batch::Batch,
    error::Result,
    op::{Op, Ops, run},
};

/// Runs `ops` in order, or a recording of them where the machine has one.
///
/// # Errors
/// The first one that an operator returns.
pub fn walk(machine: &mut dyn Ops, ops: &[Op], b: &Batch) -> Result<()> {
    if machine.replay(b, ops)? {
        return Ok(());
    }
    let done = ops.iter().try_for_each(|op| run(machine, op, b));
    // The first error tells more than one of a recording that it ended.
    let recorded = machine.recorded(done.is_ok());
    done.and(recorded)
}

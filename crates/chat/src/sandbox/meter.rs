//! What one rendering may cost. A template is a program of a stranger, and the engine's own fuel counts
//! instructions only: one `~` may copy a gigabyte. So every operation that copies, prints, compares or builds asks
//! here first, and a rendering ends with an error when it has used up its share.
//!
//! All limits count, none reads a clock: the same template and conversation give the same answer on a busy machine.

use std::cell::Cell;

use minijinja::{Error, ErrorKind};

/// Instructions of the engine, and more for each byte of the conversation: 100 times a usual one takes below a third.
const INSTRUCTIONS: u64 = 3_000_000;
const INSTRUCTIONS_PER_BYTE: u64 = 4;
/// Loops within loops and macros within macros, of which a macro counts as five. A name is looked for in each, so that
/// an instruction may take so many times longer than its share.
pub(super) const FRAMES: usize = 200;
/// Nanoseconds, roughly, of copying, printing, comparing and calling.
const WORK: u64 = 300_000_000;
/// Bytes of all strings and lists that a rendering makes. What is freed does not come back, as nothing tells, except
/// where a namespace grows a text piece by piece ([`returned`]): so many are alive at most.
const MEMORY: u64 = 128 << 20;
/// On top of [`MEMORY`], for each byte of the conversation.
const MEMORY_PER_BYTE: u64 = 32;
/// Containers that hold containers. Each may hang inside the last one, and to free such a chain takes a stack frame
/// for each: [`super::stack::SIZE`] has room for so many.
const NESTS: u32 = 200_000;
/// How deep a value may be that is printed, compared or written as JSON.
pub(super) const DEPTH: usize = 200;
/// Bytes that one item of a list takes.
pub(super) const ITEM: usize = 32;

thread_local! {
    /// Rendering has a thread of its own, so the meter of a thread is that of a rendering.
    static METER: RenderMeter = const { RenderMeter::empty() };
}

struct RenderMeter {
    work: Cell<u64>,
    memory: Cell<u64>,
    nests: Cell<u32>,
}

impl RenderMeter {
    const fn empty() -> RenderMeter {
        RenderMeter { work: Cell::new(0), memory: Cell::new(0), nests: Cell::new(0) }
    }
}

/// The mark of an error of this module: it is told apart from a template's own failures.
#[derive(Debug)]
pub(super) struct Exceeded(pub String);

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Exceeded {}

/// An error that says which limit was met.
pub(super) fn exceeded(problem: impl Into<String>) -> Error {
    let problem = problem.into();
    Error::new(ErrorKind::InvalidOperation, problem.clone()).with_source(Exceeded(problem))
}

/// What the engine may run for a conversation of `bytes` bytes.
pub(super) fn instructions(bytes: usize) -> u64 {
    INSTRUCTIONS.saturating_add(INSTRUCTIONS_PER_BYTE.saturating_mul(bytes as u64))
}

/// Fills the meter for a rendering of a conversation of `bytes` bytes.
pub(super) fn fill(bytes: usize) {
    METER.with(|meter| {
        meter.work.set(WORK + 100 * bytes as u64);
        meter.memory.set(MEMORY + MEMORY_PER_BYTE * bytes as u64);
        meter.nests.set(NESTS);
    });
}

/// Takes `units` of work, about a nanosecond each.
pub(super) fn work(units: usize) -> Result<(), Error> {
    METER.with(|meter| match meter.work.get().checked_sub(units as u64) {
        Some(left) => {
            meter.work.set(left);
            Ok(())
        }
        None => Err(exceeded("it took more steps than any conversation needs")),
    })
}

/// Takes the memory of something that is about to be made.
pub(super) fn memory(bytes: usize) -> Result<(), Error> {
    affordable(bytes)?;
    // Copies run at a dozen bytes a nanosecond.
    work(1 + bytes / 16)?;
    METER.with(|meter| meter.memory.set(meter.memory.get() - bytes as u64));
    Ok(())
}

/// Gives back the memory of something that is freed for certain.
pub(super) fn returned(bytes: usize) {
    METER.with(|meter| meter.memory.set(meter.memory.get() + bytes as u64));
}

/// Whether so much memory is left: asked before an operation whose exact size shows only afterwards.
pub(super) fn affordable(bytes: usize) -> Result<(), Error> {
    METER.with(|meter| match bytes as u64 <= meter.memory.get() {
        true => Ok(()),
        false => Err(exceeded("it made more text than any conversation needs")),
    })
}

/// Counts a container that holds a container.
pub(super) fn nest() -> Result<(), Error> {
    METER.with(|meter| match meter.nests.get().checked_sub(1) {
        Some(left) => {
            meter.nests.set(left);
            Ok(())
        }
        None => Err(exceeded("it nests more lists than any conversation needs")),
    })
}

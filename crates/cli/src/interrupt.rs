//! Ctrl-C. It ends the program at once with code 130, unless a conversation catches it, or work that leaves half-written
//! files behind otherwise.

use crate::output::{note, watched};
use std::{
    io::{self, Write},
    process,
    sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst},
};

/// Exit code after Ctrl-C: 128 and the number of SIGINT.
pub const CODE: i32 = 130;

/// What Ctrl-C does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum On {
    /// Ends the program.
    Exit,
    /// Is kept for [`hit`].
    Catch,
    /// Says how to quit.
    Hint,
    /// Says how to quit, and the next one ends the program.
    HintOnce,
}

const MODES: [On; 4] = [On::Exit, On::Catch, On::Hint, On::HintOnce];

static MODE: AtomicU8 = AtomicU8::new(On::Exit as u8);
static HIT: AtomicBool = AtomicBool::new(false);

/// Listens from now on.
pub fn install() {
    // Fails where the host program listens already; then its rules hold.
    let _ = ctrlc::set_handler(handle);
}

/// What the next Ctrl-C does.
pub fn set(on: On) {
    HIT.store(false, SeqCst);
    MODE.store(on as u8, SeqCst);
}

/// True once after a Ctrl-C under [`On::Catch`].
pub fn hit() -> bool {
    HIT.swap(false, SeqCst)
}

/// Helps those who press Ctrl-C where there is nothing to stop.
pub fn hint() {
    note("Ctrl-C stops an answer; /quit or Ctrl-D ends the conversation");
}

/// Runs on a thread of its own, so it may write and exit.
fn handle() {
    match MODES[usize::from(MODE.load(SeqCst)) % MODES.len()] {
        On::Exit => {
            // The shell's prompt begins on a line of its own. Nobody is left to hear that stderr is closed.
            let _ = if watched() { writeln!(io::stderr()) } else { Ok(()) };
            process::exit(CODE)
        }
        On::Catch => HIT.store(true, SeqCst),
        On::Hint => hint(),
        On::HintOnce => {
            set(On::Exit);
            hint();
        }
    }
}

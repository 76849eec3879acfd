//! The `lamina` command.
#![forbid(unsafe_code)]

use std::{env::args_os, process::exit, thread};

#[global_allocator]
static MEMORY: lamina_reserve::WithReserve = lamina_reserve::WithReserve;

/// Of the thread that works. The main thread's own stack grows while it is used, and where the address space is limited
/// and has ended, that is a fault and no error.
const STACK: usize = 8 << 20;

fn main() {
    let worker = || thread::Builder::new().stack_size(STACK).spawn(|| lamina_cli::run(args_os())).ok();
    // With what a thread takes beside its stack: one that does not get that ends the process.
    let room = lamina_reserve::keep() && lamina_reserve::affordable(STACK + (4 << 20));
    match room.then(worker).flatten() {
        // A panic was told by its hook, and ends with the code that Rust gives it.
        Some(worker) => exit(worker.join().unwrap_or(101)),
        None => {
            eprintln!("error: there is not enough memory to start");
            exit(1)
        }
    }
}

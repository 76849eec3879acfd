//! The `lamina` command.
#![forbid(unsafe_code)]

fn main() {
    std::process::exit(lamina_cli::run(std::env::args_os()));
}

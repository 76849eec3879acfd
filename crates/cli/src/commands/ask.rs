//! Commands whose work a server can do: around each lie the flags of a server, which decide who does it.

use super::Execute;
use crate::{args::ServerArgs, error::Result, remote::RemoteServer};
use clap::{ArgMatches, Args, FromArgMatches};

/// A command whose work a server can do.
pub trait Ask: Execute {
    /// Its flags that only a server has a use for.
    type Flags: Args;
    /// Its flags that need a model on this machine, beside those of loading one.
    const LOCAL: &'static [&'static str];

    /// Does it with a model of `server`.
    fn ask(self, server: RemoteServer, flags: Self::Flags) -> Result<()>;
}

/// The command `C` with the flags of servers.
pub fn define<C: Ask>() -> clap::Command {
    let command = C::augment_args(clap::Command::new(C::NAME));
    // Sets of flags would describe the command as well.
    let about = command.get_about().cloned().unwrap_or_default();
    let whole = command.get_long_about().unwrap_or(&about).clone();
    let command = ServerArgs::augment_args(C::Flags::augment_args(command)).about(about).long_about(whole);
    command.mut_arg("server", |arg| arg.conflicts_with_all(C::LOCAL))
}

/// Does `C` with a model of the server that is named, or else with one of this machine.
pub fn execute<C: Ask>(matches: &ArgMatches) -> Result<()> {
    let command = C::from_arg_matches(matches)?;
    match RemoteServer::named(&ServerArgs::from_arg_matches(matches)?)? {
        Some(server) => command.ask(server, C::Flags::from_arg_matches(matches)?),
        None => command.execute(),
    }
}

//! `lamina login` and `lamina logout`: the token of who asks the hub.

use super::Execute;
use crate::{
    error::{CliError, Result},
    output::note,
};
use lamina::hub::Hub;
use std::io::{self, BufRead, IsTerminal};

/// Keep a token of the hub for gated and private models; it is read from stdin
///
/// All programs that use the hub's cache read it from the same file. HF_TOKEN wins over it.
#[derive(clap::Args)]
pub struct LoginArgs {}

/// Forget the token that `lamina login` keeps
#[derive(clap::Args)]
pub struct LogoutArgs {}

impl Execute for LoginArgs {
    const NAME: &'static str = "login";

    fn execute(self) -> Result<()> {
        let hub = Hub::of_the_environment();
        if io::stdin().is_terminal() {
            note(&format!(
                "a token for reading, made at {}/settings/tokens (what you type is not shown):",
                hub.settings.endpoint
            ));
        }
        let token = secret_line()?;
        let token = token.trim();
        if token.is_empty() {
            return Err(CliError::usage("a token is missing on stdin"));
        }
        let name = hub.login(token).map_err(lamina::name_error)?;
        note(&format!("logged in as {name}; the token is in {}", hub.settings.token_file.display()));
        Ok(())
    }
}

/// A line of stdin, which a terminal does not show.
fn secret_line() -> Result<String> {
    let mut line = String::new();
    match io::stdin().is_terminal() {
        true => line = console::Term::stderr().read_secure_line().map_err(CliError::Terminal)?,
        false => _ = io::stdin().lock().read_line(&mut line).map_err(CliError::Input)?,
    }
    Ok(line)
}

impl Execute for LogoutArgs {
    const NAME: &'static str = "logout";

    fn execute(self) -> Result<()> {
        let hub = Hub::of_the_environment();
        let told = match hub.logout().map_err(lamina::name_error)? {
            true => "the token is forgotten",
            false => "no token was kept",
        };
        note(told);
        Ok(())
    }
}

//! `lamina man`: the manual's pages.

use super::{Execute, parser};
use crate::{
    error::{CliError, Result},
    output,
    write_file::write_file,
};
use clap_mangen::Man;
use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::Command,
};

/// Show the manual's page of a command; without a terminal, write it as roff
#[derive(clap::Args)]
pub struct ManArgs {
    /// The command; without one, the page of all
    command: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Execute for ManArgs {
    const NAME: &'static str = "man";

    fn execute(self) -> Result<()> {
        let whole = whole();
        if let Some(dir) = &self.dir {
            let mut all = [&whole].into_iter().chain(whole.get_subcommands());
            return all.try_for_each(|command| {
                let page = Man::new(command.clone());
                write_file(&dir.join(page.get_filename()), &roff(command)?)
            });
        }
        let command = match &self.command {
            None => &whole,
            Some(name) => whole
                .find_subcommand(name)
                .ok_or_else(|| CliError::usage(&format!("there is no command `{name}`")))?,
        };
        let page = roff(command)?;
        if io::stdout().is_terminal() && shown(&page)? {
            return Ok(());
        }
        output::text(&String::from_utf8_lossy(&page))
    }
}

/// The command line with the names that pages have.
fn whole() -> clap::Command {
    let mut whole = parser().disable_help_subcommand(true);
    whole.build();
    whole
}

fn roff(command: &clap::Command) -> Result<Vec<u8>> {
    let mut page = vec![];
    Man::new(command.clone())
        .manual("Lamina")
        .source(concat!("lamina ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    Ok(page)
}

/// Shows a page as the system shows its own; false where there is no `man`.
fn shown(page: &[u8]) -> Result<bool> {
    let mut file = tempfile::Builder::new().prefix("lamina").suffix(".1").tempfile()?;
    file.write_all(page)?;
    Ok(Command::new("man").arg(file.path()).status().is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_it() {
        for command in whole().get_subcommands() {
            let page = String::from_utf8(roff(command).expect("a page")).expect("text");
            let name = command.get_name();
            let shown = format!("lamina\\-{}", name.replace('-', "\\-"));
            assert!(page.contains(&shown), "{name}: {}", &page[..200]);
            assert!(page.contains(".SH OPTIONS") && page.contains(".SH SYNOPSIS"), "{name}");
        }
    }
}

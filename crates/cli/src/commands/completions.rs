//! `lamina completions`: scripts for shells.

use super::Execute;
use crate::{completion, error::Result, output, write_file::write_file};
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};

/// Write the script by which a shell completes commands, options, files and names of models
///
/// bash: lamina completions bash > ~/.local/share/bash-completion/completions/lamina
/// zsh: lamina completions zsh > DIR/_lamina, with DIR in $fpath before compinit runs
/// fish: lamina completions fish > ~/.config/fish/completions/lamina.fish
/// powershell: lamina completions powershell | Out-String | Invoke-Expression, in $PROFILE
/// elvish: eval (lamina completions elvish | slurp), in rc.elv
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(required_unless_present = "dir", value_parser = shells())]
    shell: Option<String>,
    /// Write those of bash, zsh and fish below this folder, where packages have them
    #[arg(long, value_name = "DIR", conflicts_with = "shell")]
    dir: Option<PathBuf>,
}

/// Where packages put scripts, below `share`.
const FILES: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/lamina"),
    ("fish", "fish/vendor_completions.d/lamina.fish"),
    ("zsh", "zsh/site-functions/_lamina"),
];

fn shells() -> PossibleValuesParser {
    PossibleValuesParser::new(completion::SHELLS.names())
}

fn script(shell: &str) -> Result<Vec<u8>> {
    completion::SHELLS.completer(shell).map_or(Ok(vec![]), completion::script)
}

impl Execute for CompletionsArgs {
    const NAME: &'static str = "completions";

    fn execute(self) -> Result<()> {
        if let Some(dir) = &self.dir {
            let file = |(shell, path): &(&str, &str)| write_file(&dir.join(Path::new(path)), &script(shell)?);
            return FILES.iter().try_for_each(file);
        }
        let script = script(self.shell.as_deref().unwrap_or_default())?;
        output::text(&String::from_utf8_lossy(&script))
    }
}

#[cfg(test)]
mod tests {
    use crate::{commands::parser, completion};

    #[test]
    fn what_is_completed_is_there() {
        completion::with_names(parser()).debug_assert();
        let parser = parser();
        let ids: Vec<_> =
            parser.get_subcommands().flat_map(clap::Command::get_arguments).map(|a| a.get_id()).collect();
        for name in completion::MODELS.into_iter().chain(completion::NAMES) {
            assert!(ids.iter().any(|id| id.as_str() == name), "{name}");
        }
    }
}

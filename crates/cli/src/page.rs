//! The page of the command line, `docs/cli.md`, from its definition.

use crate::commands;
use clap::{Arg, Command, builder::StyledStr};
use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

const HEAD: &str = "\
# Command line

Made from the definition that `lamina --help` and the manual's pages (`lamina man`) are made from. Options of many commands stand
in the tables at the end.
";
/// Options of so many commands stand once, at the end.
const SHARED: usize = 3;

/// A cell of a table or a paragraph: one line, with what Markdown would take for marks kept as it is.
fn text(text: &StyledStr) -> String {
    let text = text.to_string();
    let mut lines = String::new();
    for line in text.split('\n').map(str::trim) {
        lines.push_str(if lines.is_empty() { "" } else { " " });
        lines.push_str(line);
    }
    lines.trim().replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*").replace('[', "\\[")
}

/// How an option or an argument is written.
fn written(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let values = if arg.get_action().takes_values() { values } else { String::new() };
    match arg.get_long() {
        None => format!("`{values}`"),
        Some(long) => {
            let short = arg.get_short().map_or(String::new(), |letter| format!("`-{letter}` "));
            format!("{short}`--{long}{}{values}`", if values.is_empty() { "" } else { " " })
                .replace('|', "\\|")
        }
    }
}

fn row(arg: &Arg) -> String {
    let help = arg.get_help().map(text).unwrap_or_default();
    let default: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    let default = match default.is_empty() || !arg.get_action().takes_values() {
        true => String::new(),
        false => format!(" (`{}`)", default.join(" ")),
    };
    let values: Vec<_> = match arg.get_action().takes_values() {
        true => arg.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect(),
        false => vec![],
    };
    let values = if values.is_empty() { String::new() } else { format!(": {}", values.join(" ")) };
    format!("| {} | {help}{values}{default} |\n", written(arg))
}

/// What makes an option the same in several commands.
fn key(arg: &Arg) -> (String, String) {
    (written(arg), arg.get_help().map(text).unwrap_or_default())
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version")
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or("Other")
}

fn page() -> String {
    let mut parser = commands::parser().disable_help_subcommand(true);
    parser.build();
    let mut uses: BTreeMap<(String, String), usize> = BTreeMap::new();
    parser.get_subcommands().flat_map(arguments).for_each(|arg| *uses.entry(key(arg)).or_default() += 1);
    let shared = |arg: &Arg| arg.get_long().is_some() && uses[&key(arg)] >= SHARED;
    let mut out = HEAD.to_owned();
    let mut common: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for command in parser.get_subcommands() {
        section(&mut out, command, &shared);
        for arg in arguments(command).filter(|arg| shared(arg)) {
            common.entry(heading(arg)).or_default().insert(written(arg), row(arg));
        }
    }
    _ = writeln!(out, "\n## Options of many commands");
    for (heading, rows) in common {
        _ = writeln!(
            out,
            "\n### {heading}\n\n| option | |\n|---|---|\n{}",
            rows.into_values().collect::<String>().trim_end()
        );
    }
    out
}

fn section(out: &mut String, command: &Command, shared: &dyn Fn(&Arg) -> bool) {
    let usage = command.clone().render_usage().to_string().replace("Usage: ", "");
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(StyledStr::to_string).unwrap_or_default().replace('<', "&lt;").replace('*', "\\*");
    _ = writeln!(
        out,
        "\n## lamina {}\n\n{}\n\n```text\n{}\n```",
        command.get_name(),
        about.trim(),
        usage.trim()
    );
    let own: String = arguments(command).filter(|arg| !shared(arg)).map(row).collect();
    if !own.is_empty() {
        _ = writeln!(out, "\n| option | |\n|---|---|\n{}", own.trim_end());
    }
    let mut headings: Vec<_> = arguments(command).filter(|arg| shared(arg)).map(heading).collect();
    headings.sort_unstable();
    headings.dedup();
    let link = |name: &&str| format!("[{name}](#{})", name.to_lowercase().replace(' ', "-"));
    if !headings.is_empty() {
        _ = writeln!(
            out,
            "\nOf many commands: {}.",
            headings.iter().map(link).collect::<Vec<_>>().join(", ")
        );
    }
}

/// `LAMINA_BLESS=1` writes the page anew.
#[test]
fn the_page_of_commands_is_their_definition() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("LAMINA_BLESS").is_some() {
        fs::write(&path, page()).expect("a page");
    }
    let written = fs::read_to_string(&path).expect("a page");
    assert!(written == page(), "{} is not what the commands say: LAMINA_BLESS=1 writes it", path.display());
}

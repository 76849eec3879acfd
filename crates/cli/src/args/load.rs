//! How a model is loaded: flags made from the one list that the library has of its options.

use super::flags::{dashed, flag, given};
use crate::{error::Result, model_path, output::note, progress::Bar};
use clap::{ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use lamina::{LoadOptions, Model, OptionSpec, Reporter, Surface};
use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

/// Commands that load a model: [`LoadFlags`] takes one by its place.
const COMMANDS: [&[Surface]; 3] = [&[Surface::Answer], &[Surface::Score], &[Surface::Rank]];

/// Options of loading from the command line, of those of [`COMMANDS`] at a place.
#[derive(Debug, Clone, Default)]
pub struct LoadFlags<const PLACE: usize>(LoadOptions);

/// Options of commands that answer.
pub type LoadArgs = LoadFlags<0>;
/// Options of the command that scores a text.
pub type ScoreArgs = LoadFlags<1>;
/// Options of the command that computes layers for others.
pub type RankLoadArgs = LoadFlags<2>;

impl<const PLACE: usize> LoadFlags<PLACE> {
    fn specs() -> impl Iterator<Item = &'static OptionSpec> {
        LoadOptions::specs(COMMANDS[PLACE])
    }

    /// The same for the library, whose report goes to stderr.
    pub fn options(&self) -> LoadOptions {
        LoadOptions { report: Reporter::to(|line| eprintln!("lamina: {line}")), ..self.0.clone() }
    }
}

impl<const PLACE: usize> Args for LoadFlags<PLACE> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::specs().map(|spec| {
            let arg = flag(spec, move |text| LoadOptions::default().put(spec.name, text));
            let arg = arg.conflicts_with_all(spec.against);
            spec.needs.into_iter().fold(arg, |arg, other| arg.requires(other))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const PLACE: usize> FromArgMatches for LoadFlags<PLACE> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches).map(|()| flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        let refused = |e| clap::Error::raw(ErrorKind::ValueValidation, format!("{e}\n"));
        for spec in Self::specs() {
            let texts = given(matches, spec);
            texts.iter().try_for_each(|text| self.0.put(spec.name, text)).map_err(refused)?;
        }
        Ok(())
    }
}

/// The long form of a flag of several letters that users of llama.cpp know: clap has no such.
pub fn long_form(arg: &OsStr) -> Option<OsString> {
    let letters = arg.to_str()?.strip_prefix('-').filter(|letters| letters.len() > 1)?;
    let spec = LoadOptions::SPECS.iter().find(|spec| spec.letters == Some(letters))?;
    Some(format!("--{}", dashed(spec.name)).into())
}

/// Loads the model at a path or of a name, or the one inside the package, with a bar and with its notes.
pub fn load(path: Option<&Path>, options: &LoadOptions) -> Result<Model> {
    let path = model_path::model(path, options)?;
    let options = model_path::parts(options)?;
    let bar = Bar::bytes("loading");
    let progress = |done, all| {
        bar.at(done, all);
        true
    };
    let model = Model::load_with(path.as_deref(), &options, &progress)?;
    drop(bar);
    model.info().notes.iter().for_each(|n| note(&format!("note: {n}")));
    Ok(model)
}

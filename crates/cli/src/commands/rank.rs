//! `lamina rank`: computes a part of a model for a process on another machine.

use super::Execute;
use crate::{args::RankLoadArgs, error::Result, model_path, output::note};
use lamina::{LoadOptions, MmprojChoice, RankService};
use std::path::PathBuf;

/// Compute a part of a model for a process on another machine, which loads it with --stages or --tp
///
/// Each machine has a copy of the model's files, and reads what it computes with. Machines share a key, LAMINA_APP_KEY;
/// what goes between them is not encrypted. A rank serves one process after the other, and ends by Ctrl-C.
#[derive(clap::Args)]
pub struct RankArgs {
    /// GGUF file, Hugging Face folder, or name [default: the model inside the package]
    model: Option<PathBuf>,
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9000")]
    listen: String,
    #[command(flatten)]
    load: RankLoadArgs,
}

impl Execute for RankArgs {
    const NAME: &'static str = "rank";

    fn execute(self) -> Result<()> {
        // Pictures are its leader's affair: no encoder is fetched.
        let options = LoadOptions { mmproj: MmprojChoice::Off, ..self.load.options() };
        let path = model_path::model(self.model.as_deref(), &options)?;
        let rank = RankService::listen(&self.listen)?;
        note(&format!("rank at {}", rank.address()));
        // Leaders come and go: lines, and no bar, are what a log wants.
        Ok(rank.serve(path.as_deref(), &options, (&note, &|_, _| true))?)
    }
}

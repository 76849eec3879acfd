//! `lamina merge`: the shards of a model as one file.

use super::Execute;
use crate::{
    args::{FetchArgs, OutputArgs, SplitArgs},
    error::{CliError, Result},
    model_path,
    stoppable::Stoppable,
    write,
};
use lamina::default_threads;
use lamina_convert::{Choice, Draft, Types};
use std::path::{Path, PathBuf};

/// Put the shards of a GGUF model into one file
#[derive(clap::Args)]
pub struct MergeArgs {
    /// A shard, such as model-00001-of-00003.gguf
    #[arg(value_name = "FIRST-SHARD")]
    input: PathBuf,
    /// GGUF file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    replace: OutputArgs,
}

impl Execute for MergeArgs {
    const NAME: &'static str = "merge";

    fn execute(self) -> Result<()> {
        let whole = SplitArgs { split_max_size: None, split_max_tensors: None };
        let input = model_path::needed(&self.input, &self.fetch.options())?;
        copy(&input, &self.output, &whole, &self.replace, self.json)
    }
}

/// Writes the tensors of a GGUF file as they are into one file, or into several.
pub fn copy(input: &Path, output: &Path, split: &SplitArgs, replace: &OutputArgs, json: bool) -> Result<()> {
    replace.check(output)?;
    let draft = Draft::open(input)?;
    if draft.usual_types() != Types::Keep {
        let problem = "is no GGUF file; `lamina convert` makes one of it".to_owned();
        return Err(CliError::Content { path: input.to_owned(), problem });
    }
    let options = write::options(Choice::new(Types::Keep), None, default_threads(), split);
    let report = write::file(&draft, output, &options, &Stoppable::new())?;
    write::report(&report, json, &[])
}

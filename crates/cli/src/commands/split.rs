//! `lamina split`: a model as several files.

use super::{Execute, merge::copy};
use crate::{
    args::{FetchArgs, OutputArgs, SplitArgs, positive, size},
    error::Result,
    model_path,
};
use std::path::PathBuf;

/// Split a GGUF model into several files
///
/// They are named OUT_PREFIX-00001-of-0000N.gguf; to load the model, name the first.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("most").required(true).multiple(true)))]
pub struct SplitFileArgs {
    /// GGUF file
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// What the names of the new files begin with
    #[arg(value_name = "OUT_PREFIX")]
    output: PathBuf,
    /// Largest size of a file, such as 2G or 500M
    #[arg(long, value_name = "SIZE", value_parser = size, group = "most", alias = "split-max-size")]
    max_size: Option<u64>,
    /// Most tensors in a file
    #[arg(long, value_name = "N", value_parser = positive(), group = "most", alias = "split-max-tensors")]
    max_tensors: Option<usize>,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    replace: OutputArgs,
}

impl Execute for SplitFileArgs {
    const NAME: &'static str = "split";

    fn execute(self) -> Result<()> {
        let mut output = self.output.into_os_string();
        // A prefix such as `model-v1.5` has a point that is no ending.
        if !output.to_string_lossy().ends_with(".gguf") {
            output.push(".gguf");
        }
        let split = SplitArgs { split_max_size: self.max_size, split_max_tensors: self.max_tensors };
        let input = model_path::needed(&self.input, &self.fetch.options())?;
        copy(&input, output.as_ref(), &split, &self.replace, self.json)
    }
}

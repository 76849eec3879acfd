//! `lamina convert`: a model as a GGUF file, with adapters merged and heads pooled on the way.

mod eyes;
mod heads;
mod trial;

use super::Execute;
use crate::{
    args::{FetchArgs, OutputArgs, SplitArgs, TypeArgs},
    error::Result,
    model_path,
    stoppable::Stoppable,
    write,
};
use heads::{ConvertedHeads, HeadArgs, HeadsJob};
use lamina_convert::{Adapter, ConvertError, Draft, Types};
use std::{path::PathBuf, str::FromStr};

/// Write a model as a GGUF file
///
/// Adapters (LoRA) are merged into its weights; --kv-heads makes key and value heads fewer by pooling them.
#[derive(clap::Args)]
pub struct ConvertArgs {
    /// Hugging Face folder or GGUF file
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// GGUF file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Type or mix of `lamina quantize --list`, auto for the 16-bit float that loses least, or keep [default: auto for a
    /// folder, keep for a GGUF file]
    #[arg(long, value_name = "TYPE")]
    outtype: Option<Types>,
    /// Adapter to merge, a folder of PEFT or a GGUF file, and its scale if it is not 1; may be repeated
    #[arg(long, value_name = "PATH[=SCALE]")]
    lora: Vec<Lora>,
    /// Do not write the encoder of pictures, which goes to mmproj-OUT
    #[arg(long)]
    no_mmproj: bool,
    /// Write the encoder of pictures alone, to OUT
    #[arg(long, conflicts_with = "no_mmproj")]
    mmproj_only: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    replace: OutputArgs,
    #[command(flatten)]
    heads: HeadArgs,
    #[command(flatten)]
    choice: TypeArgs,
    #[command(flatten)]
    split: SplitArgs,
}

/// An adapter and its scale.
#[derive(Debug, Clone, PartialEq)]
struct Lora {
    path: PathBuf,
    scale: f32,
}

impl FromStr for Lora {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Lora, Self::Err> {
        let scaled = text.rsplit_once('=').and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
        let (path, scale) = scaled.unwrap_or((text, 1.0));
        Ok(Lora { path: path.into(), scale })
    }
}

impl Execute for ConvertArgs {
    const NAME: &'static str = "convert";

    fn execute(self) -> Result<()> {
        self.replace.check(&self.output)?;
        let fetch = self.fetch.options();
        let input = model_path::needed(&self.input, &fetch)?;
        if self.mmproj_only {
            return eyes::alone(&input, &self.output, self.json);
        }
        let beside = lamina_convert::mmproj_path(&self.output);
        let eyes = if self.no_mmproj { None } else { eyes::beside(&input) };
        if eyes.is_some() {
            self.replace.check(&beside)?;
        }
        let imatrix = self.choice.imatrix()?;
        let mut draft = Draft::open(&input)?;
        for lora in &self.lora {
            let adapter =
                Adapter::open(&model_path::needed(&lora.path, &fetch)?).map_err(ConvertError::from)?;
            draft.merge(&adapter, lora.scale)?;
        }
        let types = self.outtype.unwrap_or(draft.usual_types());
        let threads = self.choice.threads();
        let options = write::options(self.choice.choice(types), imatrix.as_ref(), threads, &self.split);
        let stop = Stoppable::new();
        // What the model is before heads are pooled; none where that has to be written first.
        let source = self.lora.is_empty().then_some(input.as_path());
        let job = HeadsJob { draft: &draft, source, output: &self.output, options: &options, stop: &stop };
        let ConvertedHeads { report, more } = self.heads.convert(&job, self.json)?;
        let mut more = more;
        if let Some(eyes) = eyes {
            more.push(eyes::written(&eyes, &beside)?);
        }
        write::report(&report, self.json, &more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_follows_the_last_sign() {
        let read = |text: &str| text.parse::<Lora>().map(|l| (l.path, l.scale));
        assert_eq!(read("a/b"), Ok(("a/b".into(), 1.0)));
        assert_eq!(read("a=b=0.5"), Ok(("a=b".into(), 0.5)));
        assert_eq!(read("rank=16/adapter"), Ok(("rank=16/adapter".into(), 1.0)));
        assert_eq!(read("a=-1"), Ok(("a".into(), -1.0)));
    }
}

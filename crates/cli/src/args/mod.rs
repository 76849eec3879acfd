//! Arguments that several commands share.

mod fetch;
#[cfg(feature = "client")]
mod fields;
mod flags;
mod foreign;
mod generate;
mod grammar;
mod image;
mod load;
mod lora;
#[cfg(feature = "convert")]
mod output;
mod plot;
mod sampling;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "client")]
mod server;
mod size;
mod sound;
mod tools;
#[cfg(feature = "convert")]
mod types;

pub use fetch::FetchArgs;
pub use foreign::check as check_foreign;
pub use generate::{GenerateArgs, Wanted};
pub use grammar::{GrammarArgs, grammar_file};
pub use image::{ImageArgs, pixels};
pub use load::{LoadArgs, RankLoadArgs, ScoreArgs, load, long_form};
pub use lora::LoraArgs;
#[cfg(feature = "convert")]
pub use output::{OutputArgs, SplitArgs};
pub use plot::PlotArgs;
pub use sampling::{SamplingArgs, shown};
#[cfg(feature = "serve")]
pub use serve::ServeFlags;
#[cfg(feature = "client")]
pub use server::ServerArgs;
pub use size::size;
pub use sound::{SoundArgs, seconds};
pub use tools::ToolArgs;
#[cfg(feature = "convert")]
pub use types::TypeArgs;

use clap::builder::RangedU64ValueParser;

/// A whole number from 1.
pub fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

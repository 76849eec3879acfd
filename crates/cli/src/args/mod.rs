//! Arguments that several commands share.

mod flags;
mod foreign;
mod generate;
mod grammar;
mod load;
mod lora;
mod output;
mod sampling;
mod serve;
mod server;
mod tools;
mod types;

pub use foreign::check as check_foreign;
pub use generate::{GenerateArgs, Wanted};
pub use grammar::{GrammarArgs, grammar_file};
pub use load::{LoadArgs, ScoreArgs, long_form};
pub use lora::LoraArgs;
pub use output::{OutputArgs, SplitArgs, size};
pub use sampling::{SamplingArgs, shown};
pub use serve::ServeFlags;
pub use server::ServerArgs;
pub use tools::ToolArgs;
pub use types::TypeArgs;

use clap::builder::RangedU64ValueParser;

/// A whole number from 1.
pub fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

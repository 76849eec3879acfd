//! Arguments that several commands share.

mod generate;
mod load;
mod sampling;

pub use generate::GenerateArgs;
pub use load::{EngineArgs, LoadArgs};
pub use sampling::{SamplingArgs, shown};

use clap::builder::RangedU64ValueParser;

/// A whole number from 1.
pub fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

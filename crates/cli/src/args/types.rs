//! Which types the tensors of a new file get.

use super::positive;
use crate::error::Result;
use lamina::{DType, default_threads};
use lamina_convert::{Choice, Imatrix, Override, Types, weight_type};
use std::path::PathBuf;

/// Exceptions, and what helps the encoder.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Types")]
pub struct TypeArgs {
    /// Importance matrix of the model, from `lamina imatrix` or llama.cpp
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Type of the tensors whose names match a regular expression, such as 'ffn_down=q6_k'; may be repeated, the first
    /// match wins
    #[arg(long = "override", value_name = "PATTERN=TYPE", alias = "tensor-type")]
    overrides: Vec<Override>,
    /// Type of the output matrix
    #[arg(long, value_name = "TYPE", value_parser = weight_type, alias = "output-tensor-type")]
    output_type: Option<DType>,
    /// Type of the token embedding
    #[arg(long, value_name = "TYPE", value_parser = weight_type, alias = "token-embedding-type")]
    embedding_type: Option<DType>,
    /// Give every matrix the type's own form, without the exceptions of mixes
    #[arg(long)]
    pure: bool,
    /// Threads [default: physical cores]
    #[arg(short, long, value_name = "N", value_parser = positive())]
    threads: Option<usize>,
}

impl TypeArgs {
    /// `types` with the exceptions.
    pub fn choice(&self, types: Types) -> Choice {
        Choice {
            types,
            overrides: self.overrides.clone(),
            output: self.output_type,
            embedding: self.embedding_type,
            pure: self.pure,
            coarse_encoders: false,
            exact: Default::default(),
        }
    }

    /// The importance matrix, if there is one.
    pub fn imatrix(&self) -> Result<Option<Imatrix>> {
        Ok(self.imatrix.as_ref().map(Imatrix::open).transpose()?)
    }

    /// Threads to work with.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads)
    }
}

//! Floor 8: the Python binding. Each method extracts its arguments, releases the interpreter's lock, calls the Rust API
//! and maps the error. Documentation, defaults and ergonomics live in `python/lamina`.
#![deny(unsafe_code)]

mod cli;
mod discard;
mod error;
mod grammar;
mod info;
mod model;
mod options;
mod prompt;
mod sampling;
mod serve;
mod stream;
mod trim;
mod wait;

/// The compiled part of the package.
#[pyo3::pymodule]
mod _lamina {
    #[pymodule_export]
    use crate::{
        cli::cli_main,
        grammar::{PyGrammar, PyMatcher},
        model::Model,
        options::check_options,
        sampling::sampling_params,
        serve::HttpServer,
        stream::Stream,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

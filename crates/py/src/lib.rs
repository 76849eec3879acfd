//! Floor 8: the Python binding. Each method extracts its arguments, releases the interpreter's lock, calls the Rust API
//! and maps the error. Documentation, defaults and ergonomics live in `python/lamina`.
#![deny(unsafe_code)]

mod beam;
mod chat;
mod cli;
mod discard;
mod error;
mod grammar;
mod image;
mod info;
mod model;
mod options;
mod picture_url;
mod piece_iterator;
mod plan;
mod processor;
mod prompt;
mod sampling;
mod serve;
mod sound;
mod stream;
mod trace;
mod vector;
mod wait;
mod watch;

#[global_allocator]
static MEMORY: lamina_reserve::WithReserve = lamina_reserve::WithReserve;

/// The compiled part of the package.
#[pyo3::pymodule]
mod _lamina {
    #[pymodule_export]
    use crate::{
        beam::beam,
        chat::{ChatParser, chat_format_of, chat_formats},
        cli::cli_main,
        grammar::{PyGrammar, PyMatcher},
        model::Model,
        options::{check_options, load_kinds},
        picture_url::PyUrlReader,
        piece_iterator::PieceIterator,
        plan::plan,
        sampling::sampling_params,
        serve::HttpServer,
        stream::Stream,
        trace::{record, trace, trace_form},
        vector::Vector,
    };

    /// Takes the memory that is kept back for when there is no more.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        let missing =
            || pyo3::exceptions::PyMemoryError::new_err("there is not enough memory to load lamina");
        lamina_reserve::keep().then_some(()).ok_or_else(missing)
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

//! Options from Python's keywords.

use crate::{
    error::{Failure, Result, invalid},
    grammar::PyGrammar,
    image::ImageArg,
    processor::Raised,
    sampling,
    sound::SoundArg,
};
use lamina::{
    AnswerState, Compression, GenerateOptions, LoadOptions, OptionSpec, Reporter, Speculate, Surface,
    sample::{Param, SamplerState},
};
use pyo3::{prelude::*, types::PyDict};
use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

/// Adapters of a request by name, with their scales. Python has checked the types.
pub type Lora = BTreeMap<String, f32>;

/// What a request was given.
#[derive(Default)]
pub struct RequestOptions {
    pub generate: GenerateOptions,
    pub lora: Lora,
    /// Read where the model is known.
    pub images: Vec<ImageArg>,
    pub sounds: Vec<SoundArg>,
    /// By its processor.
    pub raised: Raised,
}

/// Options of a request, by canonical names. Python has checked the types of those that are no sampling parameters.
pub fn request_options(dict: &Bound<'_, PyDict>) -> Result<RequestOptions> {
    let mut request = RequestOptions::default();
    let options = &mut request.generate;
    for (name, value) in dict.iter() {
        let name: String = name.extract().map_err(Failure::Python)?;
        match name.as_str() {
            "max_tokens" => options.max_tokens = value.extract().map_err(Failure::Python)?,
            "min_tokens" => options.min_tokens = value.extract().map_err(Failure::Python)?,
            "stop" => options.stop = value.extract().map_err(Failure::Python)?,
            "stop_token_ids" => options.stop_tokens = value.extract().map_err(Failure::Python)?,
            "include_stop_str_in_output" => {
                options.include_stop = value.extract().map_err(Failure::Python)?;
            }
            "n" => options.n = answers(value.extract().map_err(Failure::Python)?)?,
            "echo" => options.echo = value.extract().map_err(Failure::Python)?,
            "context_shift" => options.context_shift = value.extract().map_err(Failure::Python)?,
            "compress" => options.compress = compress(&value)?,
            "ignore_eos" => options.ignore_eos = value.extract().map_err(Failure::Python)?,
            "grammar" => options.grammar = grammar(&value)?,
            "resume" => options.resume = resume(&value)?,
            "speculate" => options.speculate = speculate(&value)?,
            "processor" => {
                let function = (!value.is_none()).then(|| value.clone().unbind());
                options.processor = function.map(|function| request.raised.processor(function));
            }
            "images" => request.images = value.extract().map_err(Failure::Python)?,
            "sounds" => request.sounds = value.extract().map_err(Failure::Python)?,
            "lora" => request.lora = value.extract().map_err(Failure::Python)?,
            other => options.sampling.set(other, sampling::value(Param::find(other)?, &value)?)?,
        }
    }
    Ok(request)
}

/// How an answer is drafted: Python gives nothing, or method, width and branches, each of which may be None.
fn speculate(value: &Bound<'_, PyAny>) -> Result<Speculate> {
    type Given = Option<(Option<String>, Option<usize>, Option<usize>)>;
    let given: Given = value.extract().map_err(Failure::Python)?;
    let (method, width, branches) = given.unwrap_or_default();
    Ok(Speculate { method: method.map(Into::into), width, branches })
}

/// How the cache of the prompt is compressed, as users write it.
fn compress(value: &Bound<'_, PyAny>) -> Result<Option<Compression>> {
    let given: Option<String> = value.extract().map_err(Failure::Python)?;
    Ok(given.map(|text| text.parse()).transpose()?)
}

/// The beginning of an answer: its tokens; seed, number of the stream, words drawn, and mirostat's surprise.
fn resume(value: &Bound<'_, PyAny>) -> Result<Option<AnswerState>> {
    type Row = (Vec<u32>, u64, u64, u64, Option<f32>);
    let given: Option<Row> = value.extract().map_err(Failure::Python)?;
    Ok(given.map(|(tokens, seed, index, drawn, surprise)| AnswerState {
        tokens,
        sampler: SamplerState { seed, index, drawn, surprise },
    }))
}

fn grammar(value: &Bound<'_, PyAny>) -> Result<Option<lamina::Grammar>> {
    let given: Option<PyRef<'_, PyGrammar>> = value.extract().map_err(|e| Failure::Python(PyErr::from(e)))?;
    Ok(given.map(|grammar| grammar.inner().clone()))
}

/// Raises what is wrong with options of a request, if anything is.
#[pyfunction]
pub fn check_options(options: &Bound<'_, PyDict>) -> Result<()> {
    Ok(request_options(options)?.generate.sampling.check()?)
}

/// Answers to one prompt at most, as the engine has it.
const MOST_ANSWERS: usize = 256;

/// A number of answers, checked before a list of so many is made.
fn answers(n: usize) -> Result<usize> {
    match (1..=MOST_ANSWERS).contains(&n) {
        true => Ok(n),
        false => Err(invalid(format!("n is {n}, but must be from 1 to {MOST_ANSWERS}"))),
    }
}

/// What was given of each option of loading, as it would stand on a command line. Python has checked the types.
pub type LoadTexts = BTreeMap<String, Vec<OsString>>;

/// How to load, with adapters by their names. What goes wrong beside requests is a line on stderr.
pub fn load_options(given: LoadTexts, loras: Vec<(String, PathBuf)>) -> Result<LoadOptions> {
    let report = Reporter::to(|line| eprintln!("lamina: {line}"));
    let mut options = LoadOptions { loras, report, ..LoadOptions::default() };
    for (name, texts) in &given {
        texts.iter().try_for_each(|text| options.put(name, text)).map_err(lamina::Error::from)?;
    }
    Ok(options)
}

/// Name, kind and smallest number of every option of loading that Python has.
#[pyfunction]
pub fn load_kinds() -> Vec<(&'static str, String, usize)> {
    let row = |spec: &OptionSpec| (spec.name, format!("{:?}", spec.kind).to_lowercase(), spec.least);
    LoadOptions::specs(&[Surface::Python]).map(row).collect()
}

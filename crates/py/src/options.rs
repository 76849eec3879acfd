//! Options from Python's keywords.

use crate::{
    error::{Failure, Result, invalid},
    grammar::PyGrammar,
    sampling,
};
use lamina::{
    AnswerState, ApproximateExperts, Compression, ExpertThreshold, GenerateOptions, LoadOptions, Speculate,
    sample::{Param, SamplerState},
};
use pyo3::{prelude::*, types::PyDict};
use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf};

/// Adapters of a request by name, with their scales. Python has checked the types.
pub type Lora = BTreeMap<String, f32>;

/// Options of a request, by canonical names, and its adapters. Python has checked the types of those that are no
/// sampling parameters.
pub fn generate_options(dict: &Bound<'_, PyDict>) -> Result<(GenerateOptions, Lora)> {
    let (mut options, mut lora) = (GenerateOptions::default(), Lora::new());
    for (name, value) in dict.iter() {
        let name: String = name.extract().map_err(Failure::Python)?;
        match name.as_str() {
            "max_tokens" => options.max_tokens = value.extract().map_err(Failure::Python)?,
            "stop" => options.stop = value.extract().map_err(Failure::Python)?,
            "n" => options.n = answers(value.extract().map_err(Failure::Python)?)?,
            "echo" => options.echo = value.extract().map_err(Failure::Python)?,
            "context_shift" => options.context_shift = value.extract().map_err(Failure::Python)?,
            "compress" => options.compress = compress(&value)?,
            "ignore_eos" => options.ignore_eos = value.extract().map_err(Failure::Python)?,
            "grammar" => options.grammar = grammar(&value)?,
            "resume" => options.resume = resume(&value)?,
            "speculate" => options.speculate = speculate(&value)?,
            "lora" => lora = value.extract().map_err(Failure::Python)?,
            other => options.sampling.set(other, sampling::value(Param::find(other)?, &value)?)?,
        }
    }
    Ok((options, lora))
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
    Ok(generate_options(options)?.0.sampling.check()?)
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

/// How to load, from the names that users write.
pub fn load_options(
    device: &str,
    context: Option<usize>,
    kv_dtype: &str,
    dtype: &str,
    threads: Option<usize>,
    loras: Vec<(String, PathBuf)>,
    draft: Option<&str>,
) -> Result<LoadOptions> {
    let dtype = if dtype == "auto" { None } else { Some(dtype.parse().map_err(lamina::Error::from)?) };
    let (device, kv_dtype) = (device.parse()?, kv_dtype.parse().map_err(lamina::Error::from)?);
    let draft = draft.map(Into::into);
    Ok(LoadOptions { device, context, kv_dtype, dtype, threads, loras, draft, ..LoadOptions::default() })
}

/// Approximations of experts as Python has them: none deferred is 0.
pub fn experts(deferred: usize, fewer: Option<(usize, f32)>) -> Result<ApproximateExperts> {
    let fewer = fewer.map(|(least, threshold)| ExpertThreshold::new(least, threshold)).transpose()?;
    Ok(ApproximateExperts { fewer, deferred: NonZeroUsize::new(deferred) })
}

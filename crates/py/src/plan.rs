//! What a model would take, for `lamina.plan`.

use crate::{
    error::Result,
    options::{experts, load_options},
    wait::detached,
};
use lamina::{ForecastQuestion, LoadOptions, PlacementPolicy, StreamOptions, attention_sparsity as sparsity};
use lamina_tools::{plan_json, plan_report};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The forecast as JSON, and as the command line tells it.
#[pyfunction]
#[pyo3(signature = (path, *, device, context, kv_dtype, dtype, threads, loras, memory, device_memory, offload, panel_cache, kv_swap, rules, percent, n_gpu_layers, objective, defer_experts, fewer_experts, attention_sparsity, sparse_prefill, batch, prompt, gen_tokens, measure))]
#[allow(clippy::too_many_arguments)]
pub fn plan(
    py: Python<'_>,
    path: PathBuf,
    device: &str,
    context: Option<usize>,
    kv_dtype: &str,
    dtype: &str,
    threads: Option<usize>,
    loras: Vec<(String, PathBuf)>,
    memory: Option<&str>,
    device_memory: Option<&str>,
    offload: &str,
    panel_cache: Option<PathBuf>,
    kv_swap: Option<&str>,
    rules: Vec<String>,
    percent: Option<&str>,
    n_gpu_layers: Option<usize>,
    objective: &str,
    defer_experts: usize,
    fewer_experts: Option<(usize, f32)>,
    attention_sparsity: Option<f64>,
    sparse_prefill: Option<f64>,
    batch: Vec<usize>,
    prompt: Vec<usize>,
    gen_tokens: usize,
    measure: bool,
) -> Result<(String, String)> {
    let options = load_options(device, context, kv_dtype, dtype, threads, loras, None)?;
    let options = LoadOptions {
        kv_swap: kv_swap.map(str::parse).transpose()?.unwrap_or_default(),
        memory: memory.map(str::parse).transpose()?,
        offload: offload.parse()?,
        device_memory: device_memory.map(str::parse).transpose()?,
        placement: PlacementPolicy::read(&rules, percent, n_gpu_layers)?,
        objective: objective.parse()?,
        experts: experts(defer_experts, fewer_experts)?,
        sparsity: sparsity(attention_sparsity, sparse_prefill)?,
        stream: StreamOptions { folder: panel_cache, ..StreamOptions::default() },
        ..options
    };
    let question = ForecastQuestion { batch, prompt, gen_tokens, measure, ..ForecastQuestion::default() };
    let told = detached(py, move || lamina::plan(Some(&path), &options, &question))?;
    Ok((plan_json(&told).to_string(), plan_report(&told)))
}

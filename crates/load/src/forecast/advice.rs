//! What could be changed: options that are tried in turn, each as its own forecast.

use crate::options::LoadOptions;
use lamina_base::DType;
use lamina_plan::{Backend, KvDtype, KvType};
use lamina_planner::{Forecast, MemoryLimit, PlacementPolicy, PlacementRule};

/// Context that is proposed where a longer one does not fit.
const SHORT: usize = 2048;

/// The cache on disk, where the user asks for a context and says nothing of where the cache lies: what has to be written, the
/// options, and the context. Nothing else chooses it.
pub fn cache_on_disk(
    options: &LoadOptions,
    told: &Forecast,
    backend: &dyn Backend,
) -> Option<(String, LoadOptions, usize)> {
    let placement = &options.placement;
    let said = placement.percent.is_some() || placement.rules.iter().any(PlacementRule::is_of_cache);
    let wanted = told.problem.is_some() || told.disk.is_some();
    let context = options.context.filter(|_| wanted && !said && backend.capabilities().binds_cache)?;
    let rules = placement.rules.iter().cloned().chain("kv=disk".parse().ok()).collect();
    let placement = PlacementPolicy { rules, ..placement.clone() };
    Some(("--place \"kv=disk\"".into(), LoadOptions { placement, ..options.clone() }, context))
}

/// Options in other settings, by what has to be written for them.
pub fn alternatives(options: &LoadOptions, told: &Forecast) -> Vec<(String, LoadOptions)> {
    let misfit = told.problem.is_some();
    if !misfit && told.disk.is_none() {
        return vec![];
    }
    let mut out = vec![];
    let kv = KvDtype::from(KvType::Q8_0);
    if options.kv_dtype == KvDtype::default() {
        out.push(("--kv-dtype q8_0".into(), LoadOptions { kv_dtype: kv, ..options.clone() }));
    }
    for dtype in [DType::Q8_0, DType::Q4_K] {
        if options.dtype.is_none_or(|now| now.bits() > dtype.bits()) {
            out.push((format!("--dtype {dtype}"), LoadOptions { dtype: Some(dtype), ..options.clone() }));
        }
    }
    if misfit && options.context.is_none_or(|n| n > SHORT) {
        out.push((format!("--context {SHORT}"), LoadOptions { context: Some(SHORT), ..options.clone() }));
    }
    if let Some(budget) = told.budget.filter(|_| options.memory.is_some()) {
        for share in [125, 150, 200] {
            let bytes = budget / 100 * share;
            let memory = Some(MemoryLimit::Bytes(bytes));
            let text = format!("--memory {:.1}GiB", bytes as f64 / f64::from(1 << 30));
            out.push((text, LoadOptions { memory, ..options.clone() }));
        }
    }
    out
}

/// `options` with `rules` instead of what the user says of the division; and the rules as options of the command line.
pub fn ruled(options: &LoadOptions, rules: &[String]) -> Option<(String, LoadOptions)> {
    let parsed = rules.iter().map(|rule| rule.parse().ok()).collect::<Option<Vec<_>>>()?;
    let placement = PlacementPolicy { rules: parsed, ..PlacementPolicy::default() };
    let text: Vec<String> = rules.iter().map(|rule| format!("--place \"{rule}\"")).collect();
    Some((text.join(" "), LoadOptions { placement, ..options.clone() }))
}

//! Broken configurations: every number of every golden model replaced by what no model has. Building the spec, the plan
//! and the weights ends in an error or in a plan; never in a panic, and never in memory of a claimed size.

use crate::common::{Result, folders};
use lamina_arch::{Family, Weights};
use lamina_plan::emit;
use lamina_store::{Checkpoint, Config};
use serde_json::{Map, Value, json};

#[test]
fn broken_configurations_end_in_errors() -> Result<()> {
    let (mut tried, mut refused) = (0, 0);
    for folder in folders().iter().filter(|f| f.join("config.json").exists()) {
        let mut checkpoint = Checkpoint::open(folder)?;
        let text = std::fs::read_to_string(folder.join("config.json"))?;
        let whole: Map<String, Value> = serde_json::from_str(&text)?;
        for broken in broken(&whole) {
            let Ok(config) = Config::from_hf("config.json", broken) else { continue };
            checkpoint.config = config;
            tried += 1;
            refused += usize::from(build(&checkpoint).is_err());
        }
    }
    eprintln!("{tried} broken configurations, {refused} refused");
    assert!(tried == 0 || refused * 4 > tried, "hardly anything is refused: {refused} of {tried}");
    Ok(())
}

fn build(checkpoint: &Checkpoint) -> lamina_arch::Result<()> {
    let family = Family::of(checkpoint)?;
    let spec = family.spec(checkpoint)?;
    let weights = Weights::new(checkpoint, family, &spec);
    let plan = emit(&spec, &|name| weights.has(name));
    plan.weights.iter().try_for_each(|w| {
        let (rows, cols) = w.kind.shape();
        weights.get(&w.name, rows, cols).map(drop)
    })
}

/// The configuration with one value broken, once for each value and each way.
fn broken(whole: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let bad = [
        json!(0),
        json!(1),
        json!(3),
        json!(1u64 << 40),
        json!(u64::MAX),
        json!(-1),
        json!("x"),
        json!([]),
        json!(null),
    ];
    let mut all = vec![];
    for (key, value) in whole {
        for bad in bad.iter().filter(|_| value.is_number() || value.is_array() || value.is_string()) {
            let mut one = whole.clone();
            one.insert(key.clone(), bad.clone());
            all.push(one);
        }
        for inner in value.as_object().into_iter().flatten().filter(|(_, v)| v.is_number()) {
            for bad in &bad {
                let mut one = whole.clone();
                one[key][inner.0] = bad.clone();
                all.push(one);
            }
        }
    }
    all
}

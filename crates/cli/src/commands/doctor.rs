//! `lamina doctor`: what this machine offers.

use super::Execute;
use crate::{error::Result, output, progress::spinner, table::pairs};
use serde_json::Value;

/// Show what this machine offers: CPU features, threads, memory and its speed, devices
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Execute for DoctorArgs {
    const NAME: &'static str = "doctor";

    fn execute(self) -> Result<()> {
        let spinner = spinner();
        spinner.set_message("measuring the memory's speed");
        let found = lamina_tools::doctor();
        spinner.finish_and_clear();
        let found = found?;
        match self.json {
            true => output::json(&found),
            false => output::text(&pairs(found.as_object().into_iter().flatten().map(line))),
        }
    }
}

/// A line per finding, so that what the library learns to find is shown without a change here.
fn line((key, value): (&String, &Value)) -> (String, String) {
    let text = match value {
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Number(n) if n.is_f64() => format!("{:.1}", n.as_f64().unwrap_or_default()),
        other => plain(other),
    };
    (key.replace('_', " "), text)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "unknown".to_owned(),
        other => other.to_string(),
    }
}

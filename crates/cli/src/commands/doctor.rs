//! `lamina doctor`: what this machine offers, and whether a device computes right.

use super::Execute;
use crate::{error::Result, output, progress::spinner, table::pairs};
use lamina::Device;
use serde_json::Value;

/// Show what this machine offers: CPU features, threads, memory and its speed, devices
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Run the conformance kit on this device: cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE")]
    device: Option<Device>,
    /// Of the kit, only cases whose name contains this
    #[arg(long, value_name = "PART", requires = "device")]
    cases: Option<String>,
}

impl Execute for DoctorArgs {
    const NAME: &'static str = "doctor";

    fn execute(self) -> Result<()> {
        let spinner = spinner();
        let found = match self.device {
            Some(device) => {
                spinner.set_message("running the conformance kit");
                lamina_tools::examine(device, self.cases.as_deref().unwrap_or_default())
            }
            None => {
                spinner.set_message("measuring the memory's speed");
                lamina_tools::doctor()
            }
        };
        spinner.finish_and_clear();
        let found = found?;
        match self.json {
            true => output::json(&found)?,
            false => output::text(&pairs(found.as_object().into_iter().flatten().map(line)))?,
        }
        if found["passed"] == false {
            let what = format!("{}: not all are right", plain(&found["verdict"]));
            return Err(lamina::Error::Runtime(what).into());
        }
        Ok(())
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

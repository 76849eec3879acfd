//! `lamina doctor`: what this machine offers, and whether a device computes right.

use super::Execute;
use crate::{error::Result, output, progress::spinner, table::pairs};
use lamina::Device;
use serde_json::{Value, json};

/// Show what this machine offers: CPU features, threads, memory and its speed, devices
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// Write one JSON object; with `error` where a device cannot be examined
    #[arg(long)]
    json: bool,
    /// Open this device, and compare what its kernels give with the bits that are kept: cuda, cuda:1, metal
    #[arg(long, value_name = "DEVICE")]
    device: Option<Device>,
}

impl Execute for DoctorArgs {
    const NAME: &'static str = "doctor";

    fn execute(self) -> Result<()> {
        let spinner = spinner();
        let found = match self.device {
            Some(device) => {
                spinner.set_message("running the kernels");
                lamina_tools::examine(device)
            }
            None => {
                spinner.set_message("measuring the memory's speed");
                lamina_tools::doctor()
            }
        };
        spinner.finish_and_clear();
        if let (Err(why), true) = (&found, self.json) {
            output::json(&json!({ "version": env!("CARGO_PKG_VERSION"), "error": why.to_string() }))?;
        }
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

//! Columns as comma-separated values.

use crate::trace::Trace;
use serde_json::Value;

/// The columns of an event by its name in files, such as `step` or `op`; none for another name.
pub fn csv(trace: &Trace, event: &str) -> Option<String> {
    let events = serde_json::to_value(&trace.events).ok()?;
    let columns = events.get(event)?.as_object()?.clone();
    let names: Vec<&str> = columns.keys().map(String::as_str).collect();
    let rows = columns.values().filter_map(|c| c.as_array()).map(Vec::len).max().unwrap_or(0);
    let mut out = names.join(",") + "\n";
    for row in 0..rows {
        let cells: Vec<String> = columns.values().map(|c| cell(&c[row])).collect();
        out += &(cells.join(",") + "\n");
    }
    Some(out)
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

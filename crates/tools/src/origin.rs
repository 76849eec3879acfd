//! Where a measurement comes from: what every line of a record carries beside its figures.

use chrono::{SecondsFormat, Utc};
use lamina_base::cpu_name;
use serde_json::{Map, Value, json};

/// Date, version, commit and CPU.
///
/// The commit is what `LAMINA_COMMIT` said when this was compiled; `benches/record.py` fills it in where it said nothing.
pub fn origin() -> Map<String, Value> {
    let date = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, false);
    let fields = [
        ("date", json!(date)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("commit", json!(option_env!("LAMINA_COMMIT"))),
        ("cpu", json!(cpu_name())),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

//! A line of the access log.

use super::{
    LogEntry,
    stations::{Stations, rounded},
};
use crate::options::LogFormat;
use serde_json::{Map, Value, json};
use std::time::{Instant, SystemTime};

/// Bytes of names of ignored fields in a line or a header.
const MOST_IGNORED: usize = 2000;
/// Pictures and sounds whose sizes a line tells.
const MOST_SIZES: usize = 64;

impl LogEntry {
    /// The line, without its end. Control characters are escaped.
    pub fn line(&self, format: LogFormat) -> String {
        written(self.fields(), format)
    }

    /// A line that says where the time of a slow request went.
    pub fn slow_line(&self, format: LogFormat) -> String {
        let mut fields = Map::new();
        fields.insert("slow".into(), json!(*self.id));
        self.model.iter().for_each(|model| _ = fields.insert("model".into(), json!(model)));
        fields.insert("first_token_ms".into(), json!(self.first_token.map(rounded)));
        fields.extend(Stations::of(self, Instant::now()).fields(true));
        written(fields, format)
    }

    /// Names of the fields that made no difference: of many the first ones.
    pub fn ignored_fields(&self, between: &str) -> String {
        let names = self.ignored.join(between);
        names[..names.floor_char_boundary(MOST_IGNORED)].to_owned()
    }

    /// Sizes of its pictures in pixels: of many the first ones.
    fn sizes(&self) -> String {
        let first = self.pictures.iter().take(MOST_SIZES).map(|p| format!("{}x{}", p.width, p.height));
        first.collect::<Vec<_>>().join(",")
    }

    /// Lengths of its sounds in seconds: of many the first ones.
    fn lengths(&self) -> String {
        let first = self.sounds.iter().take(MOST_SIZES).map(|seconds| format!("{seconds:.2}"));
        first.collect::<Vec<_>>().join(",")
    }

    fn fields(&self) -> Map<String, Value> {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = |time| json!(rounded(time));
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| _ = fields.insert(name.to_owned(), value);
        put("time", json!((time.as_secs_f64() * 1e3).round() / 1e3));
        put("id", json!(*self.id));
        self.context.iter().for_each(|context| put("trace", json!(context.trace_id())));
        put("peer", json!(self.peer));
        self.key.iter().for_each(|key| put("key", json!(**key)));
        put("method", json!(self.method));
        put("path", json!(self.path));
        put("status", json!(self.status));
        self.model.iter().for_each(|model| put("model", json!(model)));
        if self.queued {
            put("stream", json!(self.stream));
            put("prompt_tokens", json!(self.usage.prompt));
            put("cached_tokens", json!(self.usage.cached));
            put("completion_tokens", json!(self.usage.completion));
            if !self.pictures.is_empty() {
                put("pictures", json!(self.sizes()));
                put("image_tokens", json!(self.usage.media.image));
            }
            if !self.sounds.is_empty() {
                put("sounds", json!(self.lengths()));
                put("audio_tokens", json!(self.usage.media.audio));
            }
            if !(self.pictures.is_empty() && self.sounds.is_empty()) {
                put("encode_ms", ms(std::time::Duration::from_secs_f64(self.encode_seconds)));
            }
            put("queue_ms", ms(self.queue));
            self.first_token.iter().for_each(|t| put("first_token_ms", ms(*t)));
        }
        put("total_ms", ms(self.arrival.elapsed()));
        self.finish.iter().for_each(|finish| put("finish", json!(finish)));
        if !self.ignored.is_empty() {
            put("ignored", json!(self.ignored_fields(",")));
        }
        self.prompt.iter().for_each(|prompt| put("prompt", json!(prompt)));
        fields
    }
}

/// The fields as a line.
fn written(fields: Map<String, Value>, format: LogFormat) -> String {
    match format {
        LogFormat::Json => Value::Object(fields).to_string(),
        LogFormat::Text => {
            let word = |(name, value): (&String, &Value)| match value {
                Value::String(text) if plain(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            };
            fields.iter().map(word).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Text that needs no quotes.
fn plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RequestLog;

    #[test]
    fn a_line_is_short() {
        let log =
            RequestLog::new("r1".into(), "127.0.0.1".into(), "GET", &format!("/{}", "\u{e9}".repeat(15_000)));
        log.entry().ignored = vec!["x".repeat(80); 10_000];
        let line = log.entry().line(LogFormat::Text);
        assert!(line.len() < 3000, "{} bytes", line.len());
    }

    #[test]
    fn a_line_stays_a_line() {
        let log = RequestLog::new("r1".into(), "127.0.0.1".into(), "POST", "/v1/x\ny \u{1b}[2J");
        log.entry().status = 200;
        let line = log.entry().line(LogFormat::Text);
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.contains("id=r1 peer=127.0.0.1 method=POST path=\"/v1/x\\ny"), "{line}");
        let json: Value = serde_json::from_str(&log.entry().line(LogFormat::Json)).unwrap();
        assert_eq!(json["status"], 200);
    }
}

//! The two text formats: OpenMetrics, and the older one of Prometheus, which everything reads.

use http::{HeaderMap, header};

/// How the numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Version 0.0.4 of Prometheus's own.
    Plain,
    /// OpenMetrics 1.0.0, for those who ask for it.
    OpenMetrics,
}

impl MetricsFormat {
    /// The one that a request would rather have; the older one where it does not say.
    pub fn of(headers: &HeaderMap) -> MetricsFormat {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let kinds: Vec<_> = accept.flat_map(|value| value.split(',')).map(weight).collect();
        let best = |wanted: &str| {
            let given = kinds.iter().filter(|(kind, _)| kind == wanted).map(|(_, q)| *q);
            given.fold(0.0, f32::max)
        };
        let open = best("application/openmetrics-text");
        match open > 0.0 && open >= best("text/plain") {
            true => MetricsFormat::OpenMetrics,
            false => MetricsFormat::Plain,
        }
    }

    /// What a response says that it is.
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::Plain => "text/plain; version=0.0.4; charset=utf-8",
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// OpenMetrics in this format.
    pub fn written(self, text: String) -> String {
        match self {
            MetricsFormat::Plain => plain(&text),
            MetricsFormat::OpenMetrics => text,
        }
    }
}

/// A type of `Accept` with its weight.
fn weight(kind: &str) -> (String, f32) {
    let mut parts = kind.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let q = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
    (name, q.unwrap_or(1.0))
}

/// In the older format a counter is declared under the name of its samples, and nothing says where the end is.
fn plain(text: &str) -> String {
    let declared = |line: &str, what: &str| Some(line.strip_prefix(what)?.split(' ').next()?.to_owned());
    let counters: Vec<String> = text
        .lines()
        .filter(|line| line.ends_with(" counter"))
        .filter_map(|line| declared(line, "# TYPE "))
        .collect();
    let line = |line: &str| {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            return None;
        }
        for what in ["# HELP ", "# TYPE "] {
            if let Some(name) = declared(line, what).filter(|name| counters.contains(name)) {
                let rest = &line[what.len() + name.len()..];
                return Some(format!("{what}{name}_total{rest}\n"));
            }
        }
        Some(format!(
            "{}\n",
            line.strip_suffix(" unknown").map_or(line.to_owned(), |l| format!("{l} untyped"))
        ))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn who_asks_for_the_newer_format_has_it() {
        let format = |accept: &'static str| {
            MetricsFormat::of(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
            q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(format(prometheus), MetricsFormat::OpenMetrics);
        for older in
            ["*/*", "text/plain", "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.1"]
        {
            assert_eq!(format(older), MetricsFormat::Plain, "{older}");
        }
        assert_eq!(MetricsFormat::of(&HeaderMap::new()), MetricsFormat::Plain);
    }

    #[test]
    fn counters_are_declared_under_the_names_of_their_samples() {
        let open = "# HELP a:n Tokens.\n# TYPE a:n counter\na:n_total{m=\"x\"} 3\n# HELP a:nn Now.\n# TYPE a:nn gauge\na:nn 1\n# EOF\n";
        let want = "# HELP a:n_total Tokens.\n# TYPE a:n_total counter\na:n_total{m=\"x\"} 3\n# HELP a:nn Now.\n\
            # TYPE a:nn gauge\na:nn 1\n";
        assert_eq!(plain(open), want);
    }
}

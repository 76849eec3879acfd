//! Where spans go, by the options and by the variables that OpenTelemetry names.

use lamina_see::export::OtlpProtocol;

/// What a collector is reached by.
#[derive(Debug, PartialEq)]
pub(super) struct SpanTarget {
    pub url: String,
    /// `name=value,name=value`.
    pub headers: String,
    pub protocol: OtlpProtocol,
    /// What this server is called there.
    pub service: String,
}

impl SpanTarget {
    /// The collector at `url`, else that of the environment; none where there is none, or where the environment switches
    /// OpenTelemetry off.
    ///
    /// # Errors
    /// When the protocol that is asked for is not one over HTTP.
    pub fn of(
        url: Option<&str>,
        protocol: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SpanTarget>, String> {
        // What is said of traces comes before what is said of all signals.
        let said = |what: &str| {
            let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
            names.into_iter().find_map(|name| Some((variable(&name)?, name)))
        };
        let found = match url {
            Some(url) => Some(url.to_owned()),
            None if variable("OTEL_SDK_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true")) => None,
            None => said("ENDPOINT").map(|(url, name)| of_traces(url, &name)),
        };
        let Some(url) = found else { return Ok(None) };
        let asked = protocol.map(|name| (name.to_owned(), "otlp_traces_protocol".to_owned()));
        let protocol = match asked.or_else(|| said("PROTOCOL")) {
            Some((value, name)) => OtlpProtocol::named(&value).ok_or_else(|| {
                format!("{name} is {value}: spans are sent by http/protobuf or http/json (port 4318 of most collectors)")
            })?,
            None => OtlpProtocol::default(),
        };
        let headers = said("HEADERS").map(|(value, _)| value).unwrap_or_default();
        let service = variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "lamina".into());
        Ok(Some(SpanTarget { url, headers, protocol, service }))
    }
}

/// The address of all signals is a base.
fn of_traces(url: String, name: &str) -> String {
    match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => format!("{}/v1/traces", url.trim_end_matches('/')),
        _ => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(given: Option<&str>, environment: &[(&str, &str)]) -> Result<Option<SpanTarget>, String> {
        let variable = |name: &str| environment.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
        SpanTarget::of(given, None, variable)
    }

    #[test]
    fn options_come_before_the_environment_and_traces_before_all_signals() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b/spans");
        let url = |given, environment: &[_]| target(given, environment).unwrap().map(|found| found.url);
        assert_eq!(url(None, &[base]).as_deref(), Some("http://a:4318/v1/traces"));
        assert_eq!(url(None, &[base, traces]).as_deref(), Some("http://b/spans"));
        assert_eq!(url(Some("http://c"), &[base, traces]).as_deref(), Some("http://c"));
        assert_eq!(url(None, &[]), None);
        let off = ("OTEL_SDK_DISABLED", "true");
        assert_eq!((url(None, &[base, off]), url(Some("c"), &[off]).is_some()), (None, true));
        let more = [base, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"), ("OTEL_SERVICE_NAME", "mine")];
        let found = target(None, &more).unwrap().unwrap();
        assert_eq!((&*found.headers, &*found.service), ("a=b", "mine"));
    }

    #[test]
    fn the_protocol_is_protobuf_or_what_is_asked_for() {
        let asked =
            |name, value| target(Some("http://c"), &[(name, value)]).map(|found| found.unwrap().protocol);
        let (all, traces) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
        assert_eq!(asked("", ""), Ok(OtlpProtocol::Protobuf));
        assert_eq!(asked(all, "http/json"), Ok(OtlpProtocol::Json));
        assert_eq!(asked(traces, "http/protobuf"), Ok(OtlpProtocol::Protobuf));
        let told = SpanTarget::of(Some("http://c"), Some("http/json"), |_| Some("grpc".into()));
        assert_eq!(told.unwrap().unwrap().protocol, OtlpProtocol::Json);
        assert!(asked(all, "grpc").is_err_and(|e| e.contains("OTEL_EXPORTER_OTLP_PROTOCOL is grpc")));
    }
}

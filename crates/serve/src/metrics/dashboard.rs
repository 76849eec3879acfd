//! `examples/grafana.json`: a dashboard with the six blocks of the page `/top`, made here, and held to the metrics that there
//! are.

use super::Metrics;
use crate::{
    models::{Phase, Registry},
    options::ServeOptions,
};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

/// A panel: its title, the unit of its numbers, and queries with what they are called.
type Panel = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const BLOCKS: &[(&str, &[Panel])] = &[
    (
        "Is it well",
        &[
            (
                "State",
                "none",
                &[(r#"lamina:model_state{model_name=~"$model"} == 1"#, "{{model_name}} {{state}}")],
            ),
            (
                "Age of the last step",
                "s",
                &[(r#"lamina:step_age_seconds{model_name=~"$model"}"#, "{{model_name}}")],
            ),
            (
                "Refused and cancelled",
                "reqps",
                &[
                    ("sum by (why) (rate(lamina:rejected_total[5m]))", "refused: {{why}}"),
                    ("sum by (why) (rate(lamina:requests_cancelled_total[5m]))", "cancelled: {{why}}"),
                ],
            ),
        ],
    ),
    (
        "How fast",
        &[
            (
                "Tokens",
                "short",
                &[
                    (r#"sum(rate(lamina:generation_tokens_total{model_name=~"$model"}[1m]))"#, "out"),
                    (r#"sum(rate(lamina:prompt_tokens_total{model_name=~"$model"}[1m]))"#, "in"),
                ],
            ),
            (
                "Requests",
                "none",
                &[
                    (r#"sum(lamina:num_requests_running{model_name=~"$model"})"#, "run"),
                    (r#"sum(lamina:num_requests_waiting{model_name=~"$model"})"#, "wait"),
                    (r#"sum(lamina:num_requests_swapped{model_name=~"$model"})"#, "swapped or paused"),
                ],
            ),
            (
                "Guesses that were right",
                "percentunit",
                &[(
                    r#"sum(rate(lamina:spec_decode_num_accepted_tokens_total{model_name=~"$model"}[5m])) / sum(rate(lamina:spec_decode_num_draft_tokens_total{model_name=~"$model"}[5m]))"#,
                    "part",
                )],
            ),
        ],
    ),
    (
        "How it feels",
        &[
            (
                "To the first token",
                "s",
                &[
                    (
                        r#"histogram_quantile(0.5, sum by (le) (rate(lamina:time_to_first_token_seconds_bucket{model_name=~"$model"}[5m])))"#,
                        "half",
                    ),
                    (
                        r#"histogram_quantile(0.9, sum by (le) (rate(lamina:time_to_first_token_seconds_bucket{model_name=~"$model"}[5m])))"#,
                        "9 of 10",
                    ),
                    (
                        r#"histogram_quantile(0.99, sum by (le) (rate(lamina:time_to_first_token_seconds_bucket{model_name=~"$model"}[5m])))"#,
                        "99 of 100",
                    ),
                ],
            ),
            (
                "Between tokens",
                "s",
                &[
                    (
                        r#"histogram_quantile(0.5, sum by (le) (rate(lamina:inter_token_latency_seconds_bucket{model_name=~"$model"}[5m])))"#,
                        "half",
                    ),
                    (
                        r#"histogram_quantile(0.9, sum by (le) (rate(lamina:inter_token_latency_seconds_bucket{model_name=~"$model"}[5m])))"#,
                        "9 of 10",
                    ),
                    (
                        r#"histogram_quantile(0.99, sum by (le) (rate(lamina:inter_token_latency_seconds_bucket{model_name=~"$model"}[5m])))"#,
                        "99 of 100",
                    ),
                ],
            ),
            (
                "Where a request waits",
                "s",
                &[
                    (
                        r#"sum(rate(lamina:request_queue_time_seconds_sum{model_name=~"$model"}[5m])) / sum(rate(lamina:request_queue_time_seconds_count{model_name=~"$model"}[5m]))"#,
                        "queue",
                    ),
                    (
                        r#"sum(rate(lamina:request_prefill_time_seconds_sum{model_name=~"$model"}[5m])) / sum(rate(lamina:request_prefill_time_seconds_count{model_name=~"$model"}[5m]))"#,
                        "prefill",
                    ),
                    (
                        r#"sum(rate(lamina:request_decode_time_seconds_sum{model_name=~"$model"}[5m])) / sum(rate(lamina:request_decode_time_seconds_count{model_name=~"$model"}[5m]))"#,
                        "decode",
                    ),
                ],
            ),
        ],
    ),
    (
        "What is full",
        &[
            ("Pages", "none", &[(r#"sum by (state) (lamina:kv_pages{model_name=~"$model"})"#, "{{state}}")]),
            (
                "Preemptions",
                "cps",
                &[(r#"sum(rate(lamina:num_preemptions_total{model_name=~"$model"}[5m]))"#, "preempted")],
            ),
            ("Memory", "bytes", &[("process_resident_memory_bytes", "resident")]),
            (
                "Beginnings that were found",
                "percentunit",
                &[
                    (
                        r#"sum(rate(lamina:prefix_cache_hits_total{model_name=~"$model"}[5m])) / sum(rate(lamina:prefix_cache_queries_total{model_name=~"$model"}[5m]))"#,
                        "of tokens",
                    ),
                    (
                        r#"sum(rate(lamina:prefix_cache_disk_hits_total{model_name=~"$model"}[5m])) / sum(rate(lamina:prefix_cache_queries_total{model_name=~"$model"}[5m]))"#,
                        "from disk",
                    ),
                ],
            ),
        ],
    ),
    (
        "Who",
        &[
            (
                "Machine time by key",
                "percentunit",
                &[("sum by (tenant) (rate(lamina:tenant_seconds_total[5m]))", "{{tenant}}")],
            ),
            (
                "Requests by end",
                "reqps",
                &[(
                    r#"sum by (finished_reason) (rate(lamina:request_success_total{model_name=~"$model"}[5m]))"#,
                    "{{finished_reason}}",
                )],
            ),
            ("Connections", "none", &[("lamina:open_connections", "open")]),
        ],
    ),
    (
        "Where time goes",
        &[
            (
                "Steps by kind",
                "percentunit",
                &[(r#"sum by (kind) (rate(lamina:step_seconds_sum{model_name=~"$model"}[1m]))"#, "{{kind}}")],
            ),
            (
                "Steps by phase",
                "percentunit",
                &[(
                    r#"sum by (phase) (rate(lamina:step_phase_seconds_total{model_name=~"$model"}[1m]))"#,
                    "{{phase}}",
                )],
            ),
            (
                "Rows of a step",
                "none",
                &[(
                    r#"sum(rate(lamina:iteration_tokens_sum{model_name=~"$model"}[1m])) / sum(rate(lamina:iteration_tokens_count{model_name=~"$model"}[1m]))"#,
                    "rows",
                )],
            ),
        ],
    ),
];

fn dashboard() -> Value {
    let (mut panels, mut y) = (vec![], 0);
    for (block, its) in BLOCKS {
        let id = panels.len() + 1;
        panels.push(json!({ "id": id, "type": "row", "title": block, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": y, "w": 24, "h": 1 } }));
        let width = 24 / its.len();
        for (i, panel) in its.iter().enumerate() {
            panels.push(drawn(panel, panels.len() + 1, (i * width, y + 1, width)));
        }
        y += 9;
    }
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    json!({
        "title": "Lamina", "uid": "lamina", "tags": ["lamina"], "schemaVersion": 39, "refresh": "10s",
        "time": { "from": "now-1h", "to": "now" }, "panels": panels,
        "templating": { "list": [
            { "name": "source", "type": "datasource", "query": "prometheus", "label": "Source" },
            { "name": "model", "type": "query", "label": "Model", "datasource": source, "multi": true,
              "includeAll": true, "current": { "text": "All", "value": "$__all" },
              "query": { "query": "label_values(lamina:model_state, model_name)", "refId": "model" }, "refresh": 2 },
        ] },
    })
}

fn drawn((title, unit, queries): &Panel, id: usize, (x, y, w): (usize, usize, usize)) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    let target = |(i, (query, legend)): (usize, &(&str, &str))| json!({ "refId": format!("Q{i}"), "datasource": source, "expr": query, "legendFormat": legend });
    let targets: Vec<Value> = queries.iter().enumerate().map(target).collect();
    json!({
        "id": id, "type": "timeseries", "title": title, "datasource": source, "targets": targets,
        "gridPos": { "x": x, "y": y, "w": w, "h": 8 },
        "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
    })
}

/// Names of metrics in a query.
fn names(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
    words.filter(|word| word.starts_with("lamina:") || word.starts_with("process_"))
}

/// `LAMINA_BLESS=1` writes the file anew.
#[test]
fn every_metric_of_the_dashboard_exists() {
    let options = ServeOptions::default();
    let models = Registry::new(&options).expect("the packaged model");
    models.begin();
    while matches!(models.slots()[0].phase(), Phase::Unloaded | Phase::Loading { .. }) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let text = Metrics::new("lamina", false).text(&models.slots(), 0);
    let known =
        |name: &str| text.lines().any(|l| l.strip_prefix(name).is_some_and(|l| l.starts_with(['{', ' '])));
    // Families without a request have no sample yet.
    let later = ["lamina:tenant_seconds_total"];
    for query in BLOCKS.iter().flat_map(|(_, its)| *its).flat_map(|panel| panel.2).map(|(query, _)| query) {
        assert!(names(query).count() > 0, "{query}");
        for name in names(query) {
            assert!(known(name) || later.contains(&name), "{name} is none of\n{text}");
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grafana.json");
    let made = format!("{:#}\n", dashboard());
    if std::env::var_os("LAMINA_BLESS").is_some() {
        fs::write(&file, &made).expect("a file");
    }
    let text = lamina::files::read_text(&file).unwrap_or_default();
    assert!(text == made, "the dashboard is out of date: LAMINA_BLESS=1 writes it anew");
}

//! A recording of the packaged model, in all of its forms.

use crate::{
    SeeError, Trace, TraceJob, chart, export, page,
    plot::{Plot, PlotCurve, PlotForm},
    read, record,
};
use lamina::{GenerateOptions, LoadOptions, Model, Prompt, TraceDetail};
use serde_json::Value;
use std::{collections::BTreeMap, sync::OnceLock};

const HOSTILE: &str = "A</script><b onload=x>&\u{202e} \" ' é";

fn job(text: &str, max_tokens: usize) -> TraceJob {
    let mut options = GenerateOptions { max_tokens: Some(max_tokens), ..GenerateOptions::default() };
    options.sampling.set("seed", 4i64).unwrap();
    TraceJob { prompt: Prompt::Text(text.into()), options }
}

fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let options = LoadOptions { threads: Some(1), ..LoadOptions::default() };
        Model::load(Some(&lamina_fixtures::packaged()), options).unwrap()
    })
}

/// Three requests at once.
fn trace() -> &'static Trace {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    TRACE.get_or_init(|| {
        let mut jobs =
            [job("Once upon a time, there was a brave little robot", 20), job(HOSTILE, 9), job("A cat", 5)];
        (1..).zip(&mut jobs).for_each(|(tag, job)| job.options.terms.tag = tag);
        let mut trace = record(model(), &jobs, TraceDetail::Inside, &mut || true).unwrap().1;
        trace.run.bandwidth = Some(2e10);
        trace
    })
}

#[test]
fn a_recording_is_read_again_and_nothing_else_is() {
    let text = trace().json();
    assert_eq!(&Trace::from_json(text.as_bytes()).unwrap(), trace());
    // Fields of a later program are skipped.
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["later"] = 1.into();
    value["events"]["wind"] = serde_json::json!({"speed": [1, 2]});
    assert_eq!(&Trace::from_json(value.to_string().as_bytes()).unwrap(), trace());
    value["events"]["step"]["begin"] = serde_json::json!([1]);
    assert!(matches!(Trace::from_json(value.to_string().as_bytes()), Err(SeeError::Ragged("step"))));
    value["version"] = 2.into();
    assert!(matches!(Trace::from_json(value.to_string().as_bytes()), Err(SeeError::Newer(2, 1))));
    for wrong in ["", "[]", "{\"format\": \"other\", \"version\": 1}"] {
        assert!(matches!(Trace::from_json(wrong.as_bytes()), Err(SeeError::NoTrace(_))), "{wrong}");
    }
}

#[test]
fn a_recording_of_before_lacks_a_column() {
    let mut value: Value = serde_json::from_str(&trace().json()).unwrap();
    value["events"]["sequence"].as_object_mut().unwrap().remove("tag");
    let read = Trace::from_json(value.to_string().as_bytes()).unwrap();
    assert!(read.events.sequence.tag.iter().all(|tag| *tag == 0));
    assert_eq!(read.events.sequence.at, trace().events.sequence.at);
}

#[test]
fn of_many_requests_one_is_shown_without_texts_of_others() {
    let all = trace();
    let one = read::of_tag(all.clone(), 2).unwrap();
    let sequence = all.requests[1].sequence.unwrap();
    assert_eq!(one.requests, [all.requests[1].clone()]);
    assert!(one.events.token.sequence.iter().all(|s| *s == sequence));
    assert_eq!(one.events.token.id, all.requests[1].answer);
    let mine = |t: &Trace| t.events.share.sequence.iter().filter(|s| **s == sequence).count();
    assert_eq!((mine(&one), one.events.step.step.len()), (mine(all), mine(all)));
    let shared = |t: &Trace| t.events.share.sequence.iter().any(|s| *s != sequence);
    assert!(shared(&one), "who had rows beside it is part of why it was slow");
    let last = one.events.stage.token.last().map(|t| *t as usize + 1);
    assert_eq!(last, Some(one.events.token.id.len()));
    assert_eq!(read::doubts(&one, &read::TextStrip::of(&one)).len(), all.requests[1].answer.len());
    let said = |id: &u32| one.words.contains_key(id);
    assert!(one.requests[0].prompt.iter().all(said) && one.words.len() < all.words.len());
    assert!(read::of_tag(all.clone(), 9).is_none());
    assert!(page::trace_page(&one).contains("</html>"));
}

#[test]
fn requests_are_their_sequences_and_sums_add_up() {
    let t = trace();
    let asked: Vec<_> = t.requests.iter().map(|r| r.sequence.unwrap()).collect();
    assert!(asked.windows(2).all(|pair| pair[0] < pair[1]));
    let strip = read::TextStrip::of(t);
    let chosen: usize = strip.steps.iter().map(|s| s.chosen.1 - s.chosen.0).sum();
    assert_eq!(chosen, strip.tokens.len() - strip.prompt_len());
    assert_eq!(chosen, t.requests[0].answer.len());
    // A step of one token reads the weights that the model says it reads.
    let row = strip.middle_decode.unwrap();
    let limit = read::step_limits(t, row);
    let cache = t.run.model.kv_bytes_per_token * strip.tokens.len() as f64;
    let off = limit.bytes - t.run.model.bytes_per_token as f64;
    assert!(
        off >= 0.0 && off < cache + 0.05 * limit.bytes,
        "{} {}",
        limit.bytes,
        t.run.model.bytes_per_token
    );
    // Two operations for each number that is multiplied with.
    assert!(limit.flop > 1.5 * (t.run.model.params as f64) * 0.8, "{}", limit.flop);
    let ops: u64 = read::op_limits(t, row).iter().map(|o| o.ns).sum();
    assert!(ops <= t.events.step.machine[row]);
}

#[test]
fn every_figure_says_something_and_is_sound() {
    let figures = chart::figures(trace());
    let ids: Vec<_> = figures.iter().map(|f| f.id).collect();
    for id in [
        "letters", "steps", "floor", "plan", "limits", "roofline", "lanes", "pages", "turns", "lens",
        "heads", "choice", "sums",
    ] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
    for f in &figures {
        assert!(f.finding.len() > 30 && f.finding.matches('*').count() % 2 == 0, "{}: {}", f.id, f.finding);
        assert!(
            !f.table.1.is_empty() && f.table.1.iter().all(|row| row.len() == f.table.0.len()),
            "{}",
            f.id
        );
        assert!(
            f.svg.contains("aria-label=\"") && !f.svg.contains("NaN") && !f.svg.contains("inf"),
            "{}",
            f.id
        );
        balanced(&f.svg);
        balanced(&chart::standalone(&f.svg));
    }
    assert!(matches!(chart::figure(trace(), "form"), Err(SeeError::NoFigure { .. })), "there was no grammar");
}

#[test]
fn what_lies_inside_is_of_the_first_text() {
    let (t, strip) = (trace(), read::TextStrip::of(trace()));
    let (tokens, layers) = (strip.tokens.len(), t.run.model.layers);
    let known = read::known(t, &strip);
    // The first token has no row before it.
    assert_eq!(known.len(), tokens - 1);
    assert!(known.iter().all(|token| token.ranks.len() == layers + 1));
    // What became an answer has the same place behind the last layer: the second pass has the bits of the first.
    let answer: Vec<_> = known.iter().filter(|token| token.place >= strip.prompt_len()).collect();
    let doubts = read::doubts(t, &strip);
    for (token, doubt) in answer.iter().zip(&doubts) {
        let rank = token.ranks.last().unwrap().unwrap_or(usize::MAX);
        assert!(rank == doubt.rank as usize || doubt.rank > 4, "{token:?} {doubt:?}");
    }
    let heads = read::glances(t, &strip);
    assert!(
        heads.len().is_multiple_of(layers) && heads.iter().all(|head| head.rows.len() == tokens),
        "{}",
        heads.len()
    );
    assert!(heads.iter().all(|head| head.means.iter().sum::<f64>() < 1.1));
    assert!(t.run.inside_ns.is_some() && t.events.expert.place.is_empty());
    let page = page::trace_page(t);
    assert!(
        page.matches("data:image/png;base64,").count() == heads.len() && page.len() < 400_000,
        "{}",
        page.len()
    );
}

#[test]
fn two_recordings_stand_beside_one_another() {
    let mut old = trace().clone();
    old.events.step.machine.iter_mut().for_each(|ns| *ns *= 2);
    old.run.model.bytes *= 2;
    let figures = chart::against(trace(), &old);
    assert_eq!(figures[0].id, "against");
    assert_eq!(figures[1..].len(), chart::figures(trace()).len());
    assert!(figures[1..].iter().all(|f| f.before.is_some()));
    let floor = chart::named(figures, "floor").unwrap();
    assert!(floor.finding.contains("*50 % less*"), "{}", floor.finding);
    let page = page::against_page(trace(), &old);
    assert!(page.contains("prompt and answer are the same") && page.contains("Then and now"));
    // With itself nothing has changed.
    let same = chart::against(trace(), trace());
    assert!(same.iter().skip(1).all(|f| !f.finding.starts_with("Now ")), "{:?}", same[1].finding);
    assert!(same[0].finding.contains("nearly the same"), "{}", same[0].finding);
}

#[test]
fn no_two_drawings_of_a_page_share_a_name() {
    let (values, places) = (vec![1.0, 2.0], vec![1.0, 3.0]);
    let curve =
        PlotForm::Curve(PlotCurve { name: "rate", along: "GB", values, places, ..PlotCurve::default() });
    let form = PlotForm::Stack(vec![curve.clone(), curve]);
    let plot = Plot { title: "Memory".into(), conditions: String::new(), form };
    for page in [page::trace_page(trace()), page::against_page(trace(), trace()), plot.html(), plot.svg()] {
        // One drawing, or a group of them.
        let page = page.replace("role=\"group\"", "role=\"img\"");
        let parts = page.split("role=\"img\" aria-label=\"").skip(1);
        let names: Vec<_> = parts.filter_map(|rest| rest.split('"').next()).collect();
        let once: BTreeMap<_, _> = names.iter().map(|name| (name, ())).collect();
        assert!(names.len() > 2 && once.len() == names.len(), "{names:#?}");
    }
}

/// Each element is closed, in order.
fn balanced(svg: &str) {
    let mut open = vec![];
    for tag in svg.split('<').skip(1) {
        let inside = tag.split_once('>').expect("ends").0;
        match inside.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if inside.ends_with('/') => {}
            None => open.push(inside.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn texts_of_strangers_stay_text() {
    let mut hostile = trace().clone();
    hostile.requests.swap(0, 1);
    let page = page::trace_page(&hostile);
    assert!(!page.contains("<b onload") && !page.contains('\u{202e}') && page.contains("default-src 'none'"));
    assert_eq!(page.matches("</script>").count(), 2);
    hostile
        .words
        .values_mut()
        .for_each(|word| *word = format!("</script>{{{{data}}}}<!--{}", "x".repeat(10_000)));
    let page = page::trace_page(&hostile);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<!--") && page.len() < 1 << 20, "{}", page.len());
}

#[test]
fn a_trace_without_tokens_or_operators_has_the_other_figures() {
    let steps = record(model(), &[job("Once", 3)], TraceDetail::Steps, &mut || true).unwrap().1;
    let ids: Vec<_> = chart::figures(&steps).iter().map(|f| f.id).collect();
    assert_eq!(ids, ["letters", "steps", "floor", "plan", "pages", "sums"]);
    assert!(page::trace_page(&steps).contains("Two lives"));
    let nothing = Trace {
        run: Default::default(),
        plan: Default::default(),
        words: Default::default(),
        special: vec![],
        requests: vec![],
        events: Default::default(),
        format: Trace::FORMAT.into(),
        version: 1,
    };
    assert!(chart::figures(&nothing).is_empty());
    assert!(page::trace_page(&nothing).contains("</html>"));
    assert_eq!(Trace::from_json(br#"{"format": "lamina-trace", "version": 1}"#).unwrap(), nothing);
}

#[test]
fn spans_of_chrome_nest_and_arrows_have_both_ends() {
    let value: Value = serde_json::from_str(&export::chrome(trace())).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let mut tracks: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for e in events.iter().filter(|e| e["ph"] == "X") {
        let (begin, time) = (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap());
        let track = (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
        tracks.entry(track).or_default().push((begin, begin + time));
    }
    for (track, mut spans) in tracks {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = vec![];
        for (begin, end) in spans {
            // A thousandth of a microsecond is rounding of numbers that count nanoseconds.
            while open.last().is_some_and(|last| *last <= begin + 1e-3) {
                open.pop();
            }
            assert!(open.last().is_none_or(|last| end <= last + 1e-3), "{track:?}: {begin} {end}");
            open.push(end);
        }
    }
    let count = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
    assert_eq!((count("s"), count("f")), (trace().events.share.step.len(), trace().events.share.step.len()));
    let ops = events.iter().filter(|e| e["pid"] == 2 && e["ph"] == "X").count();
    assert_eq!(ops, trace().events.op.step.len());
}

#[test]
fn spans_of_requests_fill_them_and_tell_no_text() {
    let requests = export::request_spans(trace(), 1_700_000_000_000_000_000);
    let value = export::otlp(&requests, "lamina", "0");
    let spans = value["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 4 * 3);
    let time = |s: &Value, key: &str| s[key].as_str().unwrap().parse::<u64>().unwrap();
    for request in spans.chunks(4) {
        assert!(request[1..].iter().all(|s| s["parentSpanId"] == request[0]["spanId"]));
        assert_eq!(request[0]["traceId"].as_str().unwrap().len(), 32);
        let (begin, end) = (time(&request[0], "startTimeUnixNano"), time(&request[0], "endTimeUnixNano"));
        let inside: u64 =
            request[1..].iter().map(|s| time(s, "endTimeUnixNano") - time(s, "startTimeUnixNano")).sum();
        assert_eq!(inside, end - begin);
    }
    assert!(!value.to_string().contains("robot"));
}

#[test]
fn columns_and_plans_have_their_forms() {
    let csv = export::csv(trace(), "token").unwrap();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + trace().events.token.id.len());
    assert_eq!(lines[0], "step,sequence,id,forced,allowed,mask,rank,logprob");
    assert!(export::csv(trace(), "wind").is_none());
    let plan = &trace().plan;
    let (text, dot, mermaid) = (export::plan_text(plan), export::dot(plan), export::mermaid(plan));
    let times = |line: &str| line.strip_prefix("layer ")?.split(" x ").nth(1)?.parse::<usize>().ok();
    assert_eq!(text.lines().filter_map(times).sum::<usize>(), trace().run.model.layers, "{text}");
    assert!(text.contains("Attend"), "{text}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    assert_eq!(dot.matches(" -> ").count() + 1, dot.matches("[label=").count());
    assert!(mermaid.contains("subgraph"));
}

/// Whether a value is what a schema says: the few words that ours has.
fn fits(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{at}: {what}"));
    let is = |kind: &Value| match kind.as_str() {
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    let known = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    let number = value.as_f64().unwrap_or(0.0);
    if !known || schema.get("const").is_some_and(|only| only != value) {
        return wrong("another type or value");
    }
    if schema["minimum"].as_f64().is_some_and(|m| number < m)
        || schema["maximum"].as_f64().is_some_and(|m| number > m)
    {
        return wrong("out of range");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return wrong("a field is missing");
        }
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let of = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        of.map_or(Ok(()), |of| fits(field, of, &format!("{at}.{name}")))?;
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    items
        .filter(|_| schema.get("items").is_some())
        .try_for_each(|(i, v)| fits(v, &schema["items"], &format!("{at}[{i}]")))
}

/// `LAMINA_BLESS=1` writes the file anew.
#[test]
fn recordings_are_what_their_schema_says() {
    let schema = export::schema();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace.schema.json");
    let text = format!("{schema:#}\n");
    if std::env::var_os("LAMINA_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == text,
        "LAMINA_BLESS=1 writes docs/trace.schema.json"
    );
    let value: Value = serde_json::from_str(&trace().json()).unwrap();
    fits(&value, &schema, "trace").unwrap();
    // All that a recording has is described.
    for (name, columns) in value["events"].as_object().unwrap() {
        let described = &schema["properties"]["events"]["properties"][name]["properties"];
        for column in columns.as_object().unwrap().keys() {
            assert!(
                described[column]["description"].as_str().is_some_and(|d| d.len() > 3),
                "{name}.{column}"
            );
        }
    }
    for (path, wrong) in [
        ("/version", Value::from(2)),
        ("/format", "other".into()),
        ("/events/step/begin/0", (-1).into()),
        ("/events/token/forced/0", 1.into()),
        ("/events/stage/p/0", "x".into()),
        ("/run/model/layers", "two".into()),
    ] {
        let mut broken = value.clone();
        *broken.pointer_mut(path).unwrap() = wrong;
        assert!(fits(&broken, &schema, "trace").is_err(), "{path}");
    }
}

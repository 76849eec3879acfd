//! The trace event format of Chrome, which Perfetto opens: the right view above a hundred thousand spans.

use crate::{read::step_ns, trace::Trace};
use serde_json::{Value, json};

/// Processes of the view.
const ENGINE: u32 = 1;
const MACHINE: u32 = 2;
const REQUESTS: u32 = 3;

/// The whole trace as JSON: phases of steps, operators, a track for each sequence with arrows to its steps, and counters.
pub fn chrome(trace: &Trace) -> String {
    let mut events = vec![];
    for (pid, name) in [(ENGINE, "engine"), (MACHINE, "machine"), (REQUESTS, "requests")] {
        events.push(json!({"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}));
    }
    steps(trace, &mut events);
    ops(trace, &mut events);
    sequences(trace, &mut events);
    json!({"displayTimeUnit": "ns", "otherData": {"model": trace.run.model.name, "version": trace.run.version}, "traceEvents": events})
        .to_string()
}

/// Microseconds, as the format has them.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn steps(trace: &Trace, events: &mut Vec<Value>) {
    let s = &trace.events.step;
    for row in 0..s.step.len() {
        let (begin, args) =
            (s.begin[row], json!({"decode_rows": s.decode_rows[row], "prompt_rows": s.prompt_rows[row]}));
        events.push(json!({"ph": "X", "pid": ENGINE, "tid": 1, "name": format!("step {}", s.step[row]), "ts": us(begin), "dur": us(step_ns(trace, row)), "args": args}));
        let phases = [
            ("schedule", s.schedule[row]),
            ("fill", s.fill[row]),
            ("tell", s.tell[row]),
            ("machine", s.machine[row]),
            ("choose", s.choose[row]),
            ("commit", s.commit[row]),
        ];
        let mut at = begin;
        for (name, ns) in phases.into_iter().filter(|p| p.1 > 0) {
            events
                .push(json!({"ph": "X", "pid": ENGINE, "tid": 1, "name": name, "ts": us(at), "dur": us(ns)}));
            at += ns;
        }
        let counts = [
            ("rows", json!({"decode": s.decode_rows[row], "prompt": s.prompt_rows[row]})),
            ("waiting", json!({"sequences": s.waiting[row]})),
            ("free pages", json!({"pages": s.free_pages[row]})),
        ];
        for (name, args) in counts {
            events.push(
                json!({"ph": "C", "pid": ENGINE, "tid": 0, "name": name, "ts": us(begin), "args": args}),
            );
        }
    }
}

fn ops(trace: &Trace, events: &mut Vec<Value>) {
    let o = &trace.events.op;
    for i in 0..o.step.len() {
        let Some(op) = trace.plan.ops.get(o.op[i] as usize) else { continue };
        events.push(json!({"ph": "X", "pid": MACHINE, "tid": 1, "name": op.name, "ts": us(o.begin[i]), "dur": us(o.ns[i]), "args": {"layer": op.layer, "op": o.op[i], "step": o.step[i], "rows": o.rows[i]}}));
    }
}

fn sequences(trace: &Trace, events: &mut Vec<Value>) {
    let (share, step) = (&trace.events.share, &trace.events.step);
    for i in 0..share.step.len() {
        let Ok(row) = step.step.binary_search(&share.step[i]) else { continue };
        let (begin, tid) = (step.begin[row], share.sequence[i]);
        let name = if share.rows[i] > 1 || share.left[i] > 0 { "prompt" } else { "token" };
        events.push(json!({"ph": "X", "pid": REQUESTS, "tid": tid, "name": name, "ts": us(begin), "dur": us(step_ns(trace, row)), "args": {"start": share.start[i], "rows": share.rows[i], "drafts": share.drafts[i], "accepted": share.accepted[i]}}));
        for (ph, pid, tid) in [("s", REQUESTS, tid), ("f", ENGINE, 1)] {
            events.push(json!({"ph": ph, "pid": pid, "tid": tid, "id": i, "name": "rows", "cat": "flow", "bp": "e", "ts": us(begin)}));
        }
    }
}

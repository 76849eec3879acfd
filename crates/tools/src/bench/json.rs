//! The results of a benchmark as JSON.

use super::{BenchReport, DraftedSpeed, JobSpeed, Speed};
use crate::origin::origin;
use lamina_plan::{ExpertCounts, Profile};
use serde_json::{Value, json};

impl BenchReport {
    /// The results as one JSON object, with where they come from: date, version, commit and CPU.
    pub fn json(&self) -> Value {
        let drafts = |d: &DraftedSpeed| {
            json!({"plain_tok_s": d.plain_tok_s, "drafted": d.drafted, "accepted": d.accepted,
                   "tokens_per_step": d.tokens_per_step()})
        };
        let speed = |s: &Speed| {
            let drafts = s.drafts.as_ref().map(drafts);
            json!({"n": s.n, "depth": s.depth, "batch": s.batch, "tok_s": s.tok_s, "drafts": drafts,
                   "predicted": s.predicted})
        };
        let job = |j: &JobSpeed| {
            json!({"prompt": j.prompt, "n": j.gen_tokens, "batch": j.batch, "seconds": j.seconds,
                   "prefill_seconds": j.prefill_seconds, "tok_s": j.tok_s(), "predicted": j.predicted})
        };
        let stream = self.info.stream.as_ref().map(|s| {
            json!({"resident_bytes": s.resident_bytes, "streamed_bytes_per_step": s.streamed_bytes,
                   "buffer_bytes": s.buffer_bytes, "panel_file_bytes": s.panel_bytes, "direct": s.direct,
                   "reader": s.reader.name(),
                   "read_bytes": self.streamed.bytes, "stall_s": self.streamed.waited.as_secs_f64(),
                   "experts": s.experts.as_ref().map(|_| experts(&self.streamed.experts))})
        });
        let profile = |(kind, p): &(&str, Profile)| {
            let rows = p.rows();
            let row = |(op, seconds, calls, share): &(&str, f64, usize, f64)| json!({"op": op, "seconds": seconds, "calls": calls, "share": share});
            json!({"kind": kind, "ops": rows.iter().map(row).collect::<Vec<_>>()})
        };
        let measured = json!({
            "model": self.info.path,
            "type": self.info.type_name,
            "bytes": self.info.bytes,
            "params": self.info.params,
            "threads": self.info.threads,
            "isa": self.info.isa,
            "device": self.info.device,
            "kv_dtype": self.kv_name(),
            "draft": self.info.draft,
            "approximations": self.info.approximations,
            "load_s": self.load_s,
            "first_token_s": self.first_token_s,
            "prefill": self.prefill.iter().map(speed).collect::<Vec<_>>(),
            "decode": self.decode.iter().map(speed).collect::<Vec<_>>(),
            "jobs": self.jobs.iter().map(job).collect::<Vec<_>>(),
            "memory_budget": self.memory_budget,
            "stream": stream,
            "read_bandwidth_gb_s": self.bandwidth / 1e9,
            "bytes_per_token": self.info.bytes_per_token,
            "decode_bandwidth_share": self.bandwidth_share,
            "peak_rss_bytes": self.peak_rss,
            "profiles": self.profiles.iter().map(profile).collect::<Vec<_>>(),
        });
        let mut fields = origin();
        fields.extend(measured.as_object().cloned().unwrap_or_default());
        Value::Object(fields)
    }

    /// The cache's type as users write it.
    pub fn kv_name(&self) -> String {
        self.info.kv_dtype.to_string()
    }
}

/// How often experts were in memory, beside what the least recently used would have given, and how good guesses were.
fn experts(e: &ExpertCounts) -> Value {
    let share = |part: u64, all: u64| if all > 0 { Some(part as f64 / all as f64) } else { None };
    json!({"asked": e.hits + e.misses, "hit_share": share(e.hits, e.hits + e.misses),
           "lru_hit_share": share(e.lru_hits, e.hits + e.misses), "guessed": e.guessed,
           "guessed_right_share": share(e.guessed_right, e.guessed)})
}

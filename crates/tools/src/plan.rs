//! What a model will take and how fast it will be, as a report and as JSON.

use crate::{
    machines::{machines_json, machines_lines},
    speeds::{figure, speed_json, speeds},
};
use lamina::{
    CacheForecast, ClassHome, DeviceForecast, DraftForecast, DraftSpeed, EncoderForecast, Forecast,
    ForecastAdvice, JobForecast, MemoryPart, PictureForecast, PictureSize, SoundForecast, SoundSize,
    SpeedQuality, SwapForecast,
};
use lamina_base::human_bytes;
use lamina_plan::ReadSource;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Lines for people: model, memory, disk, speed, and what could be changed.
pub fn plan_report(forecast: &Forecast) -> String {
    let mut lines: Vec<(&str, String)> = vec![];
    lines.extend(forecast.problem.iter().map(|problem| ("problem", problem.clone())));
    if forecast.problem.is_none() {
        lines.push(("model", model(forecast)));
        lines.push(("memory", memory(forecast)));
        lines.extend(forecast.pictures.as_ref().map(|pictures| ("pictures", describe_pictures(pictures))));
        lines.extend(forecast.sounds.as_ref().map(|sounds| ("sounds", describe_sounds(sounds))));
        lines.extend(forecast.device.as_ref().map(|device| ("device", describe_device(device))));
        lines.extend(forecast.disk.as_ref().map(|_| ("disk", disk(forecast))));
        lines.extend(
            forecast
                .disk
                .as_ref()
                .and_then(|d| d.cache)
                .map(|cache| ("cache", describe_cache(forecast, &cache))),
        );
        lines.extend(forecast.swap.as_ref().map(|swap| ("swap", describe_swap(swap))));
        lines.push(("speed", speed(forecast)));
        lines.extend(forecast.draft.as_ref().map(|draft| ("draft", describe_draft(draft))));
        lines.extend(forecast.jobs.iter().map(|job| ("job", describe_job(forecast, job))));
        lines.extend(forecast.measured.map(|quality| ("measured", describe_quality(quality))));
    }
    let now = forecast.decode.first().map(|s| s.tok_s);
    lines.extend(forecast.advice.iter().map(|advice| ("way out", way_out(advice, now))));
    lines.extend(machines_lines(&forecast.machines));
    lines.iter().fold(String::new(), |mut text, (name, line)| {
        let _ = writeln!(text, "{name:8} {line}");
        text
    })
}

fn model(forecast: &Forecast) -> String {
    let (layers, experts) = forecast.shape;
    let experts = experts.map_or(String::new(), |(all, used)| format!(", {used} of {all} experts"));
    let (bytes, read) = (human_bytes(forecast.weights), human_bytes(forecast.bytes_per_token));
    let approximate = match &forecast.approximations[..] {
        [] => String::new(),
        named => format!("; approximate: {}{}", named.join(", "), assumed(named)),
    };
    format!("{bytes} of weights, {layers} layers{experts}: {read} read per token{approximate}")
}

/// What the speeds leave out of approximations: how many experts fall below a threshold is not known before.
fn assumed(approximations: &[String]) -> &'static str {
    let fewer = approximations.iter().any(|named| named.starts_with("fewer_experts"));
    if fewer { " (speeds are those with all experts of a token)" } else { "" }
}

fn memory(forecast: &Forecast) -> String {
    let part = |p: &MemoryPart| format!("{} {}", human_bytes(p.bytes), p.name);
    let parts: Vec<_> = forecast.memory.iter().map(part).collect();
    let budget = forecast.budget.map_or(String::new(), |b| format!(" of {}", human_bytes(b)));
    let cut = forecast.cut_from.map_or(String::new(), |from| format!(", cut from {from}"));
    format!(
        "{}{budget} = {}; {} tokens of context{cut}",
        human_bytes(forecast.memory_bytes()),
        parts.join(" + "),
        forecast.context
    )
}

/// An encoder, its file and device, and bytes of its weights and of what it works in.
fn describe_encoder(encoder: &EncoderForecast) -> String {
    let from = encoder.file.as_ref().map_or(String::new(), |file| format!(" of {}", file.display()));
    let on = encoder.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
    let (weights, working) = (human_bytes(encoder.weights), human_bytes(encoder.working));
    format!("{} encoder{from}{on}: {weights} of weights, {working} to work in", encoder.name)
}

fn encoder_json(encoder: &EncoderForecast) -> Value {
    json!({"encoder": encoder.name, "mmproj": encoder.file, "device": encoder.device, "weight_bytes": encoder.weights,
           "working_bytes": encoder.working})
}

fn describe_sounds(sounds: &SoundForecast) -> String {
    let encoder = describe_encoder(&sounds.encoder);
    let Some(s) = sounds.sound else { return encoder };
    format!(
        "{encoder}; {} s are {} rows in {} pieces: {} tokens, {} of rows",
        s.seconds,
        s.encoded.1,
        s.encoded.0,
        s.tokens,
        human_bytes(s.row_bytes)
    )
}

fn sounds_json(sounds: &SoundForecast) -> Value {
    let sound = |s: SoundSize| {
        json!({"seconds": s.seconds, "pieces": s.encoded.0, "encoded": s.encoded.1, "tokens": s.tokens,
               "row_bytes": s.row_bytes})
    };
    let mut told = encoder_json(&sounds.encoder);
    told["sound"] = json!(sounds.sound.map(sound));
    told
}

fn describe_pictures(pictures: &PictureForecast) -> String {
    let encoder = describe_encoder(&pictures.encoder);
    let Some(p) = pictures.picture else { return encoder };
    format!(
        "{encoder}; {} x {} is seen as {} x {}: {} patches, {} tokens, {} of rows",
        p.size.0,
        p.size.1,
        p.resized.0,
        p.resized.1,
        p.patches,
        p.tokens,
        human_bytes(p.row_bytes)
    )
}

fn pictures_json(pictures: &PictureForecast) -> Value {
    let picture = |p: PictureSize| {
        json!({"size": [p.size.0, p.size.1], "resized": [p.resized.0, p.resized.1], "patches": p.patches,
               "tokens": p.tokens, "row_bytes": p.row_bytes})
    };
    let mut told = encoder_json(&pictures.encoder);
    told["picture"] = json!(pictures.picture.map(picture));
    told
}

fn describe_device(device: &DeviceForecast) -> String {
    let part = |p: &MemoryPart| format!("{} {}", human_bytes(p.bytes), p.name);
    let parts: Vec<_> = device.parts.iter().map(part).collect();
    let (all, budget) = (human_bytes(device.bytes()), human_bytes(device.budget));
    let link = human_bytes(device.link_rate as u64);
    let sent = match device.sent_bytes {
        0 => String::new(),
        bytes => format!(", {} sent in every step", human_bytes(bytes)),
    };
    format!("{all} of {budget} on {} = {}; {link}/s to it{sent}", device.name, parts.join(" + "))
}

fn disk(forecast: &Forecast) -> String {
    let Some(disk) = &forecast.disk else { return String::new() };
    let written = match disk.missing_bytes {
        // Where only the cache is read there are none.
        0 if disk.step_bytes == 0 && disk.experts.is_none() => "no panels".to_owned(),
        0 => "panels are there".to_owned(),
        bytes => {
            let free = disk.free.map_or(String::new(), |f| format!(", {} free", human_bytes(f)));
            format!("{} of panels written at the first load{free}", human_bytes(bytes))
        }
    };
    let measured = if disk.rate.measured {
        "measured now"
    } else {
        "assumed: no file of the model is large enough to measure"
    };
    let hits = disk.hits.map_or(String::new(), |hits| {
        let from = if hits.counted { "by earlier runs" } else { "assumed: no run has counted yet" };
        format!(" with {:.0} % of what a token asks for ({from})", 100.0 * hits.share)
    });
    let experts = disk
        .experts
        .map_or(String::new(), |(slots, all)| format!(", {slots} of {all} experts in memory{hits}"));
    format!(
        "{} read per step{experts}, at {}/s ({measured}); {written} ({})",
        human_bytes(forecast.decode.first().map_or(disk.step_bytes, |s| s.streamed_bytes)),
        human_bytes(disk.rate.bytes as u64),
        disk.folder.display()
    )
}

fn describe_cache(forecast: &Forecast, cache: &CacheForecast) -> String {
    let (read, written) = forecast.decode.first().map_or((0, 0), |s| s.cache_bytes);
    let batch = forecast.decode.first().map_or(0, |s| s.running);
    format!(
        "{} of {} layers on disk, {}; a step of {batch} reads {} of it and writes {}, by buffers of {}",
        cache.layers.0,
        cache.layers.1,
        human_bytes(cache.file_bytes),
        human_bytes(read),
        human_bytes(written),
        human_bytes(cache.buffer_bytes)
    )
}

fn describe_swap(swap: &SwapForecast) -> String {
    let (memory, disk) = (human_bytes(swap.budget.memory), human_bytes(swap.budget.disk));
    let free = swap.free.map_or(String::new(), |f| format!(", {} free", human_bytes(f)));
    let on_disk = || format!("{disk} on disk ({}{free})", swap.folder.display());
    let places = [
        (swap.budget.memory > 0).then(|| format!("{memory} of memory")),
        (swap.budget.disk > 0).then(on_disk),
    ];
    let places: Vec<_> = places.into_iter().flatten().collect();
    format!("{} for {} tokens of preempted sequences", places.join(" + "), swap.tokens)
}

fn speed(forecast: &Forecast) -> String {
    speeds(&forecast.decode, &forecast.prefill)
}

fn describe_draft(draft: &DraftForecast) -> String {
    let guesses = |s: &DraftSpeed| match s.guesses {
        0 => "no guesses pay".to_owned(),
        n => format!("{n} in a step"),
    };
    let one = |s: &DraftSpeed| {
        format!("{:.0} % right: {} tokens/s ({})", 100.0 * s.accepted, figure(s.tok_s), guesses(s))
    };
    let speeds: Vec<_> = draft.speeds.iter().map(one).collect();
    let milliseconds = figure(1e3 * draft.cost.seconds);
    format!("{}: {milliseconds} ms a guess; 1 sequence with {}", draft.cost.name, speeds.join(" | "))
}

/// When speeds were measured, and how quietly.
fn describe_quality(quality: SpeedQuality) -> String {
    let age = match quality.age() {
        0..120 => "now".to_owned(),
        seconds @ 120..7200 => format!("{} minutes ago", seconds / 60),
        seconds @ 7200..172_800 => format!("{} hours ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    };
    let share =
        quality.cpu_share.map_or(String::new(), |share| format!(", with {:.0} % of the CPU", 100.0 * share));
    let doubt = match (quality.read, quality.kept) {
        (ReadSource::Caches(bytes), _) => format!(
            ": only {} could be read to know the speed of memory, which caches may hold, so that it may be slower than this \
             says; these figures are not kept",
            human_bytes(bytes)
        ),
        (ReadSource::Memory, true) => String::new(),
        (ReadSource::Memory, false) => {
            ": the machine is busy, so that it may be faster than this says; these figures are not kept"
                .to_owned()
        }
    };
    format!("{age}{share}{doubt}")
}

fn describe_job(forecast: &Forecast, job: &JobForecast) -> String {
    let tokens = forecast.decode.first().map_or(0, |s| s.tokens);
    let prompt = forecast.prefill.first().map_or(0, |s| s.tokens);
    let (seconds, rate) = (figure(job.seconds), figure(job.tok_s));
    format!("{} prompts of {prompt}, answers of {tokens}: {seconds} s, {rate} tokens/s", job.batch)
}

fn way_out(advice: &ForecastAdvice, now: Option<f64>) -> String {
    let times =
        now.filter(|n| *n > 0.0).map_or(String::new(), |n| format!(", {:.1} times", advice.tok_s / n));
    let (tok_s, change) = (figure(advice.tok_s), &advice.change);
    match advice.behind {
        None => format!("{change}: {tok_s} tokens/s{times}"),
        Some(tokens) => format!("{change}: {tok_s} tokens/s behind {tokens} tokens"),
    }
}

fn placement_json(homes: &[ClassHome]) -> Value {
    let one = |home: &ClassHome| {
        let bytes = json!({"device": home.device, "memory": home.memory, "disk": home.disk, "up": home.up});
        (home.class.to_owned(), bytes)
    };
    Value::Object(homes.iter().map(one).collect())
}

fn draft_json(draft: &DraftForecast) -> Value {
    let speed = |s: &DraftSpeed| json!({"accepted": s.accepted, "guesses": s.guesses, "tok_s": s.tok_s});
    let speeds: Vec<Value> = draft.speeds.iter().map(speed).collect();
    json!({"name": draft.cost.name, "guess_s": draft.cost.seconds, "decode": speeds})
}

/// The same as one JSON object.
pub fn plan_json(forecast: &Forecast) -> Value {
    let parts: Map<String, Value> =
        forecast.memory.iter().map(|p| (p.name.replace(' ', "_"), p.bytes.into())).collect();
    let job = |j: &JobForecast| json!({"batch": j.batch, "seconds": j.seconds, "tok_s": j.tok_s});
    let advice = |a: &ForecastAdvice| json!({"change": a.change, "tok_s": a.tok_s, "behind": a.behind});
    let cache = |c: CacheForecast| json!({"layers": c.layers.0, "all_layers": c.layers.1, "file_bytes": c.file_bytes, "buffer_bytes": c.buffer_bytes});
    let disk = forecast.disk.as_ref().map(|d| {
        json!({"folder": d.folder.display().to_string(), "missing_bytes": d.missing_bytes, "free": d.free,
               "step_bytes": d.step_bytes, "cache": d.cache.map(cache), "experts": d.experts.map(|e| e.1), "expert_slots": d.experts.map(|e| e.0),
               "expert_hit_share": d.hits.map(|h| h.share), "expert_hits_counted": d.hits.map(|h| h.counted), "read_gb_s": d.rate.bytes / 1e9, "measured": d.rate.measured})
    });
    let device = forecast.device.as_ref().map(|d| {
        let parts: Map<String, Value> =
            d.parts.iter().map(|p| (p.name.replace(' ', "_"), p.bytes.into())).collect();
        json!({"name": d.name, "budget": d.budget, "total": d.bytes(), "parts": parts, "link_gb_s": d.link_rate / 1e9,
               "sent_bytes": d.sent_bytes})
    });
    let swap = forecast.swap.as_ref().map(|s| {
        json!({"folder": s.folder.display().to_string(), "free": s.free, "tokens": s.tokens,
               "memory_bytes": s.budget.memory, "disk_bytes": s.budget.disk})
    });
    let (layers, experts) = forecast.shape;
    json!({
        "fits": forecast.problem.is_none(),
        "problem": forecast.problem,
        "model": {
            "bytes": forecast.weights,
            "bytes_per_token": forecast.bytes_per_token,
            "layers": layers,
            "experts": experts.map(|e| e.0),
            "experts_per_token": experts.map(|e| e.1),
            "approximations": forecast.approximations,
        },
        "memory": { "budget": forecast.budget, "total": forecast.memory_bytes(), "parts": parts },
        "placement": placement_json(&forecast.placement),
        "pictures": forecast.pictures.as_ref().map(pictures_json),
        "sounds": forecast.sounds.as_ref().map(sounds_json),
        "context": forecast.context,
        "context_cut_from": forecast.cut_from,
        "disk": disk,
        "device": device,
        "swap": swap,
        "draft": forecast.draft.as_ref().map(draft_json),
        "predict": {
            "decode": forecast.decode.iter().map(speed_json).collect::<Vec<_>>(),
            "prefill": forecast.prefill.iter().map(speed_json).collect::<Vec<_>>(),
            "jobs": forecast.jobs.iter().map(job).collect::<Vec<_>>(),
        },
        "hardware": hardware_json(forecast),
        "advice": forecast.advice.iter().map(advice).collect::<Vec<_>>(),
        "machines": machines_json(&forecast.machines),
    })
}

/// What speeds were measured, and how.
fn hardware_json(forecast: &Forecast) -> Value {
    let measured = forecast.measured;
    json!({
        "ram_gb_s": forecast.ram_rate / 1e9,
        "age_s": measured.map(|quality| quality.age()),
        "cpu_share": measured.and_then(|quality| quality.cpu_share),
        "ram_from": measured.map(|quality| match quality.read {
            ReadSource::Memory => "memory",
            ReadSource::Caches(_) => "caches",
        }),
        "kept": measured.map(|quality| quality.kept),
    })
}

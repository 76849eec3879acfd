//! From a running model to a trace.

use crate::{
    energy::PackageEnergy,
    error::SeeError,
    log_events::{events, inside},
    trace::{
        OpView, PlanView, RunFacts, SlotView, Trace, TraceEvents, TracedModel, TracedRequest, WeightView,
    },
};
use lamina::{
    Completion, EventLog, GenerateOptions, Model, ModelInfo, Plan, Prompt, TokenStream, TraceDetail,
    TraceLooks, checkpoint, gpu_joules,
};
use lamina_base::{cpu_name, files::read_text, resident_memory};
use lamina_plan::{
    OpCost, OpRows, PAGE_LEN, RowKind, WeightKind, WeightSpec,
    op::{Op, Operands},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// How often it is asked whether requests go on.
const PATIENCE: Duration = Duration::from_millis(50);

/// A request that is to be traced.
#[derive(Clone, Debug)]
pub struct TraceJob {
    /// What to continue.
    pub prompt: Prompt,
    /// How.
    pub options: GenerateOptions,
}

/// How much is recorded of requests.
#[derive(Clone, Copy, Debug)]
pub struct TraceScope {
    /// How much.
    pub detail: TraceDetail,
    /// What is looked at inside of steps, in a second pass over the first text.
    pub looks: TraceLooks,
}

impl From<TraceDetail> for TraceScope {
    fn from(detail: TraceDetail) -> TraceScope {
        TraceScope { detail, looks: TraceLooks::default() }
    }
}

/// Runs requests together, and records what happens meanwhile. A recording that was on is over afterwards. `goes_on` is
/// asked while they run; all of them end where it says no.
///
/// # Errors
/// What ended one of the requests, or the model's engine.
pub fn record(
    model: &Model,
    jobs: &[TraceJob],
    scope: impl Into<TraceScope>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(Vec<Completion>, Trace), SeeError> {
    let TraceScope { detail, looks } = scope.into();
    let prompts =
        jobs.iter().map(|job| model.prompt_tokens(&job.prompt)).collect::<lamina::Result<Vec<_>>>()?;
    let (starved, energy, gpus) = (starved_ns(), PackageEnergy::now(), gpu_joules());
    // What lies inside of steps is looked at afterwards: the times of this run are those of a run without it.
    model.record(Some(detail.min(TraceDetail::Tokens)));
    let answers = run(model, jobs, &prompts, goes_on);
    let log = model.record(None);
    let joules = energy.and_then(|before| before.joules_since());
    let gpus = gpus.and_then(|before| Ok((before, gpu_joules()?)));
    let answers = answers?;
    let log = log.ok_or_else(|| lamina::Error::Runtime("the engine has ended".into()))?;
    let asked: Vec<_> = prompts.into_iter().zip(&answers).collect();
    let begin = Instant::now();
    let looked = match asked.first().filter(|_| detail == TraceDetail::Inside) {
        Some((prompt, answer)) => Some(model.look(&[prompt, &answer.tokens[..]].concat(), looks, goes_on)?),
        None => None,
    };
    let took = begin.elapsed();
    let mut trace = of_log(model, &log, looked.as_ref(), |events| requests(events, &asked));
    if looked.is_some() {
        trace.run.detail = detail.name().to_owned();
        trace.run.inside_ns = Some(took.as_nanos() as u64);
    }
    match joules {
        Ok(joules) => trace.run.joules = Some(joules),
        Err(why) => trace.run.no_joules = why,
    }
    match gpus {
        Ok((before, now)) => trace.run.gpu_joules = before.zip(now).map(|(before, now)| now - before),
        Err(why) => trace.run.no_gpu_joules = why,
    }
    trace.run.starved_ns = starved.zip(starved_ns()).map(|(before, now)| now.saturating_sub(before));
    Ok((answers, trace))
}

/// A request that its caller knows by a number of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedRequest {
    /// The number, which its terms had too.
    pub tag: u64,
    /// Tokens of its prompt.
    pub prompt: Vec<u32>,
    /// Tokens of its first answer.
    pub answer: Vec<u32>,
}

/// What a model's log says of requests that are known by their numbers.
pub fn of_tagged(model: &Model, log: &EventLog, asked: &[TaggedRequest]) -> Trace {
    of_log(model, log, None, |events| asked.iter().map(|request| tagged(model, events, request)).collect())
}

fn tagged(model: &Model, events: &TraceEvents, asked: &TaggedRequest) -> TracedRequest {
    let s = &events.sequence;
    let own = |i: &usize| s.tag[*i] == asked.tag && s.index[*i] == 0;
    let end = (0..s.at.len()).filter(own).find(|&i| s.what[i] == "end");
    let first = (0..s.at.len()).find(own);
    TracedRequest {
        sequence: first.map(|i| s.sequence[i]),
        prompt: asked.prompt.clone(),
        answer: asked.answer.clone(),
        text: model.detokenize(&asked.answer).unwrap_or_default(),
        finish: end.map(|i| s.reason[i].clone()).unwrap_or_default(),
    }
}

/// Ends the recording that a model has; none where nothing was recorded.
pub fn finish(model: &Model) -> Option<Trace> {
    model.record(None).map(|log| of_tagged(model, &log, &[]))
}

fn run(
    model: &Model,
    jobs: &[TraceJob],
    prompts: &[Vec<u32>],
    goes_on: &mut dyn FnMut() -> bool,
) -> lamina::Result<Vec<Completion>> {
    let start =
        |(job, tokens): (&TraceJob, &Vec<u32>)| model.stream(&Prompt::Tokens(tokens.clone()), &job.options);
    let streams: Vec<TokenStream> = jobs.iter().zip(prompts).map(start).collect::<lamina::Result<_>>()?;
    let mut answers = vec![];
    for mut stream in streams {
        let mut first = Completion::empty();
        loop {
            if !goes_on() {
                return Err(lamina::Error::Runtime("the requests were given up".into()));
            }
            match stream.next_within(PATIENCE) {
                Ok(Some(piece)) if piece.index == 0 => first.push(piece),
                Ok(_) => {}
                Err(None) => break,
                Err(Some(e)) => return Err(e),
            }
        }
        answers.push(first);
    }
    Ok(answers)
}

/// What a model's log says of requests, each with the tokens of its prompt, and what was seen in another pass over the first.
fn of_log(
    model: &Model,
    log: &EventLog,
    looked: Option<&EventLog>,
    requests: impl FnOnce(&TraceEvents) -> Vec<TracedRequest>,
) -> Trace {
    let info = model.info();
    let mut events = events(log);
    let requests = requests(&events);
    let first = requests.first().and_then(|r| r.sequence);
    let mut plan = plan_view(&log.plan, info);
    match looked {
        Some(looked) => inside(&mut events, looked, &plan, first),
        None => inside(&mut events, log, &plan, None),
    }
    let mut ids: BTreeSet<u32> = events.token.id.iter().copied().collect();
    ids.extend(events.stage.ids.iter().flatten().chain(events.lens.ids.iter().flatten()));
    ids.extend(requests.iter().flat_map(|r| r.prompt.iter().chain(&r.answer)));
    let (words, special) = words(model, &ids);
    for (op, (time, calls)) in plan.ops.iter_mut().zip(&log.op_sums) {
        (op.ns, op.calls) = (time.as_nanos() as u64, *calls as u64);
    }
    let run = RunFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        detail: log.detail.name().to_owned(),
        model: facts(info),
        cpu: cpu_name(),
        bandwidth: None,
        process_bytes: resident_memory(),
        ns: log.until,
        starved_ns: None,
        inside_ns: None,
        joules: None,
        no_joules: String::new(),
        gpu_joules: None,
        no_gpu_joules: String::new(),
        dropped: log.dropped + looked.map_or(0, |looked| looked.dropped),
        page_tokens: PAGE_LEN as u32,
    };
    Trace {
        format: Trace::FORMAT.to_owned(),
        version: Trace::VERSION,
        run,
        plan,
        words,
        special,
        requests,
        events,
    }
}

fn facts(info: &ModelInfo) -> TracedModel {
    let name = Path::new(&info.path).file_stem().map(|s| s.to_string_lossy().into_owned());
    TracedModel {
        name: name.unwrap_or_default(),
        architecture: info.architecture.clone(),
        r#type: info.type_name.clone(),
        bytes: info.bytes,
        params: info.params,
        layers: info.layers,
        hidden: info.hidden,
        vocab: info.vocab,
        context: info.context,
        kv_bytes_per_token: info.kv_bytes_per_token,
        kv_dtype: info.kv_dtype.to_string(),
        bytes_per_token: info.bytes_per_token,
        threads: info.threads,
        isa: info.isa.clone(),
        device: info.device.clone(),
    }
}

/// Texts of tokens, and those that stand for none.
fn words(model: &Model, ids: &BTreeSet<u32>) -> (BTreeMap<u32, String>, Vec<u32>) {
    let Some(tokenizer) = model.tokenizer() else { return Default::default() };
    let special: Vec<u32> = ids.iter().copied().filter(|&id| tokenizer.is_special(id)).collect();
    let text = |&id: &u32| {
        let bytes = tokenizer.token_bytes(id).filter(|_| !tokenizer.is_special(id));
        let text = bytes.map(|b| String::from_utf8_lossy(b).into_owned());
        Some((id, text.or_else(|| tokenizer.id_to_token(id).map(str::to_owned))?))
    };
    (ids.iter().filter_map(text).collect(), special)
}

/// Which sequence each request became: in the order of arrival, by the length of its prompt.
fn requests(events: &TraceEvents, asked: &[(Vec<u32>, &Completion)]) -> Vec<TracedRequest> {
    let s = &events.sequence;
    let begun = (0..s.at.len()).filter(|&i| s.what[i] == "begin" && s.index[i] == 0);
    let mut free: Vec<(u64, u32)> = begun.map(|i| (s.sequence[i], s.prompt_tokens[i])).collect();
    free.sort_unstable();
    let one = |(prompt, answer): &(Vec<u32>, &Completion)| {
        let at = free.iter().position(|(_, tokens)| *tokens as usize == prompt.len());
        TracedRequest {
            sequence: at.map(|at| free.remove(at).0),
            prompt: prompt.clone(),
            answer: answer.tokens.clone(),
            text: answer.text.clone(),
            finish: answer.finish_reason.name().to_owned(),
        }
    };
    asked.iter().map(one).collect()
}

/// A plan for readers, with the types and sizes that the model's file has.
pub fn plan_view(plan: &Plan, info: &ModelInfo) -> PlanView {
    let file = checkpoint(Some(Path::new(&info.path))).ok();
    let per_number = info.bytes as f64 / info.params.max(1) as f64;
    let weight = |w: &WeightSpec| {
        let tensor = file.as_ref().and_then(|f| f.tensors.get(&w.name));
        let (rows, cols) = w.kind.shape();
        let shape = match w.kind {
            WeightKind::Vector { len } => vec![len],
            WeightKind::Stack { count, rows, cols } => vec![count, rows, cols],
            _ => vec![rows, cols],
        };
        WeightView {
            name: w.name.clone(),
            shape,
            r#type: tensor.map(|t| t.dtype.name().to_owned()).unwrap_or_default(),
            bytes: tensor.map_or((per_number * (rows * cols) as f64) as u64, |t| t.bytes.len() as u64),
        }
    };
    let weights: Vec<WeightView> = plan.weights.iter().map(weight).collect();
    let size: BTreeMap<&str, u64> = weights.iter().map(|w| (w.name.as_str(), w.bytes)).collect();
    let numbers: usize = (0..plan.kv.groups.len()).map(|group| plan.kv.numbers_per_token(group)).sum();
    let number = info.kv_bytes_per_token / numbers.max(1) as f64;
    let cost = |op: &Op, rows: &OpRows| plan.cost(op, rows, |w| size[w.name.as_str()], number);
    let ops =
        plan.ops.iter().enumerate().map(|(i, op)| op_view(plan, i, op, |rows| cost(op, rows))).collect();
    let slots = plan.slots.iter();
    let slot = slots.map(|s| SlotView { name: s.name.to_owned(), width: s.width }).collect();
    PlanView { ops, slots: slot, weights }
}

fn op_view(plan: &Plan, index: usize, op: &Op, cost: impl Fn(&OpRows) -> OpCost) -> OpView {
    let rows = |n: usize, seen: u64| OpRows { all: n, selected: n, logits: n, seen, held: seen };
    let (one, many) = (cost(&rows(1, 0)), cost(&rows(1 << 16, 0)));
    let deep = cost(&rows(1, 1 << 20));
    let kind = op.writes().first().map_or(RowKind::All, |slot| plan.kind(*slot));
    OpView {
        name: op.name().to_owned(),
        fused: !Op::PLAIN.contains(&op.name()),
        layer: plan.marks.iter().position(|m| index < m.ops).and_then(|at| {
            // Behind the embedding comes the first layer; behind the last layer the final norm.
            let layer = at.checked_sub(1)?;
            (at + 1 < plan.marks.len()).then_some(layer as u32)
        }),
        reads: op.reads().iter().map(|s| s.0).collect(),
        writes: op.writes().iter().map(|s| s.0).collect(),
        weights: op.weights().iter().map(|w| w.0).collect(),
        rows: match kind {
            RowKind::All => "all",
            RowKind::Selected => "selected",
            RowKind::Logits => "logits",
        }
        .to_owned(),
        row_bytes: one.weight_bytes,
        weight_bytes: many.weight_bytes,
        row_flop: one.flop,
        token_bytes: deep.cache_bytes.saturating_sub(one.cache_bytes) as f64 / f64::from(1 << 20),
        token_flop: deep.flop.saturating_sub(one.flop) >> 20,
        ns: 0,
        calls: 0,
    }
}

/// Nanoseconds that threads of this process were ready and had no core so far; none where the system does not tell.
fn starved_ns() -> Option<u64> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let waited = |task: fs::DirEntry| {
        let text = read_text(&task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(tasks.flatten().filter_map(waited).sum())
}

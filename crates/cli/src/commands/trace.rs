//! `lamina trace`: what happened between a prompt and its answer.

use super::Execute;
use crate::{
    args::{GenerateArgs, LoadArgs, LoraArgs},
    error::{CliError, Result},
    input,
    output::{self, note},
    table::pairs,
};
use lamina::{
    ChatOptions, GenerateOptions, HeadRange, LoadOptions, Model, Prompt, TraceDetail, TraceLooks,
    files::read_given,
};
use lamina_see::{SeeError, Trace, TraceJob, TraceScope, chart, export, page, plan_view, record};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Tokens of an answer where nothing is said.
const TOKENS: usize = 64;

/// Show what happened between a prompt and its answer, as one page of figures
///
/// The page asks nobody for anything and can be kept and sent. Names of files say what is written: .html the page, .json the
/// recording, .svg one figure, .csv the columns of one event. `lamina trace FILE.json -o page.html` makes a page of a
/// recording. Recording changes no bit of an answer.
#[derive(clap::Args)]
#[command(override_usage = "lamina trace [OPTIONS] [MODEL] PROMPT")]
pub struct TraceArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model, or a recording
    model: Option<OsString>,
    /// What to continue; `-` or nothing reads it from stdin
    prompt: Option<OsString>,
    /// Where it is written: .html, .json, .svg or .csv
    #[arg(short, long, value_name = "FILE", default_value = "trace.html")]
    out: PathBuf,
    /// How much is recorded: steps, ops, tokens or inside, each with the ones before
    #[arg(long, value_name = "DETAIL", default_value = "tokens")]
    detail: TraceDetail,
    /// The figure that an .svg shows, such as limits, or the event whose columns a .csv has, such as step
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Requests that run together instead of PROMPT, a JSON object a line: {"prompt": "..", "max_tokens": 32}
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Look up what the model would have said behind each layer, in a second pass (--detail inside)
    #[arg(long)]
    lens: bool,
    /// Look up what heads attend to, in a second pass: all, layers such as 0-3, or layers and heads such as 2:0-7
    #[arg(long, value_name = "LAYERS[:HEADS]", value_parser = heads)]
    attention: Option<HeadRange>,
    /// Show an older recording beside this one in each figure, and the difference in each sentence
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Write the trace events of Chrome, which Perfetto opens, too
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
    /// Take PROMPT as a message to a model that chats, by its template
    #[arg(long)]
    chat: bool,
    /// Open the page when it is written
    #[arg(long)]
    open: bool,
    /// Write the plan of the model instead: its operators, without running them
    #[arg(long)]
    plan: bool,
    /// The form of the plan
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = ["text", "json", "mermaid", "dot"])]
    format: String,
    #[command(flatten)]
    generate: GenerateArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    lora: LoraArgs,
}

impl Execute for TraceArgs {
    const NAME: &'static str = "trace";

    fn execute(mut self) -> Result<()> {
        if let Some(file) = self.recording() {
            let trace = recorded(&file)?;
            return self.written()?.write(&trace);
        }
        if self.plan {
            return self.plan();
        }
        let (options, written, scope) = (self.load.options(), self.written()?, self.scope());
        let (path, texts) = match self.requests.take() {
            Some(file) => (self.model.take().map(PathBuf::from), requests(&file)?),
            None => {
                let (path, text) = input::model_and_text(self.model.take(), self.prompt.take(), "PROMPT")?;
                (path, vec![(text, None)])
            }
        };
        let model = self.lora.load(path.as_deref(), options.clone())?;
        let wanted = self.generate.wanted().options;
        let job = |(text, most): (String, Option<usize>)| {
            let max_tokens = most.or(wanted.max_tokens).or(Some(TOKENS));
            let options = GenerateOptions { max_tokens, ..wanted.clone() };
            Ok(TraceJob { prompt: prompt(&model, text, self.chat)?, options })
        };
        let jobs = texts.into_iter().map(job).collect::<Result<Vec<TraceJob>>>()?;
        warm_up(&model)?;
        let (_, mut trace) =
            record(&model, &jobs, scope, &mut || true).map_err(|e| of_see(&written.out, e))?;
        trace.run.bandwidth = bandwidth(&options, &model);
        written.write(&trace)
    }
}

impl TraceArgs {
    /// The recording that the only argument names.
    fn recording(&self) -> Option<PathBuf> {
        let file = PathBuf::from(self.model.as_ref().filter(|_| self.prompt.is_none())?);
        (file.extension().is_some_and(|e| e == "json") && file.is_file()).then_some(file)
    }

    /// What is made of the trace; reads what it is compared with first, so that nothing runs in vain.
    fn written(&mut self) -> Result<Written> {
        let against = self.against.take().map(|file| recorded(&file)).transpose()?;
        let (figure, chrome) = (self.figure.take(), self.chrome.take());
        Ok(Written { out: std::mem::take(&mut self.out), figure, chrome, open: self.open, against })
    }

    /// How much is recorded, and what is looked at inside of steps.
    fn scope(&self) -> TraceScope {
        if !self.lens && self.attention.is_none() {
            return self.detail.into();
        }
        let looks = TraceLooks { lens: self.lens, attention: self.attention };
        TraceScope { detail: TraceDetail::Inside, looks }
    }

    fn plan(self) -> Result<()> {
        let path = self.model.map(PathBuf::from);
        let model = self.lora.load(path.as_deref(), self.load.options())?;
        let plan =
            model.machine_plan().ok_or_else(|| lamina::Error::Runtime("the engine has ended".into()))?;
        let view = plan_view(&plan, model.info());
        match self.format.as_str() {
            "json" => output::json(&serde_json::to_value(&view).unwrap_or(Value::Null)),
            "mermaid" => output::text(&export::mermaid(&view)),
            "dot" => output::text(&export::dot(&view)),
            _ => output::text(&export::plan_text(&view)),
        }
    }
}

/// What is made of a trace.
struct Written {
    out: PathBuf,
    figure: Option<String>,
    chrome: Option<PathBuf>,
    open: bool,
    against: Option<Trace>,
}

impl Written {
    fn write(self, trace: &Trace) -> Result<()> {
        let extension = self.out.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let named = |or: &str| self.figure.clone().unwrap_or_else(|| or.to_owned());
        let text = match extension {
            "html" => match &self.against {
                Some(old) => page::against_page(trace, old),
                None => page::trace_page(trace),
            },
            "json" => trace.json() + "\n",
            "svg" => {
                let figure =
                    chart::named(self.figures(trace), &named("limits")).map_err(|e| of_see(&self.out, e))?;
                chart::standalone(&figure.svg)
            }
            "csv" => export::csv(trace, &named("step")).ok_or_else(|| {
                let known: Vec<_> = export::event_names().collect();
                CliError::usage(&format!(
                    "--figure {}: there are the columns of {}",
                    named("step"),
                    known.join(" ")
                ))
            })?,
            other => {
                let problem = format!("`.{other}` is none of .html .json .svg .csv");
                return Err(CliError::Content { path: self.out, problem });
            }
        };
        write(&self.out, &text)?;
        if let Some(file) = &self.chrome {
            write(file, &export::chrome(trace))?;
        }
        let lines: Vec<_> =
            self.figures(trace).into_iter().map(|f| (f.title, f.finding.replace('*', ""))).collect();
        output::text(&pairs(lines))?;
        note(&format!("{} written", self.out.display()));
        if self.open { show(&self.out) } else { Ok(()) }
    }

    fn figures(&self, trace: &Trace) -> Vec<chart::Figure> {
        match &self.against {
            Some(old) => chart::against(trace, old),
            None => chart::figures(trace),
        }
    }
}

fn recorded(file: &Path) -> Result<Trace> {
    let text = read_given(file).map_err(|source| read_error(file, source))?;
    Trace::from_json(text.as_bytes()).map_err(|e| content(file, &e))
}

/// `all`, `2`, `0-3`, or those with heads: `2:0-7`.
fn heads(text: &str) -> std::result::Result<HeadRange, String> {
    let wrong = || format!("`{text}` is neither `all` nor layers such as 0-3, with heads such as 2:0-7");
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some((first, last.saturating_add(1)))
    };
    let all = |text: &str| if text == "all" { Some((0, u32::MAX)) } else { range(text) };
    let (layers, heads) = text.split_once(':').unwrap_or((text, "all"));
    Ok(HeadRange { layers: all(layers).ok_or_else(wrong)?, heads: all(heads).ok_or_else(wrong)? })
}

/// What is continued: a text, or a message by the model's template.
fn prompt(model: &Model, text: String, chat: bool) -> Result<Prompt> {
    if !chat {
        return Ok(Prompt::Text(text));
    }
    let message = json!({ "role": "user", "content": text });
    Ok(Prompt::Tokens(model.chat_tokens(&[message], &ChatOptions::default())?))
}

/// Opens a file with what the system has for it.
fn show(file: &Path) -> Result<()> {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut opener = Command::new(program);
    let quiet =
        opener.args(arguments).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match quiet.status() {
        Ok(status) if status.success() => Ok(()),
        _ => {
            let problem = format!("{program} does not open it: open it in a browser by hand");
            Err(CliError::Content { path: file.to_owned(), problem })
        }
    }
}

/// Requests of a file, one a line, each with its tokens at most.
fn requests(file: &Path) -> Result<Vec<(String, Option<usize>)>> {
    let text = input::file_text(file)?;
    let wrong = |line: usize| CliError::Content {
        path: file.to_owned(),
        problem: format!(
            "line {line} is no object with a `prompt`, such as {{\"prompt\": \"Once\", \"max_tokens\": 32}}"
        ),
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let one = |(i, line): (usize, &str)| {
        let value: Value = serde_json::from_str(line).map_err(|_| wrong(i + 1))?;
        let prompt = value["prompt"].as_str().ok_or_else(|| wrong(i + 1))?;
        Ok((prompt.to_owned(), value["max_tokens"].as_u64().map(|n| n as usize)))
    };
    let all: Vec<_> = lines.map(one).collect::<Result<_>>()?;
    if all.is_empty() { Err(wrong(1)) } else { Ok(all) }
}

/// A few tokens before the recording: threads that start and memory that is touched first are nobody's operators.
fn warm_up(model: &Model) -> Result<()> {
    let options = GenerateOptions { max_tokens: Some(3), ignore_eos: true, ..GenerateOptions::default() };
    model.generate(&Prompt::Tokens(vec![0, 0]), &options)?;
    Ok(())
}

/// The bandwidth that the same threads have beside the run; none where the device cannot be measured.
fn bandwidth(options: &LoadOptions, model: &Model) -> Option<f64> {
    lamina::backend_on(options.device, Some(model.info().threads)).ok()?.read_bandwidth().ok()??.memory_rate()
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|source| CliError::File { action: "write", path: file.to_owned(), source })
}

fn read_error(file: &Path, source: std::io::Error) -> CliError {
    CliError::File { action: "read", path: file.to_owned(), source }
}

fn content(file: &Path, e: &SeeError) -> CliError {
    CliError::Content { path: file.to_owned(), problem: e.to_string() }
}

fn of_see(file: &Path, e: SeeError) -> CliError {
    match e {
        SeeError::Model(e) => e.into(),
        e => content(file, &e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_layers_with_heads() {
        let of = |layers, heads| HeadRange { layers, heads };
        assert_eq!(heads("all"), Ok(HeadRange::default()));
        assert_eq!(heads("2"), Ok(of((2, 3), (0, u32::MAX))));
        assert_eq!(heads("0-3:1-2"), Ok(of((0, 4), (1, 3))));
        for wrong in ["", "3-1", "a", "1:", ":2", "1:2:3"] {
            assert!(heads(wrong).is_err(), "{wrong}");
        }
    }
}

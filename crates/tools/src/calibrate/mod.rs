//! What the weights of a model see while it reads a text: importance matrices for the quantizer, second moments for
//! merging heads.

mod experts;
mod record;
mod recorder;

use lamina::{Device, Error, Prompt, Result, Special, Tokenizer, backend_on, checkpoint, tokenizer_of};
use lamina_arch::{Family, ModelSpec, Weights};
use lamina_convert::{Covariances, Imatrix};
use lamina_plan::{
    Backend, Batch, KvType, LayerState, Limits, PAGE_LEN, Runner, Select, SeqPlace, Step, WeightSpec,
    batch::Copy, emit,
};
use lamina_store::{Checkpoint, Kind};
use record::{Names, Record};
use recorder::{KeptWeights, Recorder};
use std::path::Path;

/// How a text is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// Tokens of a window.
    pub context: usize,
    /// Windows at most; all of the text by default.
    pub windows: Option<usize>,
    /// Threads; as many as fit the machine by default.
    pub threads: Option<usize>,
    /// Also the output matrix, which quantizers keep finer anyway.
    pub output: bool,
    /// Second moments of what the keys of each layer are made from: `cols * cols` numbers for each.
    pub covariances: bool,
    /// Name of the text, kept in the matrix.
    pub dataset: String,
}

impl Default for CalibrationOptions {
    fn default() -> Self {
        CalibrationOptions {
            context: 512,
            windows: None,
            threads: None,
            output: false,
            covariances: false,
            dataset: String::new(),
        }
    }
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Mean squares of the inputs of every weight matrix, under the names of its GGUF form.
    pub imatrix: Imatrix,
    /// Second moments of the inputs of the key weights, if they were asked for.
    pub covariances: Covariances,
}

/// Rows of one step: logits of every row are computed, and they are wide.
const ROWS: usize = 128;

/// Lets the model at `path` (or the one inside the package) read `prompt` in windows; `progress` is told windows done and
/// in all, and gives up by returning false.
///
/// # Errors
/// When the model cannot be loaded, the text is shorter than two tokens, or `progress` gives up.
pub fn calibrate(
    path: Option<&Path>,
    prompt: &Prompt,
    options: &CalibrationOptions,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Calibration> {
    let ck = checkpoint(path)?;
    let family = Family::of(&ck)?;
    let spec = family.spec(&ck)?;
    let tokenizer = tokenizer_of(&ck)?;
    let (tokens, bos) = tokens(prompt, tokenizer.as_ref(), spec.vocab)?;
    let context = options.context.min(spec.context).min(tokens.len());
    if context < 2 {
        return Err(Error::InvalidRequest(
            "calibration needs a text and a context of two tokens at least".into(),
        ));
    }
    let record = Record::new(names(&ck, family, &spec), options);
    let most = options.windows.unwrap_or(usize::MAX);
    // The rest that fills no window is left out, as in llama.cpp: short windows would count like long ones.
    let windows: Vec<&[u32]> = tokens.chunks_exact(context).take(most).collect();
    let backend = backend_on(Device::Auto, options.threads)?;
    let mut runner = runner(&ck, (family, &spec), context, backend, record.clone())?;
    for (i, window) in windows.iter().enumerate() {
        read_window(&mut runner, window, bos)?;
        if !progress(i + 1, windows.len()) {
            return Err(Error::Runtime("the calibration was cancelled".into()));
        }
    }
    record.finish(options.dataset.clone(), windows.len(), context)
}

/// Tokens of the text, and the one that begins each window.
fn tokens(prompt: &Prompt, tokenizer: Option<&Tokenizer>, vocab: usize) -> Result<(Vec<u32>, Option<u32>)> {
    match prompt {
        Prompt::Text(text) => {
            let missing = || {
                Error::InvalidRequest("this model has no tokenizer: give token ids instead of text".into())
            };
            let tokenizer = tokenizer.ok_or_else(missing)?;
            let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
            Ok((tokenizer.encode(text, Special::ADD)?, bos))
        }
        Prompt::Tokens(tokens) => match tokens.iter().find(|&&t| t as usize >= vocab) {
            Some(t) => Err(Error::InvalidRequest(format!("token {t} is outside the vocabulary of {vocab}"))),
            None => Ok((tokens.clone(), None)),
        },
    }
}

/// Plan name to the name in the file: pieces of a fused tensor are that tensor.
fn names(ck: &Checkpoint, family: &'static Family, spec: &ModelSpec) -> Names {
    let weights = Weights::new(ck, family, spec);
    let plan = emit(spec, &|name| weights.has(name));
    let in_file = |w: &WeightSpec| {
        let stored = if ck.kind == Kind::Gguf { weights.stored(&w.name) } else { None };
        let one = stored.filter(|s| s.parts.len() == 1).map(|s| s.parts[0].clone());
        (w.name.clone(), one.unwrap_or_else(|| w.name.clone()))
    };
    plan.weights.iter().map(in_file).collect()
}

/// The model on a machine that notes what its matrices are applied to.
fn runner(
    ck: &Checkpoint,
    (family, spec): (&'static Family, &ModelSpec),
    context: usize,
    backend: Box<dyn Backend>,
    record: Record,
) -> Result<Runner> {
    let weights = Weights::new(ck, family, spec);
    let plan = emit(spec, &|name| weights.has(name));
    let (mut uploaded, mut kept) = (Vec::with_capacity(plan.weights.len()), KeptWeights::default());
    for w in &plan.weights {
        let (rows, cols) = w.kind.shape();
        let tensor = weights.get(&w.name, rows, cols)?;
        kept.keep(w, &tensor)?;
        uploaded.push(backend.upload(w, &tensor)?);
    }
    let states = plan.kv.layers.iter().any(|l| matches!(l, LayerState::Recurrent { .. }));
    let groups = plan.kv.groups.len();
    let limits = Limits {
        rows: ROWS,
        selected: ROWS,
        logits: ROWS,
        pages: vec![context.div_ceil(PAGE_LEN); groups],
        states: usize::from(states),
        kv: vec![KvType::F16.into(); groups],
    };
    let machine = backend.machine(&plan, uploaded, &limits)?;
    let machine = Recorder::new(machine, plan.clone(), kept, record);
    Ok(Runner::on(Box::new(machine), plan, limits))
}

fn read_window(runner: &mut Runner, window: &[u32], bos: Option<u32>) -> Result<()> {
    let mut tokens = window.to_vec();
    if let Some(bos) = bos {
        tokens[0] = bos;
    }
    let pages: Vec<u32> = (0..tokens.len().div_ceil(PAGE_LEN) as u32).collect();
    let pages = vec![pages; runner.plan().kv.groups.len()];
    let mut batch = Batch::default();
    for (i, rows) in tokens.chunks(ROWS).enumerate() {
        batch.clear();
        if i == 0 && runner.limits().states > 0 {
            batch.copies.push(Copy::State { from: None, to: 0 });
        }
        let (pages, prompt_len) = (pages.clone(), tokens.len() as u32);
        let seq = SeqPlace { pages, prompt_len, ..SeqPlace::default() };
        // The last layer runs only rows that want logits.
        batch.push(rows, i * ROWS, seq, Select::All);
        runner.run(&batch)?;
    }
    Ok(())
}

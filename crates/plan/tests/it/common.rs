//! Golden models: a tiny checkpoint with the logits and the greedy text of the model's own code.

pub use lamina_fixtures::shared;

use lamina_arch::{Family, ModelSpec, Weights};
use lamina_oracle::reference::Reference;
use lamina_plan::{
    Backend, BackendWeight, Batch, KvType, Limits, PAGE_LEN, Plan, Runner, Select, SeqPlace, Step, emit,
};
use lamina_store::{Checkpoint, safetensors::Safetensors};
use std::{
    error::Error,
    path::{Path, PathBuf},
};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Tokens of a prompt that one fixture may have, and that are generated after it.
const MOST_TOKENS: usize = 1024;

/// What a golden folder says.
pub struct Golden {
    pub prompts: Vec<Vec<u32>>,
    /// `[tokens x vocab]` per prompt.
    pub logits: Vec<Vec<f32>>,
    pub greedy: Vec<Vec<u32>>,
    pub margin: Vec<Vec<f32>>,
}

impl Golden {
    pub fn open(folder: &Path) -> Result<Golden> {
        let file = Safetensors::open(folder.join("golden.safetensors"))?;
        let rows = |name: &str| -> Result<Vec<Vec<f32>>> {
            let tensor = file.tensors.get(name).ok_or_else(|| format!("no tensor {name}"))?;
            let values = lamina_quant::to_f32(tensor)?;
            Ok(values.chunks_exact(values.len() / tensor.shape[0]).map(<[f32]>::to_vec).collect())
        };
        let ids = |rows: Vec<Vec<f32>>| -> Vec<Vec<u32>> {
            rows.into_iter().map(|r| r.into_iter().map(|v| v as u32).collect()).collect()
        };
        Ok(Golden {
            prompts: ids(rows("input_ids")?),
            logits: rows("logits")?,
            greedy: ids(rows("greedy")?),
            margin: rows("greedy_margin")?,
        })
    }
}

/// A checkpoint with its family, spec and plan.
pub struct Model {
    pub checkpoint: Checkpoint,
    pub family: &'static Family,
    pub spec: ModelSpec,
    pub plan: Plan,
}

impl Model {
    /// The model of a golden folder: `model.gguf` where there is one, else the folder itself.
    pub fn open(folder: &Path) -> Result<Model> {
        let file = folder.join("model.gguf");
        Model::open_file(if file.exists() { &file } else { folder })
    }

    /// The model at a path.
    pub fn open_file(path: &Path) -> Result<Model> {
        let checkpoint = Checkpoint::open(path)?;
        let family = Family::of(&checkpoint)?;
        let spec = family.spec(&checkpoint)?;
        let plan = {
            let weights = Weights::new(&checkpoint, family, &spec);
            emit(&spec, &|name| weights.has(name))
        };
        Ok(Model { checkpoint, family, spec, plan })
    }

    /// A runner on the reference backend, and the names of stored tensors that nothing used.
    pub fn runner(&self, kv_type: KvType) -> Result<(Runner, Vec<String>)> {
        self.runner_on(Reference, kv_type)
    }

    /// The same on another backend.
    pub fn runner_on(
        &self,
        backend: impl Backend + 'static,
        kv_type: KvType,
    ) -> Result<(Runner, Vec<String>)> {
        let weights = Weights::new(&self.checkpoint, self.family, &self.spec);
        let upload = |w: &lamina_plan::WeightSpec| -> Result<BackendWeight> {
            let (rows, cols) = w.kind.shape();
            Ok(backend.upload(w, &weights.get(&w.name, rows, cols)?)?)
        };
        let uploaded = self.plan.weights.iter().map(upload).collect::<Result<Vec<_>>>()?;
        let (rows, pages) = (MOST_TOKENS, 2 * MOST_TOKENS / PAGE_LEN);
        let groups = self.plan.kv.groups.len();
        let (pages, kv) = (vec![pages; groups], vec![kv_type.into(); groups]);
        let limits = Limits { rows, selected: rows, logits: rows, pages, states: 2, kv };
        Ok((Runner::new(backend, self.plan.clone(), uploaded, limits)?, weights.unused()))
    }
}

/// Pages and state of sequence `s`, far from those of the others.
pub fn pages(plan: &Plan, s: usize, prompt_len: usize) -> SeqPlace {
    let each = (MOST_TOKENS / PAGE_LEN) as u32;
    let pages = vec![(0..each).map(|p| s as u32 * each + p).collect(); plan.kv.groups.len()];
    SeqPlace { pages, state: s as u32, prompt_len: prompt_len as u32, ..SeqPlace::default() }
}

/// Logits of all rows that want them.
pub fn logits(step: &mut dyn Step, batch: &Batch) -> Result<Vec<f32>> {
    let (mut all, mut row) = (vec![], vec![]);
    let rows = step.run(batch)?;
    for i in 0..batch.logits.len() {
        rows.logits(i, &mut row)?;
        all.extend_from_slice(&row);
    }
    Ok(all)
}

/// Logits of every position of all prompts, run as one batch.
pub fn prefill(step: &mut dyn Step, prompts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
    let mut batch = Batch::default();
    for (s, prompt) in prompts.iter().enumerate() {
        batch.push(prompt, 0, pages(step.plan(), s, prompt.len()), Select::All);
    }
    let out = logits(step, &batch)?;
    let vocab = step.plan().vocab;
    let mut rest = &out[..];
    let mut split = |n: usize| {
        let (mine, others) = rest.split_at(n * vocab);
        rest = others;
        mine.to_vec()
    };
    Ok(prompts.iter().map(|p| split(p.len())).collect())
}

/// Continues sequence `s` after its prompt by `tokens`; returns the greedy choice after each of them.
pub fn follow(step: &mut dyn Step, s: usize, prompt_len: usize, tokens: &[u32]) -> Result<Vec<u32>> {
    let mut choices = vec![];
    for (i, &token) in tokens.iter().enumerate() {
        let mut batch = Batch::default();
        batch.push(&[token], prompt_len + i, pages(step.plan(), s, prompt_len), Select::Last);
        choices.push(step.run(&batch)?.argmax(0)?.0);
    }
    Ok(choices)
}

pub fn argmax(row: &[f32]) -> u32 {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).unwrap_or(0) as u32
}

/// `|a - b| / |b|`.
pub fn relative_error(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(x, y)| square(f64::from(x - y))).sum();
    let size: f64 = b.iter().map(|y| square(f64::from(*y))).sum();
    if a.len() == b.len() { (difference / size).sqrt() } else { f64::INFINITY }
}

/// Folders with the figures of the model's own code: those of the shared folder, then those below the folders in
/// `LAMINA_GOLDEN_EXTRA`.
pub fn golden_folders() -> Vec<PathBuf> {
    let extra = std::env::var_os("LAMINA_GOLDEN_EXTRA").unwrap_or_default();
    let roots = shared("golden").into_iter().chain(std::env::split_paths(&extra));
    let inside = |root: PathBuf| std::fs::read_dir(root).into_iter().flatten().flatten().map(|e| e.path());
    let mut all: Vec<_> = roots.flat_map(inside).filter(|p| p.join("golden.safetensors").exists()).collect();
    all.sort();
    all
}

/// Folders of every family: the golden ones, or checkpoints made here where there are none.
pub fn folders() -> Vec<PathBuf> {
    let golden = golden_folders();
    if !golden.is_empty() {
        return golden;
    }
    lamina_fixtures::write_all(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("families"))
}

/// Prompts of a folder that [`folders`] has.
pub fn prompts(folder: &Path) -> Result<Vec<Vec<u32>>> {
    match folder.join("golden.safetensors").exists() {
        true => Ok(Golden::open(folder)?.prompts),
        false => Ok(vec![lamina_fixtures::tokens(40), lamina_fixtures::tokens(45).split_off(5)]),
    }
}

/// Runs `check` on every folder that `LAMINA_GOLDEN_ONLY` does not leave out, and fails with the list of what went
/// wrong.
pub fn for_each(folders: Vec<PathBuf>, check: impl Fn(&Path) -> Result<String>) {
    let only = std::env::var("LAMINA_GOLDEN_ONLY").unwrap_or_default();
    let chosen = |f: &PathBuf| only.split(',').any(|o| stem(f).contains(o));
    let mut failed = vec![];
    for folder in folders.into_iter().filter(chosen) {
        let name = stem(&folder);
        match check(&folder) {
            Ok(note) => eprintln!("{name}: {note}"),
            Err(e) => {
                eprintln!("{name}: FAILED: {e}");
                failed.push(name);
            }
        }
    }
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed.join(" "));
}

fn stem(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

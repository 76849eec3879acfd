//! A warm decode step allocates nothing: a counting allocator around [`Step::submit`] and [`Step::wait`] says so.
//!
//! A binary of its own: the allocator is the whole process's, and so are the allocations that it counts.

use lamina_arch::{Family, Weights, weights::Tensor};
use lamina_cpu::Cpu;
use lamina_fixtures::{Models, names, tokens};
use lamina_plan::{
    Backend, Batch, KvType, LORA, Limits, PAGE_LEN, Plan, Runner, Select, SeqPlace, Step, Tap, WeightKind,
    adapt, backend::Result, emit,
};
use lamina_simd::Isa;
use lamina_store::Checkpoint;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// The system's allocator, with a count of what it was asked for by any thread.
struct CountingAllocator;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    // SAFETY: what the system promises of `alloc` holds, since it does the work.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the conditions of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: what the system promises of `alloc_zeroed` holds, since it does the work.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the conditions of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: what the system promises of `realloc` holds, since it does the work.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the conditions of `realloc`.
        unsafe { System.realloc(at, layout, len) }
    }

    // SAFETY: what the system promises of `dealloc` holds, since it does the work.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the conditions of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Threads of the backend.
const THREADS: usize = 2;
/// Decode steps before the counted ones: lists grow to what a step needs.
const WARM: usize = 2;
/// Counted decode steps; some of them begin a page.
const COUNTED: usize = 30;

/// What is decoded.
#[derive(Clone, Copy, Debug)]
struct Run {
    sequences: usize,
    prompt: usize,
    kv_type: KvType,
    /// A residual row is read after each step.
    tapped: bool,
    /// Every matrix has two LoRA adapters, of which each other sequence takes one.
    adapted: bool,
}

const SHORT: Run = Run { sequences: 1, prompt: 40, kv_type: KvType::F16, tapped: false, adapted: false };

#[test]
fn warm_decode_steps_allocate_nothing() -> Result<()> {
    let models = Models::new();
    for family in names() {
        count(&models, &family, SHORT)?;
        count(&models, &family, Run { sequences: 8, ..SHORT })?;
        count(&models, &family, Run { sequences: 3, adapted: true, ..SHORT })?;
    }
    for kv_type in KvType::ALL.iter().map(|t| t.1) {
        count(&models, "llama", Run { kv_type, ..SHORT })?;
        count(&models, "deepseek-v3", Run { kv_type, ..SHORT })?;
    }
    // So long that the chunks of a single sequence are spread over the threads.
    count(&models, "llama", Run { prompt: 900, ..SHORT })?;
    count(&models, "llama", Run { tapped: true, ..SHORT })
}

/// Prefills and decodes, and fails when a counted step allocates.
fn count(models: &Models, family: &str, run: Run) -> Result<()> {
    let mut runner = runner(models, family, run)?;
    // A thread allocates when it starts, which a busy machine may put off until a counted step: each runs a task first.
    let started = Barrier::new(THREADS);
    runner.spread(THREADS, &|_| _ = started.wait());
    let prompt = tokens(run.prompt as u32);
    let mut batch = Batch::default();
    for s in 0..run.sequences {
        batch.push(&prompt, 0, place(&runner, run, s), Select::Last);
    }
    runner.run(&batch)?;
    for step in 0..WARM + COUNTED {
        batch.clear();
        for s in 0..run.sequences {
            let token = prompt[(step + s) % prompt.len()];
            batch.push(&[token], run.prompt + step, place(&runner, run, s), Select::Last);
        }
        batch.taps.extend(run.tapped.then_some(Tap { mark: 1, rows: 0..1 }));
        let before = ALLOCATIONS.load(Relaxed);
        let ticket = runner.submit(&batch)?;
        runner.wait(ticket)?;
        let allocations = ALLOCATIONS.load(Relaxed) - before;
        assert!(step < WARM || allocations == 0, "{family}, {run:?}: {allocations} in step {step}");
    }
    Ok(())
}

fn runner(models: &Models, family: &str, run: Run) -> Result<Runner> {
    let checkpoint = Checkpoint::open(models.folder(family)).expect("a made checkpoint");
    let family = Family::of(&checkpoint)?;
    let spec = family.spec(&checkpoint)?;
    let weights = Weights::new(&checkpoint, family, &spec);
    let plan = emit(&spec, &|name| weights.has(name));
    let plan = if run.adapted { with_adapters(plan) } else { plan };
    let cpu = Cpu::with_isa(Isa::detect().expect("an instruction set"), THREADS);
    let upload = |w: &lamina_plan::WeightSpec| {
        let (rows, cols) = w.kind.shape();
        if LORA.iter().any(|end| w.name.ends_with(end)) {
            return cpu.upload(w, &Tensor::from_f32(&w.name, rows, cols, &vec![0.01; rows * cols]));
        }
        cpu.upload(w, &weights.get(&w.name, rows, cols)?)
    };
    let uploaded = plan.weights.iter().map(upload).collect::<Result<Vec<_>>>()?;
    let groups = plan.kv.groups.len();
    let limits = Limits {
        rows: run.sequences * run.prompt,
        selected: run.sequences,
        logits: run.sequences,
        pages: vec![run.sequences * pages_each(run); groups],
        states: run.sequences,
        kv: vec![run.kv_type.into(); groups],
    };
    Runner::new(cpu.clone(), plan, uploaded, limits)
}

/// The plan with adapters of rank 2 and 3 beside each matrix.
fn with_adapters(plan: Plan) -> Plan {
    let matrices = plan.weights.iter().filter(|w| matches!(w.kind, WeightKind::Matrix { .. }));
    let ranks = matrices.map(|w| (w.name.clone(), vec![2, 3])).collect();
    adapt(plan, &ranks)
}

fn pages_each(run: Run) -> usize {
    (run.prompt + WARM + COUNTED).div_ceil(PAGE_LEN)
}

/// Memory of sequence `s`.
fn place(runner: &Runner, run: Run, s: usize) -> SeqPlace {
    let each = pages_each(run);
    let pages: Vec<u32> = (s * each..(s + 1) * each).map(|p| p as u32).collect();
    let pages = vec![pages; runner.plan().kv.groups.len()];
    let lora: &[f32] = if run.adapted && s.is_multiple_of(2) { &[0.0, 1.0] } else { &[] };
    SeqPlace {
        pages,
        state: s as u32,
        prompt_len: run.prompt as u32,
        lora: lora.into(),
        ..SeqPlace::default()
    }
}

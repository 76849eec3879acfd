//! What cannot run is refused before a weight is read, and what a backend says of itself is what users see.
#![allow(clippy::unwrap_used)]

mod pictures;

use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_load::{Error, LoadOptions, Loaded, open_on};
use lamina_oracle::reference::Reference;
use lamina_plan::{
    About, Backend, BackendError, BackendWeight, Capabilities, KvLayout, KvTypes, Limits, Memory, Ops, Plan,
    Reports, Sizes, WeightSpec, backend::Result,
};
use lamina_store::{Checkpoint, gguf::Writer};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Weights of the model inside the package as float32, which is what the reference keeps, and room for what it lacks.
const ROOM: u64 = 100 << 20;

/// The reference as another device: memory and refusals are as a test wants them, uploads are counted.
#[derive(Clone, Default)]
struct Toy {
    free: Option<u64>,
    refusal: Option<&'static str>,
    /// An operator that it lacks.
    lacks: Option<&'static str>,
    uploads: Arc<AtomicUsize>,
}

impl Reports for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn about(&self) -> About {
        About { device: "toy:1".into(), kernels: "wood".into(), threads: 3 }
    }
}

impl Sizes for Toy {
    fn memory(&self) -> Option<Memory> {
        self.free.map(|free| Memory { free, total: ROOM })
    }

    fn runs_as(&self, _dtype: DType) -> DType {
        DType::F32
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        Reference.page_bytes(layout, group, types)
    }
}

impl Backend for Toy {
    fn capabilities(&self) -> Capabilities {
        let all = Reference.capabilities();
        let ops = all.ops.into_iter().filter(|name| Some(*name) != self.lacks).collect();
        Capabilities { ops, ..all }
    }

    fn refuses(&self, _plan: &Plan) -> Option<String> {
        self.refusal.map(str::to_owned)
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        self.uploads.fetch_add(1, Relaxed);
        Reference.upload(spec, tensor)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        Box::new(Reference).machine(plan, weights, limits)
    }
}

/// The model inside the package.
fn packaged() -> Checkpoint {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lamina/models/lamina-tiny.gguf");
    Checkpoint::open(PathBuf::from(path)).unwrap()
}

/// Loads on `toy`; an error must come before any weight was taken.
fn load(ck: &Checkpoint, toy: &Toy, options: &LoadOptions) -> std::result::Result<Loaded, Error> {
    let loaded = open_on(ck, options, Box::new(toy.clone()), &|_, _| true);
    if loaded.is_err() {
        assert_eq!(toy.uploads.load(Relaxed), 0, "weights were read before the refusal");
    }
    loaded
}

fn context(n: usize) -> LoadOptions {
    LoadOptions { context: Some(n), ..LoadOptions::default() }
}

#[test]
fn plans_that_a_backend_does_not_run_are_refused() {
    let toy = Toy { refusal: Some("the operator scan"), ..Toy::default() };
    let refused = load(&packaged(), &toy, &context(64)).err();
    assert_eq!(refused, Some(Error::Unsupported("toy cannot run the operator scan".into())));
    let toy = Toy { lacks: Some("Embed"), ..Toy::default() };
    let refused = load(&packaged(), &toy, &context(64)).err();
    assert_eq!(refused, Some(Error::Unsupported("toy cannot run the operator Embed".into())));
    // Without a fused operator it runs what that one stands for.
    assert!(load(&packaged(), &Toy { lacks: Some("Glu"), ..Toy::default() }, &context(64)).is_ok());
}

#[test]
fn types_that_can_only_be_read_are_refused() {
    let options = LoadOptions { dtype: Some(DType::F64), ..context(64) };
    let Some(Error::InvalidRequest(text)) = load(&packaged(), &Toy::default(), &options).err() else {
        panic!("was loaded")
    };
    assert!(text.contains("F64") && text.contains("Q4_K"), "{text}");
}

#[test]
fn weights_are_counted_in_the_form_of_the_backend() {
    let ck = packaged();
    // The file would fit, its numbers as float32 do not.
    let toy = Toy { free: Some(2 * ck.total_bytes()), ..Toy::default() };
    let Some(Error::OutOfMemory(text)) = load(&ck, &toy, &context(64)).err() else { panic!("was loaded") };
    assert!(text.contains("the weights take"), "{text}");
}

#[test]
fn a_cache_that_does_not_fit_is_refused_and_one_that_nobody_asked_for_is_cut() {
    let ck = packaged();
    // The head is the embedding once more, in a form for products.
    let tied = ck.tensors["token_embd.weight"].elements();
    let elements = (ck.tensors.values().map(|t| t.elements()).sum::<usize>() + tied) as u64;
    let page = 32 * 1024 * 64;
    let toy = Toy { free: Some(4 * elements + 4 * page), ..Toy::default() };
    let Some(Error::OutOfMemory(text)) = load(&ck, &toy, &context(1 << 20)).err() else {
        panic!("was loaded")
    };
    assert!(text.contains("a context of 1048576 tokens needs"), "{text}");
    let loaded =
        load(&ck, &Toy { free: Some(4 * elements + (1 << 20)), ..Toy::default() }, &LoadOptions::default());
    let info = loaded.unwrap().info;
    assert!(info.context < info.model_context, "{} of {}", info.context, info.model_context);
    assert!(info.notes.iter().any(|n| n.contains("the context is cut")), "{:?}", info.notes);
}

/// The number before `unit` behind `start`, in `text`.
fn told(text: &str, start: &str, unit: &str) -> f64 {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start:?} in {text:?}"));
    let (number, _) = rest.split_once(unit).unwrap_or_else(|| panic!("no {unit:?} in {text:?}"));
    number.trim().parse().unwrap()
}

#[test]
fn a_refusal_names_the_least_memory_and_the_longest_context_that_fit() {
    let ck = packaged();
    let free = |megabytes: f64| Toy { free: Some((megabytes * 1e6) as u64), ..Toy::default() };
    let refusal = |toy: &Toy, options: &LoadOptions| match load(&ck, toy, options) {
        Err(Error::OutOfMemory(text)) => text,
        _ => panic!("was not refused for memory"),
    };
    let asked = context(64 * 100);
    let text = refusal(&free(1.0), &asked);
    let least = told(&text, "at least ", " MB have to be free");
    // It is told in tenths of a megabyte, and found in steps of a mebibyte.
    assert!(load(&ck, &free(least + 0.1), &asked).is_ok(), "{text}");
    let text = refusal(&free(least - 1.2), &asked);
    let most = told(&text, "a context of at most ", " tokens") as usize;
    assert!(0 < most && most < 64 * 100, "{text}");
    assert!(load(&ck, &free(least - 1.2), &context(most)).is_ok(), "{text}");
    refusal(&free(least - 1.2), &context(most + 64));
    // No context is short enough where weights alone take all.
    assert!(!refusal(&free(1.0), &asked).contains("a context of at most"));
}

#[test]
fn learned_positions_end_where_their_table_ends() {
    let dir = tempfile::tempdir().unwrap();
    let ck = Checkpoint::open(gpt2(&dir.path().join("gpt2.gguf"))).unwrap();
    let Some(Error::InvalidRequest(text)) = load(&ck, &Toy::default(), &context(65)).err() else {
        panic!("was loaded")
    };
    assert!(text.contains("learned positions for 64 tokens"), "{text}");
}

/// Headers of a GPT-2 with 64 positions: no weight of it is ever read.
fn gpt2(path: &Path) -> PathBuf {
    let mut writer = Writer::new(path, "gpt2");
    for (key, value) in [
        ("context_length", 64u32),
        ("embedding_length", 8),
        ("block_count", 1),
        ("feed_forward_length", 32),
        ("attention.head_count", 2),
        ("vocab_size", 16),
    ] {
        writer.set(format!("gpt2.{key}"), value);
    }
    writer.set("gpt2.attention.layer_norm_epsilon", 1e-5f32);
    writer.declare("token_embd.weight", DType::F32, &[16, 8]).unwrap();
    let mut file = writer.create().unwrap();
    file.write("token_embd.weight", &[0; 16 * 8 * 4]).unwrap();
    file.finish().unwrap();
    path.to_owned()
}

#[test]
fn reports_have_what_the_backend_says_of_itself() {
    let toy = Toy { free: Some(ROOM), ..Toy::default() };
    let info = load(&packaged(), &toy, &context(64)).unwrap().info;
    assert_eq!((&*info.device, &*info.isa, info.threads), ("toy:1", "wood", 3));
    assert!(toy.uploads.load(Relaxed) > 0);
}

#[test]
fn an_error_of_the_backend_keeps_its_kind() {
    let e = BackendError::Unsupported { backend: "toy", what: "a product".into() };
    assert!(matches!(Error::from(e), Error::Unsupported(_)));
}

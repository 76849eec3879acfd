//! Models that are larger than a device: what fits is there, the rest on the host, and answers are the same to the bit. The
//! device is a simulated one, which computes as the CPU does.

use lamina::{
    ApproximateExperts, AttentionSparsity, Device, DraftSource, LoadOptions, MemoryLimit, PlacementPolicy,
    ReadShare, StreamOptions,
    image::{Picture, PixelSize},
};
use lamina_cpu::Cpu;
use lamina_engine::{Event, Generation, Request, Task, Token, sample::SamplingParams};
use lamina_fixtures::{Models, extent, packaged, shared, tokens};
use lamina_load::{
    EncoderBackend, Error, ForecastQuestion, Loaded, Progress, Result, forecast_beside, open_beside, open_on,
};
use lamina_oracle::Throttled;
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
};

const QUIET: Progress<'_> = &|_, _| true;

fn cpu() -> Result<Box<dyn Backend>> {
    Cpu::new(2).map(Into::into).map_err(|e| Error::Unsupported(e.to_string()))
}

/// A device of so many bytes behind a link that takes no time.
fn device(memory: u64) -> Box<dyn Backend> {
    Throttled::new(Cpu::new(2).expect("a CPU"), memory, f64::INFINITY).into()
}

fn options(placement: PlacementPolicy) -> LoadOptions {
    // A device that is named shares a model with the host.
    let device = Device::Cuda(0);
    LoadOptions { device, context: Some(256), batch_rows: Some(32), placement, ..LoadOptions::default() }
}

fn rules(rules: &[&str]) -> PlacementPolicy {
    let rules = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
    PlacementPolicy { rules, ..PlacementPolicy::default() }
}

fn divided(path: &Path, memory: u64, options: &LoadOptions) -> Result<Loaded> {
    open_beside(&Checkpoint::open(path).expect("a model"), options, device(memory), cpu, QUIET)
}

fn alone(path: &Path) -> Loaded {
    alone_with(path, &options(PlacementPolicy::default()))
}

fn alone_with(path: &Path, options: &LoadOptions) -> Loaded {
    open_on(&Checkpoint::open(path).expect("a model"), options, cpu().expect("a CPU"), QUIET).expect("opens")
}

/// Tokens of several answers at once, with the bits of how likely they were.
fn answers(mut loaded: Loaded) -> Vec<String> {
    let receivers: Vec<Receiver<Event>> = (0..3u32)
        .map(|i| {
            let mut params = SamplingParams::default();
            params.set("seed", i64::from(i)).expect("known");
            params.set("logprobs", 2i64).expect("known");
            let generation = Generation { max_tokens: Some(12), params, ..Generation::default() };
            let (events, receiver) = channel();
            let task = Task::Generate(Box::new(generation));
            loaded.engine.add(Request::new(tokens(20 + 17 * i), task, Box::new(events)));
            receiver
        })
        .collect();
    while !loaded.engine.idle() {
        loaded.engine.step();
    }
    let token = |event| match event {
        // Its sampler's seed is drawn for each request.
        Event::Token(t) => Some(format!("{:?}", Token { sampler: None, ..t })),
        Event::Failed(e) => panic!("{e}"),
        _ => None,
    };
    receivers.iter().flat_map(|r| r.try_iter().filter_map(token).collect::<Vec<_>>()).collect()
}

/// Bytes of weights on the device, and in memory.
fn placed(loaded: &Loaded, class: &str) -> (u64, u64) {
    let homes = loaded.info.placement.iter().filter(|home| class.is_empty() || home.class == class);
    homes.fold((0, 0), |sum, home| (sum.0 + home.device, sum.1 + home.memory))
}

#[test]
fn whatever_a_device_holds_answers_are_the_same() {
    let want = answers(alone(&packaged()));
    let mut held = BTreeSet::new();
    for memory in (0..24).map(|i| i * 250_000) {
        let loaded = match divided(&packaged(), memory, &options(PlacementPolicy::default())) {
            Err(Error::OutOfMemory(why)) => {
                assert!(why.contains("simulated has") && why.contains("device=\"cpu\""), "{why}");
                continue;
            }
            loaded => loaded.unwrap_or_else(|e| panic!("{memory}: {e}")),
        };
        let (on_device, on_host) = placed(&loaded, "");
        let told = loaded.info.notes.iter().any(|note| note.contains("of weights are on simulated"));
        assert!(told == (on_device > 0), "{memory}: {:?}", loaded.info.notes);
        held.insert(if on_device > 0 { on_device } else { on_host });
        assert_eq!(answers(loaded), want, "{memory} bytes");
    }
    assert!(held.len() > 3, "{held:?}");
}

#[test]
fn rules_and_percentages_divide_a_model_and_change_no_bit() {
    let models = Models::new();
    let plenty = 1 << 30;
    for name in ["llama", "mixtral", "deepseek-v2", "qwen3-next", "gpt-oss"] {
        let folder = models.folder(name);
        let want = answers(alone(&folder));
        let percent = |text: &str| PlacementPolicy {
            percent: Some(text.parse().expect("percentages")),
            ..PlacementPolicy::default()
        };
        let layers = |n| PlacementPolicy { device_layers: Some(n), ..PlacementPolicy::default() };
        let policies = [
            rules(&[if name == "llama" { "ffn=ram" } else { "experts=ram" }, "attention 0=ram"]),
            rules(&["kv=ram"]),
            rules(&["attention=device", "kv 0-0=ram", ".*=ram"]),
            rules(&["embedding=device", "layers 1=ram"]),
            percent("40 60 50 50 0 100"),
            layers(1),
            layers(99),
        ];
        for policy in policies {
            let loaded = divided(&folder, plenty, &options(policy.clone())).expect("opens");
            let (on_device, on_host) = placed(&loaded, "");
            assert!(on_device > 0 && on_host > 0, "{name}: {policy:?}");
            assert_eq!(answers(loaded), want, "{name}: {policy:?}");
        }
        assert_eq!(answers(divided(&folder, plenty, &options(layers(0))).expect("opens")), want, "{name}");
    }
}

/// Weights that are sent to the device in every step take memory of the host, and of the device no more than two slots.
#[test]
fn weights_that_are_sent_change_no_bit() {
    let models = Models::new();
    for name in ["llama", "mixtral", "deepseek-v2", "qwen3-next", "gpt-oss"] {
        let folder = models.folder(name);
        let want = answers(alone(&folder));
        let all_up = rules(&[".*=up"]);
        let policies = [
            rules(&[if name == "llama" { "ffn=up" } else { "experts=up" }]),
            rules(&["attention=up", "layers 1=ram"]),
            rules(&["attention 0=ram", ".*=up"]),
            all_up.clone(),
        ];
        for policy in policies {
            let loaded = divided(&folder, 1 << 30, &options(policy.clone())).expect("opens");
            assert!(loaded.info.notes.iter().any(|note| note.contains("more in every step")), "{policy:?}");
            assert_eq!(answers(loaded), want, "{name}: {policy:?}");
        }
        // The smallest device that has room for two slots and to work in.
        let opened = (10..30).map(|i| divided(&folder, 1 << i, &options(all_up.clone()))).find(Result::is_ok);
        assert_eq!(answers(opened.expect("some memory").expect("opens")), want, "{name}");
    }
}

#[test]
fn experts_are_in_memory_and_all_else_on_the_device() {
    let models = Models::new();
    let loaded =
        divided(&models.folder("mixtral"), 1 << 30, &options(rules(&["experts=ram"]))).expect("opens");
    let (on_device, experts) = placed(&loaded, "experts");
    assert!(on_device == 0 && experts > 0);
    let (attention, vectors) = placed(&loaded, "attention");
    assert!(attention > 50 * vectors, "{attention} and {vectors}");
}

#[test]
fn a_device_memory_and_disk_share_a_model() {
    let models = Models::new();
    let panels = tempfile::tempdir().expect("a folder");
    for (name, rule) in [
        ("llama", "ffn=disk"),
        ("mixtral", "experts=disk"),
        ("llama", "ffn=disk-up"),
        ("gemma2", "layers 1=disk-up"),
        ("llama", r"ffn_(gate|up)=disk-up"),
        ("mixtral", "experts=disk-up"),
        ("qwen3-next", "layers 1=disk-up"),
    ] {
        let folder = models.folder(name);
        let want = answers(alone(&folder));
        let policy = rules(&["attention=device", rule]);
        let stream = StreamOptions { folder: Some(panels.path().to_owned()), ..StreamOptions::default() };
        let loaded = divided(&folder, 1 << 30, &LoadOptions { stream, ..options(policy) }).expect("opens");
        assert!(loaded.info.stream.is_some() && placed(&loaded, "attention").0 > 0, "{:?}", loaded.info);
        let sent: u64 = loaded.info.placement.iter().map(|home| home.up).sum();
        assert_eq!(sent > 0, rule.ends_with("-up"), "{rule}");
        assert_eq!(answers(loaded), want, "{name}");
    }
}

/// Experts that are read from disk and sent are found, read and sent as rows ask for them, beside those in all other ways.
#[test]
fn experts_on_disk_are_sent_however_few_are_in_memory() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for (turn, name) in ["mixtral", "deepseek-v2", "qwen3-next", "gpt-oss"].into_iter().enumerate() {
        let folder = models.folder(name);
        let deferred = ApproximateExperts { fewer: None, deferred: NonZeroUsize::new(1) };
        for experts in [ApproximateExperts::default(), deferred] {
            let asked = |policy| LoadOptions { experts, ..options(policy) };
            let want = answers(alone_with(&folder, &asked(PlacementPolicy::default())));
            let rules_of_experts = [
                (Some(1), &["experts=disk-up"][..]),
                (Some(9), &["experts=disk-up"]),
                (None, &["experts=disk-up", "attention=up"]),
                (Some(3), &["experts 1=disk-up", "experts 2=up", "experts=disk", "attention=device"]),
                (Some(3), &["experts 1=disk-up", "experts=ram", "attention=device"]),
                (Some(2), &["experts 1=device", "experts=disk-up", "attention=device"]),
            ];
            for (slots, texts) in extent::some(rules_of_experts, turn, 3) {
                let folder_of_panels = Some(panels.path().to_owned());
                let stream = StreamOptions {
                    folder: folder_of_panels,
                    expert_slots: slots,
                    ..StreamOptions::default()
                };
                let options = LoadOptions { stream, ..asked(rules(texts)) };
                let loaded = divided(&folder, 1 << 30, &options).expect("opens");
                let told =
                    loaded.info.stream.as_ref().and_then(|stream| stream.experts.as_ref()).expect("a cache");
                assert!(slots.is_none_or(|slots| told.slots == slots), "{name} {texts:?}: {told:?}");
                let home =
                    loaded.info.placement.iter().find(|home| home.class == "experts").expect("experts");
                assert!(home.up > 0 && home.disk > 0 || slots.is_none(), "{name} {texts:?}: {home:?}");
                assert_eq!(answers(loaded), want, "{name}: {texts:?}, {slots:?} slots");
            }
        }
    }
}

/// What lies on disk of the cache is the host's, whatever the device has.
#[test]
fn layers_of_the_cache_on_disk_lie_beside_a_device() {
    let models = Models::new();
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["llama", "gemma2", "deepseek-v2", "qwen3-next"] {
        let path = models.folder(name);
        let want = answers(alone(&path));
        let percent = Some("40 60 25 25 0 100".parse().expect("percentages"));
        let percent = PlacementPolicy { percent, ..PlacementPolicy::default() };
        for policy in [
            rules(&["attention=device", "kv 0-1=disk"]),
            rules(&["kv=disk"]),
            rules(&["ffn=disk", "kv 0=ram", "kv=disk"]),
            percent,
        ] {
            let stream = StreamOptions { folder: Some(folder.path().to_owned()), ..StreamOptions::default() };
            let options = LoadOptions { stream, ..options(policy.clone()) };
            let loaded = match divided(&path, 1 << 30, &options) {
                // The only layer with pages is the last one.
                Err(Error::InvalidRequest(why)) if name == "qwen3-next" => {
                    assert!(why.contains("recurrent states stay in memory"), "{why}");
                    continue;
                }
                loaded => loaded.expect("opens"),
            };
            let said = loaded.info.notes.iter().any(|note| note.contains("lies on disk"));
            assert!(said && placed(&loaded, "").0 > 0 || name == "qwen3-next", "{name}: {policy:?}");
            assert_eq!(answers(loaded), want, "{name}: {policy:?}");
        }
    }
    // A device alone has no part in it.
    let whole = Checkpoint::open(packaged()).expect("a model");
    let error =
        open_on(&whole, &options(rules(&["kv=disk"])), device(1 << 30), QUIET).err().expect("refused");
    assert!(error.to_string().contains("a cache on disk"), "{error}");
}

#[test]
fn approximations_divide_with_the_same_bits() {
    let models = Models::new();
    let fewer = ApproximateExperts { fewer: Some("1,0.9".parse().expect("shares")), deferred: None };
    let deferred = ApproximateExperts { fewer: None, deferred: NonZeroUsize::new(1) };
    let all = ApproximateExperts::default();
    let sparse = AttentionSparsity { values: ReadShare::new(0.05), prefill: ReadShare::new(0.1) };
    let whole = AttentionSparsity::NONE;
    for (name, experts, sparsity) in [
        ("mixtral", fewer, whole),
        ("mixtral", deferred, whole),
        ("mixtral", fewer, sparse),
        ("llama", all, sparse),
    ] {
        let folder = models.folder(name);
        let asked = |policy| LoadOptions { experts, sparsity, ..options(policy) };
        let want = answers(alone_with(&folder, &asked(PlacementPolicy::default())));
        assert_ne!(want, answers(alone(&folder)), "{name}: the approximation acts");
        for policy in
            [rules(&["kv=ram"]), rules(&["attention=device", ".*=ram"]), rules(&["attention 0=ram"])]
        {
            let loaded = divided(&folder, 1 << 30, &asked(policy.clone())).expect("opens");
            assert!(
                placed(&loaded, "").0 > 0 && !loaded.info.approximations.is_empty(),
                "{name}: {policy:?}"
            );
            assert_eq!(answers(loaded), want, "{name}: {policy:?}");
        }
    }
}

/// A second model, and layers that guess further tokens, lie on the host but for what they share.
#[test]
fn drafts_beside_a_divided_model_change_no_answer() {
    let models = Models::new();
    let layers = PlacementPolicy { device_layers: Some(2), ..PlacementPolicy::default() };
    for (path, draft) in [
        (packaged(), DraftSource::from(packaged().to_str().expect("a path"))),
        (models.head("glm4-moe"), DraftSource::Mtp),
        (models.head("deepseek-v3"), DraftSource::Mtp),
    ] {
        let want = answers(alone(&path));
        let drafted = LoadOptions { draft: Some(draft), ..options(layers.clone()) };
        let loaded = divided(&path, 1 << 30, &drafted).expect("opens");
        assert!(loaded.info.draft.is_some() && placed(&loaded, "").0 > 0, "{}", path.display());
        assert_eq!(answers(loaded), want, "{}", path.display());
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let device_rule = options(rules(&["attention=device"]));
    let error = divided(&packaged(), 20_000, &device_rule).err().expect("too small").to_string();
    assert!(error.contains("what rules put there takes"), "{error}");
    let path = Checkpoint::open(packaged()).expect("a model");
    let error =
        open_on(&path, &device_rule, cpu().expect("a CPU"), QUIET).err().expect("no device").to_string();
    assert!(error.contains("`attention=device` asks for a device"), "{error}");
    let error = open_on(&path, &options(rules(&["ffn=up"])), cpu().expect("a CPU"), QUIET);
    let error = error.err().expect("no device").to_string();
    assert!(error.contains("`ffn=up` asks for a device"), "{error}");
    let nothing = options(rules(&["no such weight=device"]));
    let error = divided(&packaged(), 1 << 30, &nothing).err().expect("no weight").to_string();
    assert!(error.contains("names no weight"), "{error}");
}

#[test]
fn a_forecast_tells_what_a_device_takes() {
    let question =
        ForecastQuestion { batch: vec![1], prompt: vec![16], gen_tokens: 8, ..ForecastQuestion::default() };
    let checkpoint = Checkpoint::open(packaged()).expect("a model");
    let limit = |bytes| LoadOptions {
        device_memory: Some(MemoryLimit::Bytes(bytes)),
        ..options(PlacementPolicy { device_layers: Some(1), ..PlacementPolicy::default() })
    };
    let told = forecast_beside(&checkpoint, &limit(1 << 29), &question, device(1 << 30), cpu).expect("tells");
    let on = told.device.as_ref().expect("a device");
    assert!(told.problem.is_none() && on.budget == 1 << 29 && on.bytes() < on.budget, "{on:?}");
    let loaded = divided(&packaged(), 1 << 30, &limit(1 << 29)).expect("opens");
    assert_eq!(told.placement, loaded.info.placement);
    assert!(told.decode[0].tok_s > 0.0 && on.link_rate > 0.0);
    let small = forecast_beside(&checkpoint, &limit(1000), &question, device(1 << 30), cpu).expect("tells");
    assert!(small.problem.is_some_and(|problem| problem.contains("simulated has 1.0 kB")), "too small");
}

/// Rows of a picture, to the bit, as the encoder of `loaded` makes them.
fn rows_of_a_picture(loaded: &Loaded) -> Vec<u32> {
    let rgb = (0..56 * 56 * 3).map(|i| (i * 7 % 251) as u8).collect();
    let picture = Picture::new(PixelSize::square(56), rgb).expect("a picture");
    let rows = loaded.pictures.as_ref().expect("it sees").rows(Arc::new(picture)).expect("rows");
    rows.rows.iter().map(|number| number.to_bits()).collect()
}

/// Where an encoder runs follows from what a device has room for, unless it is said; its rows have the same bits.
#[test]
fn encoders_run_where_there_is_room_or_where_they_are_put() {
    let Some(path) = shared("golden-vision/qwen2-vl") else { return };
    let path = Path::new(&path);
    let (want, plain) = (rows_of_a_picture(&alone(path)), options(PlacementPolicy::default()));
    let mut seen = BTreeSet::new();
    for memory in (1..24).map(|i| i * 200_000).chain((23..31).map(|i| 1 << i)) {
        let loaded = match divided(path, memory, &plain) {
            Err(Error::OutOfMemory(_)) => continue,
            loaded => loaded.unwrap_or_else(|e| panic!("{memory}: {e}")),
        };
        let told = |words: &str| loaded.info.notes.iter().any(|note| note.contains(words));
        seen.insert(match (told("of weights are on simulated"), told("they run on the CPU")) {
            (true, false) => "divided",
            (false, true) => "the host has the encoder",
            (false, false) => "the device has both",
            (true, true) => panic!("{:?}", loaded.info.notes),
        });
        assert_eq!(rows_of_a_picture(&loaded), want, "{memory} bytes");
    }
    assert_eq!(seen.len(), 3, "{seen:?}");

    let put = |encoders: u64, place: &LoadOptions| LoadOptions {
        mmproj_device: Device::Cuda(1),
        encoders: EncoderBackend::of(device(encoders)),
        ..place.clone()
    };
    // Beside a model on the host alone.
    let checkpoint = Checkpoint::open(path).expect("a model");
    let loaded = open_on(&checkpoint, &put(1 << 30, &plain), cpu().expect("a CPU"), QUIET).expect("opens");
    assert_eq!(rows_of_a_picture(&loaded), want);
    let small = open_on(&checkpoint, &put(1000, &plain), cpu().expect("a CPU"), QUIET).err();
    let small = small.expect("too small").to_string();
    assert!(small.contains("simulated has 1.0 kB free") && small.contains("mmproj_device"), "{small}");
    // On a device that has a part of the model: that part is smaller by the encoder.
    let half = options(PlacementPolicy { device_layers: Some(1), ..PlacementPolicy::default() });
    let free = |options: &LoadOptions| {
        let question = ForecastQuestion { batch: vec![1], prompt: vec![16], ..ForecastQuestion::default() };
        let told = forecast_beside(&checkpoint, options, &question, device(1 << 30), cpu).expect("tells");
        (told.device.expect("a device").budget, told.pictures.expect("it sees").encoder)
    };
    let ((all, on_host), (less, on_device)) = (free(&half), free(&put(1 << 30, &half)));
    assert!(all - less >= on_device.weights + on_device.working, "{all} {less} {on_device:?}");
    assert_eq!((on_host.device.as_deref(), on_device.device.as_deref()), (Some("cpu"), Some("simulated")));
    let loaded = divided(path, 1 << 30, &put(1 << 30, &half)).expect("opens");
    assert_eq!(rows_of_a_picture(&loaded), want);
}

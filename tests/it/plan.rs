//! Forecasts: what they promise is what loading does, and advice that is followed gives what it says.

use lamina::{
    ApproximateExperts, ClassHome, DType, DraftSource, Forecast, ForecastQuestion, LoadOptions, MemoryLimit,
    Model, PlacementPolicy, PlacementRule, StreamOptions, plan,
};
use lamina_fixtures::{Models, packaged};

fn options() -> LoadOptions {
    LoadOptions { threads: Some(2), context: Some(256), ..LoadOptions::default() }
}

fn question() -> ForecastQuestion {
    ForecastQuestion {
        batch: vec![1, 8],
        prompt: vec![16, 64],
        gen_tokens: 16,
        ..ForecastQuestion::default()
    }
}

fn told(options: &LoadOptions) -> Forecast {
    plan(Some(&packaged()), options, &question()).expect("a forecast")
}

fn rules(texts: &[&str]) -> PlacementPolicy {
    let rules = texts.iter().map(|t| t.parse::<PlacementRule>().expect("a rule")).collect();
    PlacementPolicy { rules, ..PlacementPolicy::default() }
}

#[test]
fn what_fits_is_told_without_a_disk() {
    let told = told(&options());
    assert_eq!((&told.problem, &told.disk), (&None, &None));
    assert!(told.advice.is_empty() && told.ram_rate > 1e8);
    let [one, eight] = [1, 8].map(|batch| *told.decode_of(batch).expect("asked for"));
    assert!(one.tok_s > 0.0 && eight.tok_s > one.tok_s && eight.running == 8, "{one:?} {eight:?}");
    assert_eq!(told.prefill.iter().map(|p| p.tokens).collect::<Vec<_>>(), [16, 64]);
    assert_eq!(told.jobs.len(), 2);
    // A job takes at least as long as its answers.
    assert!(told.jobs[1].tok_s < eight.tok_s);
    let model = Model::load(Some(&packaged()), options()).expect("loads");
    assert_eq!(told.bytes_per_token > 0, model.info().bytes_per_token > 0);
}

#[test]
fn what_is_streamed_is_what_loading_streams() {
    let panels = tempfile::tempdir().expect("a folder");
    let folder = Some(panels.path().to_owned());
    for resident in [0, 100 << 10] {
        let stream = StreamOptions {
            resident: Some(resident),
            piece: Some(16 << 10),
            folder: folder.clone(),
            ..StreamOptions::default()
        };
        let options = LoadOptions { stream, ..options() };
        let before = told(&options).disk.expect("it is streamed");
        let model = Model::load(Some(&packaged()), options.clone()).expect("loads");
        let info = model.info().stream.clone().expect("it is streamed");
        let placement = model.info().placement.clone();
        assert_eq!(told(&options).placement, placement);
        let sum = |of: &dyn Fn(&ClassHome) -> u64| placement.iter().map(of).sum::<u64>();
        assert_eq!(sum(&|home| home.disk), info.streamed_bytes);
        assert_eq!(sum(&|home| home.disk + home.memory), told(&options).weights);
        assert_eq!(before.step_bytes, info.streamed_bytes);
        let after = told(&options);
        assert_eq!(after.disk.as_ref().expect("it is streamed").missing_bytes, 0);
        assert_eq!(after.decode[0].streamed_bytes, info.streamed_bytes);
        let part = after.memory.iter().find(|p| p.name == "buffers").map_or(0, |p| p.bytes);
        assert!(part <= info.buffer_bytes, "{part} and {info:?}");
    }
}

/// A context that memory cuts is told with the one that the model was made for, as loading tells it; one that was asked for is
/// never cut.
#[test]
fn a_context_that_memory_cuts_is_told() {
    let free = |context, memory| LoadOptions { context, memory, ..options() };
    // Measuring takes memory and gives some of it back later: before limits are tried, in steps smaller than what cuts.
    told(&free(None, None));
    let cut = (12..160).find_map(|step| {
        let held = lamina_base::resident_memory().expect("a size");
        let told = told(&free(None, Some(MemoryLimit::Bytes(held + step * 250_000))));
        told.cut_from.map(|from| (told.context, from, told))
    });
    let (context, from, told_cut) = cut.expect("some memory cuts it");
    assert!(context < from && from == told(&free(None, None)).context, "{context} of {from}");
    let line = format!("{context} tokens of context, cut from {from}");
    assert!(lamina_tools::plan_report(&told_cut).contains(&line));
    assert_eq!(lamina_tools::plan_json(&told_cut)["context_cut_from"], from);
    assert_eq!((told(&free(None, None)).cut_from, told(&options()).cut_from), (None, None));
}

#[test]
fn what_does_not_fit_is_told_with_its_remedies() {
    let options = LoadOptions { memory: Some(MemoryLimit::Bytes(1 << 10)), ..options() };
    let told = told(&options);
    assert!(told.problem.as_ref().is_some_and(|p| p.contains("even with weights that are read from disk")));
    assert!(told.decode.is_empty());
}

#[test]
fn advice_that_is_followed_gives_what_it_says() {
    let panels = tempfile::tempdir().expect("a folder");
    let stream = StreamOptions {
        resident: Some(0),
        folder: Some(panels.path().to_owned()),
        ..StreamOptions::default()
    };
    let options = LoadOptions { stream, dtype: Some(DType::F32), ..options() };
    let told = told(&options);
    let advice =
        told.advice.iter().find(|a| a.change == "--dtype Q8_0").expect("a quarter of the bytes is faster");
    let followed = LoadOptions { dtype: Some(DType::Q8_0), ..options };
    let then = plan(Some(&packaged()), &followed, &question()).expect("a forecast").decode[0].tok_s;
    // The disk is measured each time.
    assert!((0.2..5.0).contains(&(then / advice.tok_s)), "{then} and {advice:?}");
}

/// How many experts fall below a threshold is not known before, and said not to be.
#[test]
fn speeds_of_fewer_experts_are_said_to_be_those_of_all() {
    let (models, mut reports) = (Models::new(), vec![]);
    for fewer in [None, Some("1,0.9".parse().expect("a threshold"))] {
        let experts = ApproximateExperts { fewer, deferred: None };
        let options = LoadOptions { experts, ..options() };
        let told = plan(Some(&models.folder("mixtral")), &options, &question()).expect("a forecast");
        reports.push(lamina_tools::plan_report(&told));
    }
    let said = "fewer_experts 1,0.9 (speeds are those with all experts of a token)";
    assert!(!reports[0].contains("speeds are") && reports[1].contains(said), "{reports:?}");
}

/// One decision for both: what a forecast refuses is not loaded, what it lets through is, and no part is left out of the sum.
#[test]
fn loading_does_what_a_forecast_says_of_memory_and_takes_no_more() {
    let none = ForecastQuestion { advice: false, batch: vec![1], prompt: vec![16], ..question() };
    let mut fitted = vec![];
    for (context, room) in
        [256, 2048, 8192].into_iter().flat_map(|n| [3, 6, 10, 13, 18, 40].map(|mb| (n, mb)))
    {
        // Both find the process as it is then.
        let within = || {
            let held = lamina_base::resident_memory().expect("a size");
            let memory = Some(MemoryLimit::Bytes(held + room * 1_000_000));
            LoadOptions { context: Some(context), memory, ..options() }
        };
        let told = plan(Some(&packaged()), &within(), &none).expect("a forecast");
        let (all, budget) = (told.memory_bytes(), told.budget);
        let fits = told.problem.is_none();
        assert!(!fits || all <= budget.expect("a limit"), "{context} in {room} MB: {all} of {budget:?}");
        let loaded = Model::load(Some(&packaged()), within());
        assert_eq!(loaded.is_ok(), fits, "{context} in {room} MB: {:?}, {:?}", told.problem, loaded.err());
        fitted.push(fits);
    }
    assert!(fitted.contains(&true) && fitted.contains(&false));
}

/// The packaged model guesses for itself: what its other copy takes is counted, and decided as loading decides it.
#[test]
fn what_a_draft_model_takes_is_told_as_it_is_loaded() {
    let part =
        |told: &Forecast, name: &str| told.memory.iter().find(|p| p.name == name).map_or(0, |p| p.bytes);
    let with = |room: Option<u64>| {
        let held = lamina_base::resident_memory().expect("a size");
        let memory = room.map(|mb| MemoryLimit::Bytes(held + mb * 1_000_000));
        LoadOptions { draft: Some(DraftSource::Model(packaged())), memory, ..options() }
    };
    let (plain, drafted) = (told(&options()), told(&with(None)));
    assert!(part(&drafted, "draft model") > part(&plain, "weights"));
    // Its cache holds texts as long as the model's, and no longer ones.
    let longer = told(&LoadOptions { context: Some(512), ..with(None) });
    let cache = |told: &Forecast| part(told, "cache");
    let more = part(&longer, "draft model") - part(&drafted, "draft model");
    assert_eq!(
        (cache(&longer), more),
        (2 * cache(&plain), cache(&plain)),
        "one page for each of the model's"
    );
    let draft = drafted.draft.expect("something guesses");
    assert!(draft.cost.seconds > 0.0 && draft.speeds.len() == 3, "{draft:?}");
    assert!(draft.speeds.is_sorted_by(|a, b| a.tok_s <= b.tok_s) && plain.draft.is_none());
    let one = ForecastQuestion { advice: false, batch: vec![1], prompt: vec![16], ..question() };
    let mut fitted = vec![];
    for room in [4, 12, 20, 30, 40, 60, 100, 160] {
        let told = plan(Some(&packaged()), &with(Some(room)), &one).expect("a forecast");
        let loaded = Model::load(Some(&packaged()), with(Some(room)));
        let fits = told.problem.is_none();
        assert_eq!(loaded.is_ok(), fits, "{room} MB: {:?}, {:?}", told.problem, loaded.err());
        assert!(!fits || told.memory_bytes() <= told.budget.expect("a limit"), "{room} MB: {told:?}");
        fitted.push(fits);
    }
    assert!(fitted.contains(&true) && fitted.contains(&false), "{fitted:?}");
}

#[test]
fn what_draft_heads_take_is_told() {
    let models = Models::new();
    let folder = models.head("mimo-three");
    let with = LoadOptions { draft: Some(DraftSource::Mtp), ..options() };
    let told = plan(Some(&folder), &with, &question()).expect("a forecast");
    let heads = told.memory.iter().find(|p| p.name == "draft heads").expect("they take memory");
    assert!(heads.bytes > 0 && told.draft.is_some_and(|d| d.cost.name == "mtp"));
    let error = plan(Some(&packaged()), &with, &question()).expect_err("it has none");
    assert!(error.to_string().contains("no layers that guess"), "{error}");
}

#[test]
fn rules_put_weights_where_they_say() {
    let panels = tempfile::tempdir().expect("a folder");
    let stream = StreamOptions { folder: Some(panels.path().to_owned()), ..StreamOptions::default() };
    let with = |placement| LoadOptions { placement, stream: stream.clone(), ..options() };
    let want = Model::load(Some(&packaged()), options()).expect("loads").logits(&[1, 2, 3]).expect("runs");
    let mut streamed = vec![];
    for texts in [&["ffn=disk"][..], &["attention=disk"], &["layers 0=ram", r"ffn_(up|gate)=disk"]] {
        let model = Model::load(Some(&packaged()), with(rules(texts))).expect("loads");
        let notes = &model.info().notes;
        assert!(notes.iter().any(|note| note.contains("are placed on disk, as asked")), "{notes:?}");
        streamed.push(model.info().stream.as_ref().expect("asked for the disk").streamed_bytes);
        assert_eq!(model.logits(&[1, 2, 3]).expect("runs"), want, "{texts:?}");
    }
    assert!(streamed[0] > streamed[1] && streamed[2] < streamed[0], "{streamed:?}");
    let percent = PlacementPolicy {
        percent: Some("0 40 0 100 0 100".parse().expect("six numbers")),
        ..PlacementPolicy::default()
    };
    let model = Model::load(Some(&packaged()), with(percent)).expect("loads");
    let info = model.info().stream.clone().expect("60 % are on disk");
    assert!(info.streamed_bytes >= info.resident_bytes, "{info:?}");
    assert_eq!(model.logits(&[1, 2, 3]).expect("runs"), want);
    for (texts, problem) in [("ffm=disk", "names no weight"), ("output_norm=disk", "always stay in memory")] {
        let error = Model::load(Some(&packaged()), with(rules(&[texts]))).err().expect("refused").to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_cache_on_disk_is_told_as_it_is_loaded_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let placement = |texts: &[&str]| LoadOptions {
        placement: rules(texts),
        stream: StreamOptions { folder: Some(folder.path().to_owned()), ..StreamOptions::default() },
        ..options()
    };
    let part =
        |told: &Forecast, name: &str| told.memory.iter().find(|p| p.name == name).map_or(0, |p| p.bytes);
    let whole = told(&options());
    let (some, all) = (told(&placement(&["kv 0-1=disk"])), told(&placement(&["kv=disk"])));
    let cache = |told: &Forecast| told.disk.clone().and_then(|d| d.cache).expect("a cache on disk");
    assert!(part(&whole, "cache") > part(&some, "cache") && part(&all, "cache") == 0);
    for forecast in [&some, &all] {
        let told = cache(forecast);
        assert_eq!(part(forecast, "cache buffers"), told.buffer_bytes);
        assert!(told.layers.0 >= 2 && told.file_bytes >= told.buffer_bytes, "{told:?}");
        let disk = forecast.disk.as_ref().expect("it is read");
        assert_eq!((disk.step_bytes, disk.missing_bytes), (0, 0), "no weights");
        let [one, eight] = [1, 8].map(|batch| *forecast.decode_of(batch).expect("asked for"));
        assert_eq!(eight.cache_bytes.0, 8 * one.cache_bytes.0);
        // Behind a prompt of 16 tokens and half an answer of 16 there is one page of each layer, which is read and written.
        assert_eq!(one.cache_bytes.0, one.cache_bytes.1);
        assert_eq!(
            (one.cache_bytes.0, one.streamed_bytes),
            (told.file_bytes / pages(&told), one.cache_bytes.0)
        );
    }
    assert_eq!(cache(&all).layers.0, cache(&all).layers.1);
    let model = Model::load(Some(&packaged()), placement(&["kv=disk"])).expect("loads");
    let note =
        model.info().notes.iter().find(|note| note.contains("lies on disk")).expect("it is said").clone();
    assert!(note.contains(&lamina_base::human_bytes(cache(&all).file_bytes)), "{note}");
    // A percentage says the same of the first layers.
    let percent = Some("0 100 0 0 0 100".parse().expect("percentages"));
    let percent = PlacementPolicy { percent, ..PlacementPolicy::default() };
    assert_eq!(cache(&told(&LoadOptions { placement: percent, ..placement(&[]) })), cache(&all));
}

/// Where a context does not fit into memory, its cache on disk is a way out, told as fast as it is at the end of the context;
/// nothing chooses it.
#[test]
fn a_context_that_does_not_fit_is_told_with_its_cache_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    // 1024 bytes of a token in four layers: 2.1 GB, and buffers of three layers 1.6 GB. Nothing of it is allocated.
    let context = 1 << 21;
    let with = |memory: u64, placement| LoadOptions {
        memory: Some(MemoryLimit::Bytes(memory)),
        context: Some(context),
        stream: StreamOptions { folder: Some(folder.path().to_owned()), ..StreamOptions::default() },
        placement,
        ..options()
    };
    let process = lamina_base::resident_memory().expect("Linux says so");
    let found = (0..14).find_map(|i| {
        let memory = process + 1_950_000_000 + i * 20_000_000;
        let told = told(&with(memory, PlacementPolicy::default()));
        let advice = told.advice.iter().find(|a| a.change == "--place \"kv=disk\"").cloned();
        told.problem.and(advice.map(|advice| (memory, advice)))
    });
    let (memory, advice) = found.expect("some memory that the buffers alone fit into");
    // Other tests of this process take some meanwhile.
    let memory = memory + 40_000_000;
    assert_eq!(advice.behind, Some(context - question().gen_tokens));
    let full = ForecastQuestion { before: advice.behind, batch: vec![1], advice: false, ..question() };
    let followed = plan(Some(&packaged()), &with(memory, rules(&["kv=disk"])), &full).expect("a forecast");
    assert_eq!(followed.problem, None);
    // The disk is measured each time.
    assert!((0.2..5.0).contains(&(followed.decode[0].tok_s / advice.tok_s)), "{followed:?} and {advice:?}");
    let report = lamina_tools::plan_report(&told(&with(memory, PlacementPolicy::default())));
    assert!(report.contains("--place \"kv=disk\": ") && report.contains("behind 2097136 tokens"), "{report}");
    // Who says where the cache lies is not told otherwise.
    let said = told(&with(memory, rules(&["kv=ram"])));
    assert!(said.problem.is_some() && said.advice.iter().all(|a| !a.change.contains("kv=disk")), "{said:?}");
}

/// Pages of a layer on disk: there are eight sequences of the context.
fn pages(_: &lamina::CacheForecast) -> u64 {
    8 * 256 / lamina_plan::PAGE_LEN as u64
}

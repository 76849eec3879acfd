//! Preempted requests whose memory is kept, in memory and on disk: the bits of an answer do not depend on it, and nothing is
//! left behind.

use crate::common::answers::bits;
use crate::common::load;
use crate::common::rests;
use lamina::{
    Completion, GenerateOptions, KvSwap, LoadOptions, Model, Prompt, StreamOptions, SwapChoice, SwapCounts,
    disk::{SwapBudget, SwapUse},
};
use lamina_fixtures::{Models, names, packaged, tokens};
use std::{fs, path::Path, thread, time::Duration};

/// Requests at once, tokens of their prompts and of their answers.
const MANY: u32 = 5;
const PROMPT: u32 = 90;
const ANSWER: usize = 100;

const KV_DTYPES: [&str; 3] = ["f16", "q8_0", "k=q8_0,v=q4_0"];

/// Memory for one sequence of the context and a half, where preempted ones may take `budget`.
fn options(folder: &Path, budget: SwapBudget, kv_dtype: &str) -> LoadOptions {
    LoadOptions {
        threads: Some(1),
        context: Some(192),
        kv_dtype: kv_dtype.parse().expect("types"),
        kv_swap: KvSwap { budget, choice: SwapChoice::Always },
        stream: StreamOptions { folder: Some(folder.into()), ..StreamOptions::default() },
        ..LoadOptions::default()
    }
}

/// With pages for about a sequence and a half: half of what states leave goes to pages. Without pages, as it is.
fn tight(path: &Path, options: LoadOptions) -> Model {
    let one = load(path, options.clone()).info().kv_bytes_per_sequence;
    if one == 0 {
        return load(path, options);
    }
    let with = |bytes| LoadOptions { kv_memory: Some(bytes), ..options.clone() };
    let loads = |bytes: &u64| Model::load(Some(path), with(*bytes)).is_ok();
    let mut enough = (0..40).map(|k| one << k).find(loads).expect("states are no more than that");
    let mut few = enough / 2;
    while enough - few > one / 2 {
        let middle = few + (enough - few) / 2;
        *(if loads(&middle) { &mut enough } else { &mut few }) = middle;
    }
    load(path, with(enough + 2 * one))
}

fn asked(i: u32) -> (Prompt, GenerateOptions) {
    let prompt = tokens(PROMPT).iter().map(|t| (t + i * 7) % 200 + 3).collect();
    let mut o = GenerateOptions { max_tokens: Some(ANSWER), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", i64::from(i)).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    (Prompt::Tokens(prompt), o)
}

fn alone(model: &Model) -> Vec<Vec<(u32, u32)>> {
    (0..MANY).map(|i| bits(&model.generate(&asked(i).0, &asked(i).1).expect("runs")[0])).collect()
}

fn at_once(model: &Model) -> Vec<Vec<(u32, u32)>> {
    let streams: Vec<_> =
        (0..MANY).map(|i| model.stream(&asked(i).0, &asked(i).1).expect("starts")).collect();
    let read = |stream: lamina::TokenStream| {
        let mut got = Completion::empty();
        stream.for_each(|piece| got.push(piece.expect("runs")));
        bits(&got)
    };
    streams.into_iter().map(read).collect()
}

fn counts(model: &Model) -> (SwapCounts, SwapUse) {
    let snapshot = model.snapshot();
    (snapshot.counters.swap, snapshot.swap.clone().expect("swaps"))
}

/// Counts, once nothing is being written: the room of what nobody waits for any more is given back behind its write. What is
/// told is of the last step, so a request makes some.
fn settled(model: &Model) -> (SwapCounts, SwapUse) {
    let (prompt, o) = asked(0);
    for _ in 0..200 {
        let told = counts(model);
        if told.1.waiting_bytes == 0 {
            return told;
        }
        thread::sleep(Duration::from_millis(5));
        let o = GenerateOptions { max_tokens: Some(1), ..o.clone() };
        model.generate(&prompt, &o).expect("runs");
    }
    counts(model)
}

#[test]
fn every_family_goes_on_where_it_was_preempted() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let budgets = [(0, 8 << 20), (8 << 20, 0), (64 << 10, 8 << 20)];
    let mut all = SwapCounts::default();
    for (i, name) in names().iter().enumerate() {
        let (memory, disk) = budgets[i % 3];
        let options = options(folder.path(), SwapBudget { memory, disk }, KV_DTYPES[i / 3 % 3]);
        let path = models.folder(name);
        let want = alone(&load(&path, LoadOptions { kv_swap: KvSwap::default(), ..options.clone() }));
        let model = tight(&path, LoadOptions { reuse_prefixes: i % 2 == 0, ..options });
        assert_eq!(at_once(&model), want, "{name}");
        let (counts, used) = settled(&model);
        assert_eq!((counts.lost, counts.kept), (0, counts.returned), "{name}: {counts:?} {used:?}");
        assert_eq!((used.entries, used.file_bytes, used.damaged), (0, 0, 0), "{name}: {used:?}");
        (all.kept, all.parts_in) = (all.kept + counts.kept, all.parts_in + counts.parts_in);
    }
    assert!(all.kept > 20 && all.parts_in > 20, "{all:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "files without names");
}

#[test]
fn a_store_that_is_too_small_and_the_choice_by_cost_change_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = packaged();
    let options = |budget| options(folder.path(), budget, "f16");
    let want = alone(&load(&path, options(SwapBudget::default())));
    let small = tight(&path, options(SwapBudget { memory: 1000, disk: 0 }));
    // On a busy machine requests come one after another, and pages of one that gave way may not be needed.
    let refused = (0..20).any(|_| {
        assert_eq!(at_once(&small), want);
        let (counted, used) = counts(&small);
        counted.kept > 0 && counted.lost > 0 && used.refused > 0
    });
    assert!(refused, "{:?}", counts(&small));
    let cheaper = LoadOptions { kv_swap: "8MiB".parse().expect("a size"), ..options(SwapBudget::default()) };
    let cheaper = tight(&path, cheaper);
    assert_eq!(at_once(&cheaper), want);
    let (counted, used) = counts(&cheaper);
    assert_eq!((counted.kept, used.entries), (counted.returned + counted.lost, 0));
}

#[test]
fn given_up_requests_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tight(&packaged(), options(folder.path(), SwapBudget { memory: 0, disk: 8 << 20 }, "f16"));
    for _ in 0..3 {
        let streams: Vec<_> =
            (0..MANY).map(|i| model.stream(&asked(i).0, &asked(i).1).expect("starts")).collect();
        for _ in 0..2000 {
            if counts(&model).1.entries > 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        drop(streams);
        assert!(rests(&model));
        let used = settled(&model).1;
        assert_eq!((used.entries, used.file_bytes), (0, 0), "{used:?}");
    }
    assert!(counts(&model).0.kept > 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_without_room_is_refused_before_anything_is_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let too_much = options(folder.path(), SwapBudget { memory: 0, disk: 1 << 60 }, "f16");
    let e = Model::load(Some(&packaged()), too_much).err().expect("no disk has that");
    assert!(e.to_string().contains("kv_swap"), "{e}");
}

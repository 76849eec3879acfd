//! A cache whose layers lie on disk and are read in every step: the bits of an answer do not depend on it, and what goes wrong
//! with the disk is said.

use crate::common::answers::{answer, assert_company_changes_nothing, bits};
use crate::common::load;
use lamina::{
    Completion, Compression, CompressionMethod, DraftSource, GenerateOptions, KvSwap, LoadOptions, Model,
    PlacementPolicy, Prompt, StreamOptions,
};
use lamina_fixtures::{Models, extent, packaged, tokens};
use std::path::Path;

/// A policy of rules, or of six percentages.
fn policy(text: &str) -> PlacementPolicy {
    let name = if text.contains('=') { "place" } else { "percent" };
    let mut options = LoadOptions::default();
    options.put(name, text.as_ref()).expect("a policy");
    options.placement
}

fn options(folder: &Path) -> LoadOptions {
    let stream = StreamOptions { folder: Some(folder.into()), ..StreamOptions::default() };
    LoadOptions { threads: Some(2), context: Some(192), stream, ..LoadOptions::default() }
}

fn asked(seed: u32, count: usize) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(count), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", i64::from(seed)).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

fn prompt(i: u32) -> Vec<u32> {
    tokens(40 + 13 * i)[i as usize..].to_vec()
}

/// Answers of `tokens` tokens at once.
fn at_once(model: &Model, count: u32, tokens: usize) -> Vec<Vec<(u32, u32)>> {
    let start = |i| model.stream(&Prompt::Tokens(prompt(i)), &asked(i, tokens)).expect("starts");
    let streams: Vec<_> = (0..count).map(start).collect();
    let read = |stream: lamina::TokenStream| {
        let mut got = Completion::empty();
        stream.for_each(|piece| got.push(piece.expect("runs")));
        bits(&got)
    };
    streams.into_iter().map(read).collect()
}

/// True where a model says that its cache lies on disk.
fn says_so(model: &Model) -> bool {
    model.info().notes.iter().any(|note| note.contains("lies on disk"))
}

#[test]
fn every_family_answers_the_same_from_disk() {
    let (models, folder, mut on_disk) = (Models::new(), tempfile::tempdir().expect("a folder"), 0);
    for (i, path) in models.all().iter().enumerate() {
        let whole = load(path, options(folder.path()));
        let logits = |model: &Model| {
            let all = model.logits(&tokens(70)).map_err(|e| e.to_string());
            all.map(|all| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        let want = logits(&whole);
        let generates = model_generates(&whole);
        let answers = if generates { at_once(&whole, 3, 30) } else { vec![] };
        let policies = ["kv=disk", "kv 1=disk", "0 100 0 50 0 100"];
        for (k, text) in extent::some(policies.into_iter().enumerate(), i, 3) {
            let stream = StreamOptions {
                resident: ((i + k) % 2 == 0).then_some(0),
                folder: Some(folder.path().into()),
                ..StreamOptions::default()
            };
            let batch_rows = (k == 1).then_some(64);
            let with = LoadOptions { placement: policy(text), stream, batch_rows, ..options(folder.path()) };
            let model = match Model::load(Some(path), with) {
                Err(e) => {
                    let told = e.to_string();
                    assert!(told.contains("recurrent states stay in memory"), "{}: {told}", path.display());
                    continue;
                }
                Ok(model) => model,
            };
            on_disk += usize::from(says_so(&model));
            assert!(logits(&model) == want, "{}, {text}", path.display());
            for round in 0..usize::from(generates) * 2 {
                assert_eq!(at_once(&model, 3, 30), answers, "{}, {text}, round {round}", path.display());
            }
        }
    }
    assert!(on_disk > if extent::is_whole() { 100 } else { 30 }, "{on_disk}");
    let left = std::fs::read_dir(folder.path()).expect("readable").flatten();
    assert!(left.into_iter().all(|f| f.file_type().is_ok_and(|t| t.is_dir())), "files without names");
}

/// Encoders give rows and no tokens.
fn model_generates(model: &Model) -> bool {
    model.generate(&Prompt::Tokens(prompt(0)), &asked(0, 1)).is_ok()
}

#[test]
fn company_forks_preemption_and_swaps_change_no_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let prompts: Vec<_> = (0..14).map(|i| tokens(60 + i)[i as usize..].to_vec()).collect();
    let mut o = asked(3, 50);
    // Answers to one prompt are the same.
    o.sampling.set("temperature", 0.0).expect("known");
    let whole = load(&packaged(), LoadOptions { context: Some(128), ..options(folder.path()) });
    let want: Vec<_> = prompts.iter().map(|p| bits(&answer(&whole, p, &o))).collect();
    for text in ["kv=disk", "kv 1-2=disk"] {
        let options = LoadOptions { placement: policy(text), context: Some(128), ..options(folder.path()) };
        let model = load(&packaged(), options.clone());
        assert!(says_so(&model));
        prompts.iter().zip(&want).for_each(|(p, want)| assert_eq!(bits(&answer(&model, p, &o)), *want));
        assert_company_changes_nothing(&packaged(), &options, (&prompts, &o), None);
    }
}

#[test]
fn drafts_compression_and_shifts_change_no_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let text: Vec<u32> = tokens(9).into_iter().cycle().take(75).collect();
    let compress = Compression { window: 8, pool: 5, ..Compression::new(CompressionMethod::SnapKv, 24) };
    let by_all_rows = Compression::new(CompressionMethod::H2o, 24);
    let requests = [
        asked(1, 60),
        GenerateOptions { compress: Some(compress), ..asked(2, 40) },
        GenerateOptions { compress: Some(by_all_rows), ..asked(2, 40) },
        GenerateOptions { context_shift: Some(5), ..asked(3, 200) },
        GenerateOptions { compress: Some(compress), context_shift: Some(4), ..asked(4, 200) },
        GenerateOptions { n: 3, ..asked(5, 40) },
    ];
    let all = |model: &Model| -> Vec<Vec<(u32, u32)>> {
        let one = |o| model.generate(&Prompt::Tokens(text.clone()), o).expect("runs");
        requests.iter().flat_map(one).map(|c| bits(&c)).collect()
    };
    let short = LoadOptions { context: Some(128), ..options(folder.path()) };
    let want = all(&load(&packaged(), short.clone()));
    for draft in [None, Some(DraftSource::Ngram)] {
        for text in ["kv=disk", "kv 0=disk"] {
            let with = LoadOptions {
                placement: policy(text),
                draft_width: draft.as_ref().map(|_| 4),
                draft: draft.clone(),
                ..short.clone()
            };
            assert!(all(&load(&packaged(), with)) == want, "{text}, {draft:?}");
        }
    }
}

#[test]
fn beginnings_are_found_again_in_memory_and_behind_a_restart() {
    let (folder, kept) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let long = tokens(150);
    let want = bits(&answer(&load(&packaged(), options(folder.path())), &long, &asked(1, 20)));
    let with = LoadOptions {
        placement: policy("kv 0-1=disk"),
        cache_dir: Some(kept.path().into()),
        cache_disk: 64 << 20,
        ..options(folder.path())
    };
    for run in 0..2 {
        let model = load(&packaged(), with.clone());
        for round in 0..2 {
            let got = answer(&model, &long, &asked(1, 20));
            assert_eq!(bits(&got), want, "run {run}, round {round}");
            assert_eq!(got.usage.cached_tokens > 0, run + round > 0);
            assert_eq!(got.usage.disk_tokens > 0, run == 1 && round == 0);
        }
    }
}

#[test]
fn swapped_requests_go_on_where_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let want = at_once(&load(&packaged(), options(folder.path())), 5, 90);
    let kv_swap: KvSwap = "8MiB".parse().expect("a size");
    let kv_swap = KvSwap { choice: lamina::SwapChoice::Always, ..kv_swap };
    let all = load(&packaged(), LoadOptions { placement: policy("kv=disk"), ..options(folder.path()) });
    let one = all.info().kv_bytes_per_sequence;
    let small = LoadOptions {
        placement: policy("kv=disk"),
        kv_swap,
        kv_memory: Some(3 * one),
        ..options(folder.path())
    };
    let model = load(&packaged(), small);
    assert_eq!(at_once(&model, 5, 90), want);
    let counts = model.snapshot().counters.swap;
    assert!(counts.kept > 0 && counts.lost == 0, "{counts:?}");
}

#[test]
fn a_disk_without_room_is_refused_before_weights_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("no folder");
    std::fs::write(&file, "a file").expect("written");
    let e = Model::load(Some(&packaged()), LoadOptions { placement: policy("kv=disk"), ..options(&file) });
    let e = e.err().expect("refused").to_string();
    assert!(e.contains("kv=disk") && e.contains("cannot be had"), "{e}");
}

/// A page that is damaged on its way ends who needs it, in words, and nobody else.
#[cfg(target_os = "linux")]
#[test]
fn a_damaged_page_is_an_error_and_no_wrong_answer() {
    use std::{fs, os::unix::fs::FileExt};
    let folder = tempfile::tempdir().expect("a folder");
    let long = tokens(150);
    let want = bits(&answer(&load(&packaged(), options(folder.path())), &long, &asked(1, 20)));
    let with = LoadOptions { placement: policy("kv=disk"), reuse_prefixes: true, ..options(folder.path()) };
    let model = load(&packaged(), with);
    assert_eq!(bits(&answer(&model, &long, &asked(1, 20))), want);
    // The file has no name, but the process has it open.
    let links = fs::read_dir("/proc/self/fd").expect("readable").flatten();
    let of_model = |path: &Path| fs::read_link(path).is_ok_and(|to| to.starts_with(folder.path()));
    let path = links.map(|link| link.path()).find(|path| of_model(path)).expect("the file is open");
    let file = fs::File::options().read(true).write(true).open(path).expect("opens again");
    let length = file.metadata().expect("a length").len();
    for at in (0..length).step_by(4096) {
        let mut byte = [0];
        file.read_at(&mut byte, at + 100).expect("readable");
        file.write_at(&[byte[0] ^ 4], at + 100).expect("writable");
    }
    let again = model.generate(&Prompt::Tokens(long.clone()), &asked(1, 20));
    let error = again.expect_err("its beginning is damaged").to_string();
    assert!(error.contains("wrong checksum") && error.contains("layer"), "{error}");
    // What begins otherwise writes its pages anew, and the same request is computed anew.
    let other = prompt(1);
    let fresh = load(&packaged(), options(folder.path()));
    assert_eq!(bits(&answer(&model, &other, &asked(2, 20))), bits(&answer(&fresh, &other, &asked(2, 20))));
    assert_eq!(bits(&answer(&model, &long, &asked(1, 20))), want);
}

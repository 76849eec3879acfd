//! The prefix cache on disk: what is found there gives the bits that computing gives, whatever happened to the files.
//!
//! Long forms: `LAMINA_KILLS=1000` and `LAMINA_FLIPS=10000`.

use crate::common::answers::{Bits, top_bits};
use crate::common::load;
use lamina::{Completion, GenerateOptions, LoadOptions, Model, Prompt, Terms, disk::StoreFolder};
use lamina_fixtures::{Models, Numbers, names, packaged, tokens};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// Names the folder that a process of [`kills_of_a_running_engine_change_no_answer`] fills.
const WRITER: &str = "LAMINA_TEST_CACHE_WRITER";

/// Cells of a page.
const PAGE: usize = lamina_plan::PAGE_LEN;

fn options(cache: Option<&Path>) -> LoadOptions {
    LoadOptions {
        threads: Some(1),
        context: Some(256),
        cache_dir: cache.map(Into::into),
        cache_disk: 256 << 20,
        ..LoadOptions::default()
    }
}

fn asked() -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(8), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", 5i64).expect("known");
    o.sampling.set("logprobs", 3i64).expect("known");
    o
}

/// The answer's bits, and how many tokens of the prompt came from memory and from disk, and from disk.
fn answer(model: &Model, tokens: &[u32]) -> (Vec<Bits>, usize, usize) {
    let out = &model.generate(&Prompt::Tokens(tokens.to_vec()), &asked()).expect("runs")[0];
    (top_bits(out), out.usage.cached_tokens, out.usage.disk_tokens)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn every_family_finds_its_beginnings_after_a_restart() {
    let models = Models::new();
    for (i, name) in names().iter().enumerate() {
        let (path, cache) = (models.folder(name), folder());
        let kv_dtype = ["f16", "q8_0", "k=q8_0,v=q4_0"][i % 3].parse().expect("types");
        let open = |cache| load(&path, LoadOptions { kv_dtype, ..options(cache) });
        let (long, longer) = (tokens(200), tokens(230));
        let cold = open(None);
        let want = [answer(&cold, &long).0, answer(&cold, &longer).0];
        let first = open(Some(cache.path()));
        assert_eq!(answer(&first, &long), (want[0].clone(), 0, 0), "{name}, first");
        first.close();
        drop(first);
        // The row of the last token is computed always.
        let found = 199 / PAGE * PAGE;
        let second = open(Some(cache.path()));
        assert_eq!(answer(&second, &long), (want[0].clone(), found, found), "{name} after a restart");
        assert_eq!(answer(&second, &long), (want[0].clone(), found, 0), "{name}, by now in memory");
        drop(second);
        let third = open(Some(cache.path()));
        let (got, cached, disk) = answer(&third, &longer);
        assert!(got == want[1] && cached == disk && disk >= found, "{name}, a longer one: {disk}");
        let counts = third.snapshot().disk.clone().expect("a store");
        assert!(counts.damaged == 0 && counts.dropped == 0 && counts.hits > 0, "{name}: {counts:?}");
    }
}

#[test]
fn engines_share_a_folder_and_other_models_and_types_find_nothing() {
    let (models, cache) = (Models::new(), folder());
    let path = models.folder("llama");
    let one = load(&path, options(Some(cache.path())));
    let other = load(&path, options(Some(cache.path())));
    let (want, _, _) = answer(&one, &tokens(200));
    // What one computes is written while it rests.
    let mut disk = 0;
    for _ in 0..200 {
        thread::sleep(Duration::from_millis(10));
        if StoreFolder::open(cache.path()).expect("opens").list().len() >= 6 {
            let (got, cached, from_disk) = answer(&other, &tokens(200));
            assert!(got == want && cached == from_disk);
            disk = from_disk;
            break;
        }
    }
    assert_eq!(disk, 192);
    let found = |path: &Path, o: LoadOptions| answer(&load(path, o), &tokens(200)).2;
    let here = || options(Some(cache.path()));
    assert_eq!(found(&path, LoadOptions { kv_dtype: "q8_0".parse().expect("a type"), ..here() }), 0);
    assert_eq!(found(&path, LoadOptions { dtype: Some(lamina::DType::Q8_0), ..here() }), 0);
    assert_eq!(found(&models.folder("qwen2"), here()), 0);
    assert_eq!(found(&path, LoadOptions { threads: Some(2), ..here() }), 192);
}

/// A copy of a model on another machine has the same contents; one of which a single tensor was trained anew has not.
#[test]
fn copies_of_a_model_find_what_another_one_has_left() {
    let (models, cache, copies) = (Models::new(), folder(), folder());
    let path = models.folder("llama");
    let copy = |to: &str| {
        let to = copies.path().join(to);
        fs::create_dir(&to).expect("a folder");
        for file in fs::read_dir(&path).expect("readable").flatten() {
            fs::copy(file.path(), to.join(file.file_name())).expect("copied");
        }
        to
    };
    let open = |path: &Path| load(path, options(Some(cache.path())));
    let first = open(&path);
    let (want, ..) = answer(&first, &tokens(200));
    first.close();
    assert_eq!(answer(&open(&copy("same")), &tokens(200)), (want.clone(), 192, 192));
    let trained = copy("trained");
    let file = trained.join("model.safetensors");
    let mut bytes = fs::read(&file).expect("readable");
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("a length")) as usize;
    let tensors: serde_json::Value = serde_json::from_slice(&bytes[8..header]).expect("a header");
    let range = &tensors["model.layers.0.mlp.down_proj.weight"]["data_offsets"];
    let [start, end] = [0, 1].map(|i| header + range[i].as_u64().expect("an offset") as usize);
    bytes[start..end].iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&file, bytes).expect("writable");
    let (got, cached, disk) = answer(&open(&trained), &tokens(200));
    assert!(got != want && (cached, disk) == (0, 0));
}

/// Asks for many prompts in turn, which do not fit into memory together; returns how many tokens came from disk.
fn in_turn(model: &Model, cold: &Model, prompts: u32) -> usize {
    let prompt = |i: u32| tokens(170).iter().map(|t| (t + i) % 200 + 3).collect::<Vec<_>>();
    let want: Vec<_> = (0..prompts).map(|i| answer(cold, &prompt(i)).0).collect();
    let mut disk = 0;
    for round in 0..3 {
        for i in 0..prompts {
            let (got, cached, from_disk) = answer(model, &prompt(i));
            assert_eq!(
                got, want[i as usize],
                "round {round}, prompt {i}: {cached} cached, {from_disk} on disk"
            );
            disk += from_disk;
        }
    }
    disk
}

#[test]
fn a_small_memory_gets_back_from_disk_what_it_had_to_evict() {
    let (models, cache) = (Models::new(), folder());
    for name in ["llama", "gemma2", "deepseek-v2"] {
        let path = models.folder(name);
        let cold = load(&path, options(None));
        let two = 2 * cold.info().kv_bytes_per_sequence;
        let model = load(&path, LoadOptions { kv_memory: Some(two), ..options(Some(cache.path())) });
        assert!(in_turn(&model, &cold, 12) > 0, "{name}: {:?}", model.snapshot().disk);
    }
    // There are 64 states at most, and a snapshot is taken at each end of a piece.
    for name in ["mamba2", "qwen3-next"] {
        let path = models.folder(name);
        let model = load(&path, LoadOptions { batch_rows: Some(32), ..options(Some(cache.path())) });
        assert!(in_turn(&model, &load(&path, options(None)), 20) > 0, "{name}: {:?}", model.snapshot().disk);
    }
}

#[test]
fn many_at_once_are_as_alone() {
    let (cache, path) = (folder(), packaged());
    let prompt = |i: u32| (0..150).map(|t| if t < 100 { 20 + t } else { 20 + (t * 7 + i) % 200 }).collect();
    let want: Vec<_> = {
        let cold = load(&path, options(None));
        (0..6).map(|i| answer(&cold, &Vec::<u32>::clone(&prompt(i))).0).collect()
    };
    for round in 0..2 {
        let model = load(&path, options(Some(cache.path())));
        let streams: Vec<_> =
            (0..6).map(|i| model.stream(&Prompt::Tokens(prompt(i)), &asked()).expect("starts")).collect();
        // One that is given up while it may wait for the disk.
        drop(model.stream(&Prompt::Tokens(prompt(9)), &asked()).expect("starts"));
        let mut disk = 0;
        for (stream, want) in streams.into_iter().zip(&want) {
            let mut got = Completion::empty();
            stream.for_each(|piece| got.push(piece.expect("runs")));
            assert_eq!(top_bits(&got), *want, "round {round}");
            disk += got.usage.disk_tokens;
        }
        assert_eq!(disk > 0, round > 0);
    }
}

#[test]
fn a_disk_that_refuses_changes_no_answer() {
    let (models, cache) = (Models::new(), folder());
    let path = models.folder("llama");
    fs::create_dir_all(cache.path().join("v1")).expect("a folder");
    // Files where the folders of entries would be.
    (0..256).for_each(|i| fs::write(cache.path().join(format!("v1/{i:02x}")), b"").expect("written"));
    let want = answer(&load(&path, options(None)), &tokens(200)).0;
    for _ in 0..2 {
        let model = load(&path, options(Some(cache.path())));
        assert_eq!(answer(&model, &tokens(200)), (want.clone(), 0, 0));
        model.close();
    }
    let no_folder = LoadOptions { cache_dir: Some(cache.path().join("v1/00")), ..options(None) };
    let refused = Model::load(Some(&path), no_folder).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("the folder of the prefix cache cannot be used"), "{refused}");
}

#[test]
fn what_is_said_to_be_kept_is_found_while_its_engine_runs() {
    let models = Models::new();
    let kept = |model: &Model| {
        let (done, told) = channel();
        model.when_kept(move || _ = done.send(()));
        told.recv_timeout(Duration::from_secs(60))
    };
    // The second has states of recurrent layers beside pages.
    for name in ["llama", "qwen3-next"] {
        let (path, cache) = (models.folder(name), folder());
        let first = load(&path, options(Some(cache.path())));
        let want = answer(&first, &tokens(200)).0;
        assert_eq!(kept(&first), Ok(()), "{name}");
        let second = load(&path, options(Some(cache.path())));
        let found = 199 / PAGE * PAGE;
        assert_eq!(answer(&second, &tokens(200)), (want, found, found), "{name}");
        assert_eq!(kept(&load(&path, options(None))), Err(RecvTimeoutError::Disconnected), "{name}: nowhere");
        // Nothing more can be written: what is computed then is said not to be kept.
        for i in 0..256 {
            let place = cache.path().join(format!("v1/{i:02x}"));
            _ = fs::remove_dir_all(&place);
            fs::write(&place, b"").expect("written");
        }
        answer(&second, &tokens(256)[130..]);
        assert_eq!(kept(&second), Err(RecvTimeoutError::Disconnected), "{name}: a disk that refuses");
    }
}

#[test]
fn flipped_bytes_are_found_and_answers_stay() {
    let (models, cache) = (Models::new(), folder());
    let path = models.folder("qwen3-next");
    let first = load(&path, options(Some(cache.path())));
    let (want, ..) = answer(&first, &tokens(200));
    drop(first);
    let store = StoreFolder::open(cache.path()).expect("opens");
    let flips: usize = std::env::var("LAMINA_FLIPS").map_or(300, |n| n.parse().expect("a number"));
    let entries = store.list();
    let whole: Vec<_> = entries.iter().map(|e| fs::read(&e.path).expect("readable")).collect();
    let mut random = Numbers::seeded(7);
    let mut next = |below: usize| random.below(below);
    for flip in 0..flips {
        let i = next(entries.len());
        let mut bytes = whole[i].clone();
        let at = next(bytes.len());
        bytes[at] ^= 1 + next(255) as u8;
        fs::write(&entries[i].path, &bytes).expect("written");
        assert!(!store.is_whole(&entries[i]), "flip {flip}: byte {at} of {}", entries[i].path.display());
        fs::write(&entries[i].path, &whole[i]).expect("written");
    }
    for entry in &entries {
        let mut bytes = fs::read(&entry.path).expect("readable");
        let at = next(bytes.len());
        bytes[at] ^= 16;
        fs::write(&entry.path, &bytes).expect("written");
    }
    let damaged = load(&path, options(Some(cache.path())));
    assert_eq!(answer(&damaged, &tokens(200)), (want.clone(), 0, 0));
    assert!(damaged.snapshot().disk.as_ref().is_some_and(|c| c.damaged > 0));
    drop(damaged);
    assert_eq!(answer(&load(&path, options(Some(cache.path()))), &tokens(200)).0, want);
}

#[test]
fn kills_of_a_running_engine_change_no_answer() {
    let prompt = |i: u64| (0..120u64).map(|t| 20 + ((t * 31 + i * 17) % 400) as u32).collect::<Vec<_>>();
    if let Ok(folder) = std::env::var(WRITER) {
        let model = load(&packaged(), options(Some(folder.as_ref())));
        for i in 0.. {
            answer(&model, &prompt(i));
        }
    }
    let kills: u64 = std::env::var("LAMINA_KILLS").map_or(5, |n| n.parse().expect("a number"));
    let cache = folder();
    for round in 0..kills {
        let mut writer = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "cache::kills_of_a_running_engine_change_no_answer"])
            .env(WRITER, cache.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        thread::sleep(Duration::from_millis(250 + round * 7919 % 300));
        writer.kill().expect("can be killed");
        writer.wait().expect("ends");
    }
    let store = StoreFolder::open(cache.path()).expect("opens");
    assert!(store.list().iter().all(|entry| store.is_whole(entry)));
    let (cold, warm) = (load(&packaged(), options(None)), load(&packaged(), options(Some(cache.path()))));
    let mut disk = 0;
    for i in 0..20 {
        let (got, _, from_disk) = answer(&warm, &prompt(i));
        assert_eq!(got, answer(&cold, &prompt(i)).0, "prompt {i}");
        disk += from_disk;
    }
    assert!(disk > 0 || store.list().is_empty());
    let counts = warm.snapshot().disk.clone().expect("a store");
    assert_eq!(counts.damaged, 0);
}

#[test]
fn salted_requests_share_nothing() {
    let (models, cache) = (Models::new(), folder());
    let path = models.folder("llama");
    let salted = |salt: &str| {
        let terms = Terms { cache_salt: Some(salt.into()), ..Terms::default() };
        GenerateOptions { terms, ..asked() }
    };
    let disk = |salt: &str| {
        let model = load(&path, options(Some(cache.path())));
        let out = model.generate(&Prompt::Tokens(tokens(200)), &salted(salt)).expect("runs");
        out[0].usage.disk_tokens
    };
    assert_eq!([disk("a"), disk("b"), disk("a")], [0, 0, 192]);
}

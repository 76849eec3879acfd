//! Models of which each of several ranks computes some rows of every matrix: the bits of one machine, for any number of ranks.

use crate::{
    common::{
        answers,
        divided::{self, all_bits, options, refused, request},
        load, rank_at,
    },
    stages::{in_stages, rank},
};
use lamina::{
    ApproximateExperts, DraftSource, KvDtype, LoadOptions, PlacementPolicy, RankList, Reporter, StreamOptions,
};
use lamina_fixtures::{Models, names, packaged, tokens};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};

/// So many ranks, of which one is the leader.
fn in_shards(path: &Path, ranks: usize, options: LoadOptions) -> LoadOptions {
    LoadOptions { tp: RankList::At((1..ranks).map(|_| rank(path)).collect()), ..options }
}

/// So many ranks in this process.
fn in_one_process(ranks: usize) -> impl Fn(&Path, LoadOptions) -> LoadOptions {
    move |_, options| LoadOptions { tp: RankList::Here(ranks), ..options }
}

/// All families on these numbers of ranks, of which notes name one as `rank` says.
fn same_bits_in_every_family(
    counts: &[usize],
    division: impl Fn(&Path, usize) -> RankList,
    rank: impl Fn(usize) -> String,
) {
    let models = Models::new();
    for name in names() {
        let folder = models.folder(&name);
        let want = all_bits(&load(&folder, options()));
        for &ranks in counts {
            let model = load(&folder, LoadOptions { tp: division(&folder, ranks), ..options() });
            let notes = &model.info().notes;
            let part = format!("1 of {ranks} parts of each matrix is computed by rank {}", rank(ranks));
            assert!(notes.iter().any(|note| note.contains(&part)), "{name}: {notes:?}");
            assert!(all_bits(&model) == want, "{name} with {ranks} ranks");
        }
    }
}

#[test]
fn every_family_in_shards_has_the_bits_of_one_machine() {
    let division = |path: &Path, ranks| in_shards(path, ranks, options()).tp;
    same_bits_in_every_family(&[2, 3, 4, 8], division, |_| "127.0.0.1".into());
}

#[test]
fn every_family_on_ranks_of_one_process_has_the_bits_of_one() {
    let last = |ranks| format!("{} of this process", ranks - 1);
    same_bits_in_every_family(&[2, 3, 8], |_, ranks| RankList::Here(ranks), last);
}

/// Steps of so many rows that columns go both ways at once, and types of weights and of the cache that are quantized.
#[test]
fn large_steps_and_other_types_have_the_bits_of_one_machine() {
    let models = Models::new();
    let with = |dtype: Option<&str>, kv: &str| LoadOptions {
        dtype: dtype.map(|name| name.parse().expect("a type")),
        kv_dtype: kv.parse::<KvDtype>().expect("a type"),
        ..options()
    };
    for name in ["llama", "gemma2", "mixtral"] {
        for options in [options(), with(Some("q8_0"), "q8_0"), with(Some("q4_0"), "k=q8_0,v=q4_0")] {
            divided::large_steps(&models.folder(name), options, &|path, o| in_shards(path, 3, o));
        }
    }
}

#[test]
fn preempted_requests_go_on_in_shards() {
    let models = Models::new();
    for name in ["llama", "mixtral"] {
        divided::preempted(&models.folder(name), (5, 4), &|path, o| in_shards(path, 2, o));
    }
}

/// Pages of all ranks are saved as those of one machine, and those of stages are the same.
#[test]
fn sessions_go_on_in_other_shards() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let shards = |ranks| move |path: &Path, o| in_shards(path, ranks, o);
    for name in ["llama", "gemma2", "mamba2"] {
        let (path, file) = (models.folder(name), folder.path().join(name));
        for (from, to) in [(2, 1), (1, 3), (4, 2)] {
            divided::session_goes_on(&path, &file, &shards(from), &shards(to));
        }
        divided::session_goes_on(&path, &file, &|path, o| in_stages(path, &[0], o), &shards(2));
    }
}

/// A folder of cached prompts is read by any number of ranks, and by one machine.
#[test]
fn cached_prompts_serve_any_number_of_ranks() {
    let models = Models::new();
    for name in ["llama", "gemma2"] {
        let (path, folder) = (models.folder(name), tempfile::tempdir().expect("a folder"));
        let text = tokens(200);
        let want = answers::bits(&answers::answer(&load(&path, options()), &text, &request(0)));
        for (i, ranks) in [2, 1, 3].into_iter().enumerate() {
            let kept = LoadOptions { cache_dir: Some(folder.path().into()), ..options() };
            let model = load(&path, in_shards(&path, ranks, kept));
            let got = answers::answer(&model, &text, &request(0));
            assert_eq!(got.usage.disk_tokens > 0, i > 0, "{name}: {ranks}");
            assert_eq!(answers::bits(&got), want, "{name}: {ranks}");
            model.close();
        }
    }
}

/// Guesses, hidden rows behind each layer, adapters: what reads or changes rows beside the operators.
#[test]
fn what_stands_beside_operators_acts_in_shards() {
    let (models, story) = (Models::new(), packaged());
    let want = all_bits(&load(&story, options()));
    let draft = Some(DraftSource::from(story.to_str().expect("a path")));
    assert!(all_bits(&load(&story, in_shards(&story, 2, LoadOptions { draft, ..options() }))) == want);
    for (path, draft) in ["glm4-moe", "deepseek-v3"].map(|name| (models.head(name), DraftSource::Mtp)) {
        let want = all_bits(&load(&path, options()));
        let drafted = LoadOptions { draft: Some(draft), ..options() };
        let model = load(&path, in_shards(&path, 2, drafted));
        assert!(model.info().draft.is_some() && all_bits(&model) == want, "{}", path.display());
    }
    for name in ["llama", "gemma2"] {
        let path = models.folder(name);
        divided::hidden_rows(&path, &|path, o| in_shards(path, 2, o));
        divided::adapters(&path, name, &|path, o| in_shards(path, 2, o));
    }
}

/// Experts that are left out, or added a layer later, are so on all ranks.
#[test]
fn experts_are_approximated_in_shards() {
    let models = Models::new();
    let path = models.folder("mixtral");
    let exact = all_bits(&load(&path, options()));
    let fewer = ApproximateExperts { fewer: Some("1,0.9".parse().expect("shares")), deferred: None };
    let deferred = ApproximateExperts { fewer: None, deferred: std::num::NonZeroUsize::new(1) };
    for experts in [fewer, deferred] {
        let asked = LoadOptions { experts, ..options() };
        let want = all_bits(&load(&path, asked.clone()));
        assert!(want != exact, "the approximation acts");
        assert!(all_bits(&load(&path, in_shards(&path, 3, asked))) == want);
    }
}

#[test]
fn pictures_are_seen_in_shards() {
    for name in ["gemma3", "qwen2-vl", "qwen3-vl"] {
        divided::seen_pictures(name, &|path, o| in_shards(path, 2, o));
    }
}

/// A rank that has no room reads its rows from disk.
#[test]
fn a_rank_reads_its_rows_from_disk() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let path = models.folder("llama");
    let stream = StreamOptions { folder: Some(panels.path().to_owned()), ..StreamOptions::default() };
    let rules = vec!["ffn=disk".parse().expect("a rule")];
    let placement = PlacementPolicy { rules, ..PlacementPolicy::default() };
    let own = LoadOptions { threads: Some(1), placement, stream, ..LoadOptions::default() };
    let tp = RankList::At(vec![rank_at(&path, own), rank(&path)]);
    let want = all_bits(&load(&path, options()));
    assert!(all_bits(&load(&path, LoadOptions { tp, ..options() })) == want);
    assert!(std::fs::read_dir(panels.path()).expect("a folder").next().is_some(), "rows were packed");
}

#[test]
fn what_cannot_be_in_shards_is_refused_in_words() {
    let models = Models::new();
    let mixtral = models.folder("mixtral");
    let rules = vec!["experts=disk".parse().expect("a rule")];
    let placement = PlacementPolicy { rules, ..PlacementPolicy::default() };
    let error = refused(&mixtral, in_shards(&mixtral, 2, LoadOptions { placement, ..options() }));
    assert!(error.contains("all experts that a machine computes have to fit"), "{error}");
    let llama = models.folder("llama");
    let stages = rank(&llama).parse().expect("an address");
    let error = refused(&llama, in_shards(&llama, 2, LoadOptions { stages, ..options() }));
    assert!(error.contains("stages and tp are both given"), "{error}");
    let other = in_shards(&models.folder("qwen2"), 2, options());
    assert!(refused(&llama, other).contains("has another model, or other adapters"));
}

/// What goes by other ways than columns does so inside a process, too; threads are those of all ranks together.
#[test]
fn ranks_of_one_process_do_what_others_do() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for name in ["llama", "mixtral", "mamba2"] {
        let (path, file) = (models.folder(name), folder.path().join(name));
        divided::large_steps(&path, LoadOptions { threads: Some(4), ..options() }, &in_one_process(2));
        divided::session_goes_on(&path, &file, &in_one_process(3), &|path, o| in_shards(path, 2, o));
        divided::session_goes_on(&path, &file, &in_one_process(1), &in_one_process(2));
    }
    let path = models.folder("llama");
    divided::preempted(&path, (5, 4), &in_one_process(2));
    divided::hidden_rows(&path, &in_one_process(2));
    divided::adapters(&path, "llama", &in_one_process(3));
    divided::seen_pictures("gemma3", &in_one_process(2));
    let draft = Some(DraftSource::Ngram);
    assert!(
        all_bits(&load(&path, LoadOptions { tp: RankList::Here(2), draft, ..options() }))
            == all_bits(&load(&path, options()))
    );
}

/// Where there is one node, nothing is divided; where there are more, each has a rank.
#[test]
fn nodes_of_memory_are_ranks() {
    let (models, said) = (Models::new(), Arc::new(Mutex::new(vec![])));
    let path = models.folder("llama");
    let heard = said.clone();
    let report = Reporter::to(move |line| heard.lock().expect("not poisoned").push(line.to_owned()));
    let model = load(&path, LoadOptions { tp: RankList::Nodes, report, ..options() });
    assert!(all_bits(&model) == all_bits(&load(&path, options())));
    let divided = model.info().notes.iter().any(|note| note.contains("of this process"));
    let one = said.lock().expect("not poisoned").iter().any(|line| line.contains("one node of memory"));
    assert!(divided != one, "{said:?}");
}

/// The ranks of a process share its memory, and give theirs back with the model.
#[cfg(target_os = "linux")]
#[test]
fn ranks_of_one_process_share_what_there_is() {
    let models = Models::new();
    let path = models.folder("llama");
    let all = load(&path, options()).info().kv_bytes_per_sequence;
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let model = load(&path, LoadOptions { tp: RankList::Here(4), kv_memory: Some(4 * all), ..options() });
    assert!(threads() >= before + 3, "a thread for each rank");
    assert!(all_bits(&model) == all_bits(&load(&path, options())), "as much of a cache as one machine has");
    model.close();
    drop(model);
    let ended = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        threads() <= before
    });
    assert!(ended, "{} threads of {before}", threads());
    let error = refused(
        &path,
        LoadOptions { tp: RankList::Here(2), memory: Some("1MiB".parse().expect("a size")), ..options() },
    );
    assert!(error.contains("memory"), "{error}");
}

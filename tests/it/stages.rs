//! Models whose layers several ranks compute, each in a thread of its own behind a connection: the bits of one machine.

use crate::common::{
    divided::{self, all_bits, options, refused},
    load, rank_at,
};
use lamina::{
    ApproximateExperts, DraftSource, LoadOptions, Model, PlacementPolicy, RankService, StageList,
    StreamOptions, TraceDetail,
};
use lamina_fixtures::{Models, extent, names, packaged};
use std::path::Path;

pub fn rank(path: &Path) -> String {
    rank_at(path, LoadOptions { threads: Some(1), ..LoadOptions::default() })
}

/// Ranks with these numbers of layers; 0 is by memory.
fn stages(path: &Path, layers: &[usize]) -> StageList {
    let one = |layers: &usize| match layers {
        0 => rank(path),
        layers => format!("{}={layers}", rank(path)),
    };
    layers.iter().map(one).collect::<Vec<_>>().join(",").parse().expect("a list")
}

pub fn in_stages(path: &Path, layers: &[usize], options: LoadOptions) -> LoadOptions {
    LoadOptions { stages: stages(path, layers), ..options }
}

#[test]
fn every_family_in_stages_has_the_bits_of_one_machine() {
    let models = Models::new();
    for (i, name) in names().into_iter().enumerate() {
        let folder = models.folder(&name);
        let want = all_bits(&load(&folder, options()));
        for layers in extent::some([&[0][..], &[0, 0]], i, 2) {
            let model = load(&folder, in_stages(&folder, layers, options()));
            assert!(
                model.info().notes.iter().any(|note| note.contains("computed by rank 127.0.0.1")),
                "{name}"
            );
            assert!(all_bits(&model) == want, "{name} with {} ranks", layers.len());
        }
    }
}

/// Steps of many rows are computed in parts that follow one another through the stages.
#[test]
fn parts_of_a_step_follow_one_another_with_the_same_bits() {
    let models = Models::new();
    for (i, name) in names().into_iter().enumerate() {
        if extent::takes(i, 3) || ["llama", "qwen3-next", "mamba2"].contains(&name.as_str()) {
            divided::large_steps(&models.folder(&name), options(), &|path, o| in_stages(path, &[0], o));
        }
    }
}

#[test]
fn preempted_requests_go_on_with_the_same_bits() {
    let models = Models::new();
    for name in ["llama", "mixtral", "deepseek-v2"] {
        // What is meant is memory of each machine: the leader has a part of the layers.
        divided::preempted(&models.folder(name), (3, 4), &|path, o| in_stages(path, &[0], o));
    }
}

/// Pages and states of all machines are saved as those of one: a session goes on where there are other stages, or none.
#[test]
fn sessions_go_on_in_other_stages() {
    let (models, folder) = (Models::new(), tempfile::tempdir().expect("a folder"));
    for name in ["llama", "gemma2", "deepseek-v2", "qwen3-next", "mamba2"] {
        for (from, to) in [(&[0][..], &[][..]), (&[], &[0]), (&[0, 0], &[0])] {
            let stages = |layers| move |path: &Path, o| in_stages(path, layers, o);
            let file = folder.path().join(name);
            divided::session_goes_on(&models.folder(name), &file, &stages(from), &stages(to));
        }
    }
}

/// Heads take rows from behind layers that a rank has computed, and a draft model is the leader's.
#[test]
fn guesses_change_nothing_in_stages() {
    let models = Models::new();
    for (path, draft) in [
        (packaged(), DraftSource::from(packaged().to_str().expect("a path"))),
        (models.head("glm4-moe"), DraftSource::Mtp),
        (models.head("deepseek-v3"), DraftSource::Mtp),
    ] {
        let want = all_bits(&load(&path, options()));
        let drafted = LoadOptions { draft: Some(draft), ..options() };
        let model = load(&path, in_stages(&path, &[0], drafted));
        assert!(model.info().draft.is_some(), "{}", path.display());
        assert!(all_bits(&model) == want, "{}", path.display());
    }
}

#[test]
fn hidden_rows_come_from_every_stage() {
    let models = Models::new();
    for name in ["llama", "gemma2", "qwen3-next"] {
        divided::hidden_rows(&models.folder(name), &|path, o| in_stages(path, &[0, 0], o));
    }
}

#[test]
fn pictures_are_seen_in_stages() {
    for name in ["gemma3", "qwen2-vl", "qwen3-vl"] {
        // The leader has as little as can be: what is added is added by ranks.
        divided::seen_pictures(name, &|path, o| in_stages(path, &[1, 1], o));
    }
}

#[test]
fn adapters_act_in_every_stage() {
    let models = Models::new();
    for name in ["llama", "gemma2"] {
        divided::adapters(&models.folder(name), name, &|path, o| in_stages(path, &[0], o));
    }
}

#[test]
fn a_recording_in_stages_tells_steps_and_changes_nothing() {
    let models = Models::new();
    let path = models.folder("llama");
    let model = load(&path, in_stages(&path, &[0], options()));
    let want = all_bits(&model);
    for (name, detail) in TraceDetail::ALL {
        assert!(model.record(Some(detail)).is_none());
        assert!(all_bits(&model) == want, "{name}");
        let log = model.record(None).expect("was recorded");
        assert!(!log.steps.is_empty() && log.ops.is_empty(), "{name}: no operator is told apart from others");
    }
}

/// What is larger than a rank's memory is read from its disk, and what is approximate is so on all machines.
#[test]
fn ranks_stream_and_approximate_as_one_machine_does() {
    let (models, panels) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let path = models.folder("mixtral");
    let stream = StreamOptions { folder: Some(panels.path().to_owned()), ..StreamOptions::default() };
    let rules = vec!["experts=disk".parse().expect("a rule")];
    let placement = PlacementPolicy { rules, ..PlacementPolicy::default() };
    let own = LoadOptions { threads: Some(1), placement, stream, ..LoadOptions::default() };
    let rank = RankService::listen("127.0.0.1:0").expect("a free port");
    let (stages, served) = (rank.address().parse().expect("an address"), path.clone());
    std::thread::spawn(move || rank.serve(Some(&served), &own, (&|_| (), &|_, _| true)));
    let experts = ApproximateExperts { fewer: Some("1,0.9".parse().expect("shares")), deferred: None };
    let asked = LoadOptions { experts, ..options() };
    let want = all_bits(&load(&path, asked.clone()));
    assert!(want != all_bits(&load(&path, options())), "the approximation acts");
    assert!(all_bits(&load(&path, LoadOptions { stages, ..asked })) == want);
}

#[test]
fn ranks_that_cannot_serve_are_named_with_the_reason() {
    let models = Models::new();
    let llama = models.folder("llama");
    let other = in_stages(&models.folder("qwen2"), &[0], options());
    assert!(refused(&llama, other).contains("has another model, or other adapters"));
    let nobody = LoadOptions { stages: "127.0.0.1:1".parse().expect("an address"), ..options() };
    let error = refused(&llama, nobody);
    assert!(error.contains("the rank 127.0.0.1:1: it cannot be reached"), "{error}");
    let error = refused(&llama, in_stages(&llama, &[0; 9], options()));
    assert!(error.contains("fewer layers than machines"), "{error}");
    let error = refused(&llama, in_stages(&llama, &[99], options()));
    assert!(error.contains("have 99 layers"), "{error}");
    let shared = in_stages(&llama, &[0], options());
    let first = load(&llama, shared.clone());
    let error = refused(&llama, shared.clone());
    assert!(error.contains("it computes layers for 127.0.0.1"), "{error}");
    let want = all_bits(&first);
    first.close();
    drop(first);
    // The rank is told that its leader is gone by the connection's end.
    let again = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Model::load(Some(&llama), shared.clone()).ok()
    });
    assert!(all_bits(&again.expect("the rank serves the next one")) == want);
}

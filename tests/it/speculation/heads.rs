//! Heads in checkpoints and in folders of their own, from the file to the answer.

use super::*;
use lamina::StreamOptions;
use lamina_convert::{Draft, Types, WriteOptions};
use std::path::PathBuf;
use tempfile::TempDir;

/// Models with layers that guess further tokens, and the families that they are of, where those have a file of their own.
pub const CARRIERS: [(&str, Option<&str>); 8] = [
    ("deepseek-v3", Some("deepseek-v3")),
    ("glm4-moe", Some("glm4-moe")),
    ("qwen3-next", Some("qwen3-next")),
    ("qwen3_5-text", Some("qwen3_5-text")),
    ("mimo", Some("qwen2")),
    ("mimo-three", Some("qwen2")),
    ("ernie4_5", None),
    ("ernie4_5-moe", None),
];

/// The folder of a model with such layers, and the one of the same model without, or with layers that are left alone.
pub fn carrier(models: &Models, (name, family): (&str, Option<&str>)) -> [PathBuf; 2] {
    let folder = models.head(name);
    [folder.clone(), family.map_or(folder, |family| models.folder(family))]
}

/// Guesses of a drafter by its name alone.
fn guessed_by(model: &Model, method: &str, width: usize) -> lamina::Speculation {
    let mut ask = request(0, Some(width));
    ask.speculate.method = Some(method.into());
    model.generate(&prompt(0), &ask).expect("runs")[0].timings.speculation
}

#[test]
fn layers_that_guess_further_tokens_change_no_bit() {
    let models = Models::new();
    for (name, family) in CARRIERS {
        let [folder, without] = carrier(&models, (name, family));
        let plain = load(&without, options(None));
        let setups = [
            options(Some(DraftSource::Mtp)),
            LoadOptions { batch_rows: Some(7), ..options(Some(DraftSource::Auto)) },
        ];
        for setup in setups {
            let drafted = load(&folder, setup);
            assert_eq!(drafted.info().draft.as_deref(), Some("ngram + suffix + mtp"), "{name}");
            assert_eq!(drafted.info().notes, plain.info().notes, "{name}");
            agrees(name, &plain, &drafted, &[None, Some(1), Some(3)]);
            let own = guessed_by(&drafted, "mtp", 3);
            assert!(own.drafted > 10 && own.method == "mtp", "{name}: {own:?}");
        }
        let quantized = |draft| LoadOptions { dtype: Some(lamina::DType::Q8_0), ..options(draft) };
        let plain = load(&without, quantized(None));
        agrees(name, &plain, &load(&folder, quantized(Some(DraftSource::Mtp))), &[Some(2)]);
    }
}

#[test]
fn heads_guess_beside_models_that_are_read_from_disk() {
    let (models, panels) = (Models::new(), TempDir::new().expect("a folder"));
    for (name, family) in CARRIERS {
        let [head, without] = carrier(&models, (name, family));
        let plain = load(&without, options(None));
        let (resident, piece, folder) = (Some(0), Some(16 << 10), Some(panels.path().to_owned()));
        let stream = StreamOptions { resident, piece, folder, ..StreamOptions::default() };
        let setup = LoadOptions { stream, ..options(Some(DraftSource::Mtp)) };
        let drafted = load(&head, setup);
        assert!(drafted.info().stream.is_some(), "{name}");
        agrees(name, &plain, &drafted, &[None, Some(3)]);
        assert!(guessed_by(&drafted, "mtp", 3).drafted > 10, "{name}");
    }
}

#[test]
fn files_keep_the_layers_that_guess_further_tokens() {
    let models = Models::new();
    let mut written = 0;
    for (name, family) in CARRIERS {
        let [folder, without] = carrier(&models, (name, family));
        // Some models have no form in GGUF, whatever heads they carry.
        if Draft::open(without).is_err() || name.starts_with("mimo") {
            continue;
        }
        let file = TempDir::new().expect("a folder");
        let (whole, small) = (file.path().join("whole.gguf"), file.path().join("small.gguf"));
        let write = |from: &Path, to: &Path, types: &str| {
            let types = WriteOptions::new(types.parse::<Types>().expect("known"));
            Draft::open(from).expect("opens").write(to, &types, &|_, _| true).expect("is written");
        };
        write(&folder, &whole, "f32");
        write(&whole, &small, "q8_0");
        let [of_folder, of_file] = [&folder, &whole].map(|path| {
            let model = load(path, options(Some(DraftSource::Mtp)));
            let answer = model.generate(&prompt(2), &request(0, Some(3))).expect("runs").remove(0);
            (answer.tokens.clone(), guessed_by(&model, "mtp", 3))
        });
        assert_eq!(of_file, of_folder, "{name}");
        let (plain, drafted) = (load(&small, options(None)), load(&small, options(Some(DraftSource::Mtp))));
        agrees(name, &plain, &drafted, &[Some(3)]);
        assert!(guessed_by(&drafted, "mtp", 3).drafted > 10);
        written += 1;
    }
    assert!(written >= 3);
}

#[test]
fn a_checkpoint_without_such_layers_is_refused() {
    let refused = Model::load(Some(&packaged()), options(Some(DraftSource::Mtp)));
    let text = refused.err().expect("it has none").to_string();
    assert!(text.contains("no layers that guess further tokens"), "{text}");
}

#[test]
fn heads_of_folders_change_no_bit() {
    let models = Models::new();
    let folder = models.folder("llama");
    let plain = load(&folder, options(None));
    for (name, method) in [("eagle", "eagle"), ("eagle3", "eagle"), ("medusa", "medusa")] {
        let source = || Some(DraftSource::Model(models.head(name)));
        for setup in [options(source()), LoadOptions { batch_rows: Some(7), ..options(source()) }] {
            let drafted = load(&folder, setup);
            assert_eq!(drafted.info().draft, Some(format!("ngram + suffix + {method}")), "{name}");
            agrees(name, &plain, &drafted, &[None, Some(1), Some(4)]);
            let own = guessed_by(&drafted, method, 4);
            assert!(own.drafted > 10 && own.method == method, "{name}: {own:?}");
        }
    }
}

#[test]
fn heads_beside_penalties_and_limits_change_nothing() {
    let models = Models::new();
    let (plain, drafted) = (
        load(&models.folder("glm4-moe"), options(None)),
        load(&models.head("glm4-moe"), options(Some(DraftSource::Mtp))),
    );
    for i in 0..6 {
        let mut ask = request(i, Some(1 + i));
        ask.sampling.set("repetition_penalty", 1.2).expect("known");
        ask.sampling.set("min_p", 0.01).expect("known");
        ask.max_tokens = Some(5 + 3 * i);
        let want =
            plain.generate(&prompt(i), &GenerateOptions { speculate: Speculate::default(), ..ask.clone() });
        let got = drafted.generate(&prompt(i), &ask).expect("runs");
        assert!(all_bits(&got) == all_bits(&want.expect("runs")), "{i}");
    }
}

#[test]
fn a_head_that_does_not_fit_says_both_sizes() {
    let models = Models::new();
    // Its hidden rows have 64 numbers, and those of the head 128.
    let file = TempDir::new().expect("a folder");
    let narrow = file.path().join("narrow");
    std::fs::create_dir(&narrow).expect("a folder");
    for name in ["model.safetensors", "config.json"] {
        std::fs::copy(models.head("eagle").join(name), narrow.join(name)).expect("copied");
    }
    let config = std::fs::read_to_string(narrow.join("config.json")).expect("text");
    std::fs::write(narrow.join("config.json"), config.replace("\"hidden_size\":128", "\"hidden_size\":64"))
        .expect("written");
    let refused = Model::load(Some(&models.folder("llama")), options(Some(DraftSource::Model(narrow))));
    let text = refused.err().expect("it does not fit").to_string();
    assert!(text.contains("64") && text.contains("128"), "{text}");
    let pickled = file.path().join("pickled");
    std::fs::create_dir(&pickled).expect("a folder");
    std::fs::write(pickled.join("config.json"), "{\"medusa_num_heads\": 3}").expect("written");
    std::fs::write(pickled.join("medusa_lm_head.pt"), "PK").expect("written");
    let refused = Model::load(Some(&models.folder("llama")), options(Some(DraftSource::Model(pickled))));
    let text = refused.err().expect("a pickle").to_string();
    assert!(text.contains("PyTorch pickles") && text.contains("safetensors"), "{text}");
}

//! Model files that change while they are in use: an error or no difference, never a fault and never another answer.

use lamina::{Error, GenerateOptions, LoadOptions, Model, Prompt};
use lamina_convert::{Draft, Types, WriteOptions};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const BYTES: u64 = 4096;

/// Changes the file at a path.
type Change = fn(&Path);

/// A copy of the packaged model that was written a while ago.
fn copy(dir: &Path) -> PathBuf {
    let path = dir.join("model.gguf");
    fs::write(&path, fs::read(lamina_fixtures::packaged()).unwrap()).unwrap();
    let past = SystemTime::now() - Duration::from_secs(9);
    File::options().write(true).open(&path).unwrap().set_modified(past).unwrap();
    path
}

fn answer(model: &Model, prompt: &str) -> lamina::Result<Vec<u32>> {
    let mut options = GenerateOptions { max_tokens: Some(12), ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.0)?;
    Ok(model.generate(&Prompt::Text(prompt.into()), &options)?.remove(0).tokens)
}

const PROMPTS: [&str; 3] = ["Once upon a time", "The little dog", "She was happy"];

#[test]
fn a_file_that_changes_after_loading_is_an_error_or_no_difference() {
    let changes: [(&str, Change); 3] = [
        ("shortened", |path| File::options().write(true).open(path).unwrap().set_len(BYTES).unwrap()),
        ("overwritten", |path| {
            let mut file = File::options().write(true).open(path).unwrap();
            let bytes = vec![0x11; fs::metadata(path).unwrap().len() as usize];
            file.write_all(&bytes).unwrap();
        }),
        ("replaced", |path| {
            let other = path.with_extension("other");
            fs::write(&other, "nothing").unwrap();
            fs::rename(other, path).unwrap();
        }),
    ];
    for (what, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        let path = copy(dir.path());
        let model = Model::load(Some(&path), LoadOptions::default()).unwrap();
        let want = PROMPTS.map(|p| answer(&model, p).unwrap());
        change(&path);
        for (prompt, want) in PROMPTS.iter().zip(&want) {
            match answer(&model, prompt) {
                Ok(got) => assert_eq!(&got, want, "{what}"),
                Err(e) => {
                    assert!(
                        matches!(e, Error::Runtime(_)) && e.to_string().contains("was changed"),
                        "{what}: {e}"
                    );
                    assert_ne!(what, "replaced", "the file that is open is the old one");
                }
            }
        }
    }
}

#[test]
fn a_file_that_is_shortened_while_it_is_loaded_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for dtype in [None, Some(lamina::DType::Q8_0)] {
        let path = copy(dir.path());
        let shorten = |_, _| {
            File::options().write(true).open(&path).unwrap().set_len(BYTES).unwrap();
            true
        };
        let options = LoadOptions { dtype, ..LoadOptions::default() };
        let error = Model::load_with(Some(&path), &options, &shorten).err().unwrap();
        assert!(matches!(error, Error::Model(_)) && error.to_string().contains("was changed"), "{error}");
    }
}

fn shorten(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// Headers and tensors, wherever the reader is when it happens. A map would end the process here.
#[test]
fn whenever_a_file_is_shortened_loading_ends_with_an_error_or_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let (mut failed, mut loaded) = (0, 0);
    for round in 0..40u64 {
        let path = copy(dir.path());
        let cutter = std::thread::spawn({
            let path = path.clone();
            move || {
                std::thread::sleep(Duration::from_micros(150 * round * round));
                shorten(&path, [1, 40, BYTES, 100_000][round as usize % 4]);
            }
        });
        let options = LoadOptions { threads: Some(1), context: Some(64), ..LoadOptions::default() };
        match Model::load(Some(&path), options) {
            Ok(_) => loaded += 1,
            Err(e) => {
                assert!(matches!(e, Error::Model(_) | Error::Format(_)), "{e}");
                failed += 1;
            }
        }
        cutter.join().unwrap();
    }
    assert!(failed > 0, "{failed} failed, {loaded} loaded");
}

#[test]
fn a_source_that_is_shortened_while_it_is_quantized_is_an_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for types in [Types::Keep, "q8_0".parse().unwrap()] {
        let path = copy(dir.path());
        let draft = Draft::open(&path).unwrap();
        let out = dir.path().join("out.gguf");
        let progress = |_, _| {
            shorten(&path, BYTES);
            true
        };
        let error = draft.write(&out, &WriteOptions::new(types), &progress).unwrap_err().to_string();
        assert!(error.contains("was changed"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

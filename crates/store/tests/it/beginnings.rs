//! Models by the beginnings of their files: what opening them tells, or how much more is needed.

use lamina_fixtures::{Models, packaged};
use lamina_store::{BegunCheckpoint, Checkpoint, FileBeginning};
use std::{fs, path::Path};

fn beginning(path: &Path, bytes: usize) -> FileBeginning {
    let all = fs::read(path).unwrap();
    let len = all.len();
    FileBeginning { path: path.to_owned(), bytes: all[..bytes.min(len)].to_vec().into(), len }
}

/// Asks with as many bytes as are wanted, from a few on.
fn grown(files: &[&Path], of: impl Fn(&[FileBeginning]) -> BegunCheckpoint) -> (Checkpoint, usize) {
    let mut have = vec![4; files.len()];
    for asked in 0..64 {
        let begun: Vec<_> = files.iter().zip(&have).map(|(file, bytes)| beginning(file, *bytes)).collect();
        match of(&begun) {
            BegunCheckpoint::Known(ck) => return (*ck, asked),
            BegunCheckpoint::Wants { file, bytes } => {
                assert!(bytes > have[file], "less than there is");
                have[file] = bytes.max(2 * have[file]);
            }
        }
    }
    panic!("it never had enough");
}

fn same(begun: &Checkpoint, opened: &Checkpoint) {
    assert_eq!((begun.kind, &begun.architecture), (opened.kind, &opened.architecture));
    assert_eq!(begun.config.tree(), opened.config.tree());
    let shapes = |ck: &Checkpoint| {
        ck.tensors
            .values()
            .map(|t| (t.name.clone(), t.dtype, t.shape.clone(), t.bytes.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shapes(begun), shapes(opened));
}

#[test]
fn a_gguf_file_is_known_by_its_header() {
    let path = packaged();
    let (begun, asked) = grown(&[&path], |files| Checkpoint::of_gguf_beginnings(files).unwrap());
    same(&begun, &Checkpoint::open(&path).unwrap());
    assert!(asked > 0 && begun.files.is_empty());
    let tensor = begun.tensors.values().last().unwrap();
    let error = tensor.bytes.read("x").unwrap_err().to_string();
    assert!(error.contains("its beginning alone is here"), "{error}");
}

#[test]
fn a_folder_is_known_by_its_configuration_and_the_headers_of_its_weights() {
    let models = Models::new();
    for folder in models.all().into_iter().take(4) {
        let config = fs::read_to_string(folder.join("config.json")).unwrap();
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
        files.sort();
        let files: Vec<&Path> = files.iter().map(|file| file.as_path()).collect();
        let (begun, _) = grown(&files, |files| Checkpoint::of_folder_beginnings(&config, files).unwrap());
        same(&begun, &Checkpoint::open(&folder).unwrap());
    }
}

#[test]
fn what_is_no_model_is_an_error_and_never_wants_more_than_there_is() {
    let path = packaged();
    let whole = fs::read(&path).unwrap();
    for (bytes, len) in [(b"PK\x03\x04....".to_vec(), 1000), (whole[..64].to_vec(), 64), (vec![], 0)] {
        let file = FileBeginning { path: path.clone(), bytes: bytes.into(), len };
        match Checkpoint::of_gguf_beginnings(&[file]) {
            Err(_) => {}
            Ok(BegunCheckpoint::Wants { bytes, .. }) => assert!(bytes <= len, "{bytes} of {len}"),
            Ok(BegunCheckpoint::Known(_)) => panic!("no model"),
        }
    }
    let huge = u64::MAX.to_le_bytes().to_vec();
    let file = FileBeginning { path: "model.safetensors".into(), bytes: huge.into(), len: 1 << 20 };
    assert!(Checkpoint::of_folder_beginnings("{\"model_type\": \"llama\"}", &[file]).is_err());
    assert!(Checkpoint::of_gguf_beginnings(&[]).is_err());
    assert!(Checkpoint::of_folder_beginnings("no json", &[]).is_err());
}

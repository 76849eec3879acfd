//! A file gets its name when it is whole, whatever waits under names beside it and whoever else writes.

use std::fs;
use std::path::Path;

use lamina_base::DType;
use lamina_store::gguf::{Gguf, Output, Writer};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn begin(path: &Path) -> Result<Output, lamina_store::FormatError> {
    let mut writer = Writer::new(path, "llama");
    writer.max_shard_tensors(1);
    writer.declare("a", DType::F32, &[4]).unwrap();
    writer.create()
}

fn complete(mut output: Output) -> Vec<std::path::PathBuf> {
    output.write("a", &[7; 16]).unwrap();
    output.finish().unwrap()
}

#[cfg(unix)]
#[test]
fn a_planted_link_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (out, precious) = (dir.path().join("o.gguf"), dir.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, dir.path().join("o.gguf.partial")).unwrap();
    std::os::unix::fs::symlink(&precious, &out).unwrap();
    complete(begin(&out).unwrap());
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&out).unwrap().is_file());
    assert_eq!(Gguf::open(&out).unwrap().tensors.len(), 1);
    assert_eq!(names(dir.path()), ["o.gguf", "o.gguf.partial", "precious"]);
}

#[test]
fn a_file_that_waits_under_the_temporary_name_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("o.gguf.partial"), "mine").unwrap();
    fs::write(dir.path().join("o.gguf.abcdef.partial"), "left by a killed process").unwrap();
    complete(begin(&dir.path().join("o.gguf")).unwrap());
    assert_eq!(fs::read(dir.path().join("o.gguf.partial")).unwrap(), b"mine");
    assert_eq!(names(dir.path()).len(), 3);
}

#[test]
fn of_two_writers_of_one_name_the_second_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.gguf");
    let first = begin(&path).unwrap();
    let message = begin(&path).unwrap_err().to_string();
    assert!(
        message.contains("another process is writing this file") && message.contains("o.gguf"),
        "{message}"
    );
    let other = begin(&dir.path().join("other.gguf")).unwrap();
    assert_eq!(complete(first), std::slice::from_ref(&path));
    drop(other);
    assert_eq!(names(dir.path()), ["o.gguf"]);
    complete(begin(&path).unwrap());
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.gguf");
    drop(begin(&path).unwrap());
    assert!(begin(&path).unwrap().finish().is_err());
    let mut writer = Writer::new(&path, "llama");
    writer.max_shard_tensors(1);
    writer.declare("a", DType::F32, &[4]).unwrap();
    writer.declare("b", DType::F32, &[4]).unwrap();
    let mut output = writer.create().unwrap();
    output.write("a", &[0; 16]).unwrap();
    assert_eq!(names(dir.path()).len(), 2);
    drop(output);
    assert_eq!(names(dir.path()), [""; 0]);
    assert!(begin(&dir.path().join("missing").join("o.gguf")).is_err());
}

/// A folder in the way of one shard: the others do not stay under their final names.
#[test]
fn shards_are_published_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(dir.path().join("o.gguf"), "llama");
    writer.max_shard_tensors(1);
    for name in ["a", "b", "c"] {
        writer.declare(name, DType::F32, &[4]).unwrap();
    }
    let mut output = writer.create().unwrap();
    let blocker = dir.path().join("o-00003-of-00003.gguf");
    fs::create_dir(&blocker).unwrap();
    ["a", "b", "c"].iter().for_each(|name| output.write(name, &[0; 16]).unwrap());
    assert!(output.finish().is_err());
    assert_eq!(names(dir.path()), ["o-00003-of-00003.gguf"]);
}

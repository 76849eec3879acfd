//! Programs in other languages, compiled and run against the library that this build made.
#![cfg(unix)]

use lamina_fixtures::packaged;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Nothing that a compiler has to say about the headers is passed over.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
/// What a program may take: a deadlock is a failure.
const SECONDS: &str = "300";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the library, which lies beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent().expect("a folder").to_owned()
}

/// True where there is such a tool; a machine without it says so.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: there is no {tool}");
    }
    found
}

fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {:?}\n{told}", out.status);
    out
}

/// Compiles a program, of the tests or by its path, against the library and runs it; what it printed.
fn program(compiler: &str, standard: &str, source: &str, arguments: &[&Path]) -> String {
    let made = tempfile::tempdir().expect("a folder");
    let program = made.path().join("program");
    let mut compile = Command::new(compiler);
    compile.arg(format!("-std={standard}")).args(STRICT).arg("-I").arg(folder().join("include"));
    compile.arg(folder().join("tests/programs").join(source)).arg("-o").arg(&program);
    compile.arg("-L").arg(library()).args(["-llamina_c", "-lpthread"]);
    compile.arg(format!("-Wl,-rpath,{}", library().display()));
    run(&mut compile);
    let out = run(Command::new("timeout").arg(SECONDS).arg(program).args(arguments));
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn a_program_in_c_uses_all_of_the_interface() {
    if has("cc") {
        let made = tempfile::tempdir().expect("a folder");
        let template = made.path().join("template.jinja");
        let text = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
        fs::write(&template, text).expect("a template");
        assert_eq!(program("cc", "c11", "interface.c", &[&packaged(), &template]), "ok\n");
    }
}

#[test]
fn a_program_in_cpp_uses_its_header() {
    if has("c++") {
        assert_eq!(program("c++", "c++17", "interface.cpp", &[&packaged()]), "ok\n");
    }
}

/// What a user reads first: each tells a story to its end.
#[test]
fn examples_tell_a_story() {
    let examples = folder().join("../../examples/ffi");
    let example = |path: &str| examples.join(path).display().to_string();
    let mut told = vec![];
    if has("cc") {
        told.push(program("cc", "c11", &example("c/stream.c"), &[&packaged()]));
    }
    if has("c++") {
        told.push(program("c++", "c++17", &example("cpp/stream.cpp"), &[&packaged()]));
    }
    if has("python3") {
        let mut python = Command::new("timeout");
        python.args([SECONDS, "python3"]).arg(example("python/stream.py"));
        let out = run(python.arg(library().join("liblamina_c.so")).arg(packaged()));
        told.push(String::from_utf8(out.stdout).expect("text"));
    }
    for story in told {
        assert!(story.len() > 60 && (story.contains("[length") || story.contains("[stop")), "{story}");
    }
}

#[test]
fn headers_have_no_warning_in_any_standard() {
    let made = tempfile::tempdir().expect("a folder");
    let standards = [("cc", "c11", "lamina.h"), ("cc", "c2x", "lamina.h"), ("c++", "c++17", "lamina.h")];
    for (compiler, standard, header) in standards.into_iter().chain([("c++", "c++17", "lamina.hpp")]) {
        let language = if compiler == "cc" { "c" } else { "cpp" };
        let source = made.path().join("header").with_extension(language);
        fs::write(&source, format!("#include \"{header}\"\n")).expect("a source");
        if has(compiler) {
            let mut compile = Command::new(compiler);
            compile.arg(format!("-std={standard}")).args(STRICT).arg("-I").arg(folder().join("include"));
            run(compile.args(["-fsyntax-only"]).arg(&source));
        }
    }
}

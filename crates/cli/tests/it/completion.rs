//! Completion in a real bash, and the manual's pages in a real `man`.
#![cfg(unix)]

use crate::common::{command, lamina};
use std::{fs, path::Path, process::Command};

/// What bash offers for a line whose cursor is at its end, in a shell that has read the script as users do.
fn offered(line: &str, home: &Path) -> Vec<String> {
    let bin = Path::new(env!("CARGO_BIN_EXE_lamina")).parent().unwrap();
    // Words as readline cuts them, so that the function sees what it sees behind a keyboard.
    let ask = r#"
        source <(lamina completions bash) || exit 9
        COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_TYPE=9
        COMP_WORDS=() word=
        for ((i = 0; i < ${#LINE}; i++)); do
            c=${LINE:i:1}
            case $c in
                ' ') [ -n "$word" ] && COMP_WORDS+=("$word"); word= ;;
                [:=]) [ -n "$word" ] && COMP_WORDS+=("$word"); COMP_WORDS+=("$c"); word= ;;
                *) word+=$c ;;
            esac
        done
        COMP_WORDS+=("$word"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        [[ $(complete -p lamina) =~ -F\ ([^ ]+) ]] || exit 8
        "${BASH_REMATCH[1]}" lamina "$word" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-c", ask]).current_dir(home).env("LINE", line).env("PATH", path);
    shell.env("HF_HUB_CACHE", home.join("hub")).env("HOME", home).env_remove("OLLAMA_MODELS");
    let out = shell.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A folder with a model's file, a folder, and a model in the hub's cache.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("model.gguf"), "").unwrap();
    fs::create_dir(home.path().join("models")).unwrap();
    let repo = home.path().join("hub/models--org--tiny");
    let commit = "0123456789abcdef0123456789abcdef01234567";
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::create_dir_all(repo.join("snapshots").join(commit)).unwrap();
    fs::write(repo.join("refs/main"), commit).unwrap();
    fs::write(repo.join("snapshots").join(commit).join("tiny-Q4_K_M.gguf"), "GGUF").unwrap();
    home
}

#[test]
fn bash_completes_commands_options_files_and_names() {
    let home = home();
    let offers = |line: &str| offered(line, home.path());
    assert_eq!(offers("lamina quan"), ["quantize"]);
    assert!(offers("lamina run --max-t").contains(&"--max-tokens".to_owned()));
    let found = offers("lamina run ");
    assert!(found.iter().any(|word| word.starts_with("model.gguf")), "{found:?}");
    assert!(found.contains(&"hf:org/tiny/tiny-Q4_K_M.gguf".to_owned()), "{found:?}");
    // What stands before a colon is on the line already.
    assert_eq!(offers("lamina run hf:org/t"), ["org/tiny/tiny-Q4_K_M.gguf"]);
    assert_eq!(offers("lamina rm hf:"), ["org/tiny/tiny-Q4_K_M.gguf"]);
    assert_eq!(offers("lamina run --draft=hf:o"), ["org/tiny/tiny-Q4_K_M.gguf"]);
    assert_eq!(offers("lamina completions po"), ["powershell"]);
}

/// Shells that are there read their scripts without a complaint.
#[test]
fn scripts_are_of_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    assert_eq!(lamina(&["completions", "--dir", dir]).ok(), "");
    let checks = [
        ("bash", "bash-completion/completions/lamina"),
        ("zsh", "zsh/site-functions/_lamina"),
        ("fish", "fish/vendor_completions.d/lamina.fish"),
    ];
    for (shell, file) in checks {
        let path = folder.path().join(file);
        assert!(fs::read_to_string(&path).unwrap().contains("LAMINA_COMPLETE"), "{shell}");
        match Command::new(shell).arg("-n").arg(&path).output() {
            Ok(out) => assert!(out.status.success() && out.stderr.is_empty(), "{shell}: {out:?}"),
            Err(_) => println!("SKIPPED: {shell} is not installed"),
        }
    }
    for shell in ["powershell", "elvish"] {
        assert!(lamina(&["completions", shell]).ok().contains("LAMINA_COMPLETE"), "{shell}");
    }
    assert!(lamina(&["completions", "tcsh"]).error(2).contains("tcsh"));
}

#[test]
fn the_manual_has_a_page_for_each_command_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(lamina(&["man", "--dir", folder.path().to_str().unwrap()]).ok(), "");
    let pages: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() > 20 && pages.iter().any(|page| page.ends_with("lamina-run.1")), "{pages:?}");
    assert!(lamina(&["man", "serve"]).ok().contains("lamina\\-serve"));
    assert!(lamina(&["man", "sreve"]).error(2).contains("sreve"));
    for page in &pages {
        let mut man = Command::new("man");
        man.args(["-l", "--warnings=w"]).arg(page).env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8");
        match man.output() {
            Ok(out) => assert!(out.status.success() && out.stderr.is_empty(), "{}: {out:?}", page.display()),
            Err(_) => return println!("SKIPPED: man is not installed"),
        }
    }
}

/// Whoever has the variable in the environment of another program is not completed: the shell's words are missing.
#[test]
fn a_shell_without_a_script_is_an_error() {
    let out = command(&["--", "lamina", "ru"]).env("LAMINA_COMPLETE", "tcsh").output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{out:?}");
}

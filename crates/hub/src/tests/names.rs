//! Which texts are names, and which files they choose.

use crate::{ModelName, RepoFile, RepoPart, choice::encoder_beside, choose, is_inner_path};

#[test]
fn names_are_read_and_written_alike() {
    for text in [
        "hf:org/repo",
        "hf:alone",
        "hf:org/repo:Q4_K_M",
        "hf:org/repo:IQ3_S-imat@v1",
        "hf:org/repo/path/file.gguf@refs/pr/1",
        "ollama:large3.2",
        "ollama:me/large3.2:1b",
        "ollama:localhost:5000/me/x:1b",
        "lmstudio:org/repo/file.gguf",
        "https://example.org/model.gguf",
    ] {
        assert_eq!(ModelName::parse(text).unwrap().unwrap().to_string(), text);
    }
    for (page, name) in [
        ("https://huggingface.co/org/repo", "hf:org/repo"),
        ("https://hf.co/org/repo/tree/main", "hf:org/repo@main"),
        ("https://huggingface.co/org/repo/blob/main/a/b.gguf?download=true", "hf:org/repo/a/b.gguf@main"),
        ("hf:org/repo:latest", "hf:org/repo"),
        ("hf://org/repo", "hf:org/repo"),
    ] {
        assert_eq!(ModelName::parse(page).unwrap().unwrap().to_string(), name);
    }
}

#[test]
fn paths_are_no_names_and_wrong_names_are_told() {
    for path in ["model.gguf", "org/repo", "./hf:x", "C:\\models\\a.gguf", "/a/b", "", "ö"] {
        assert_eq!(ModelName::parse(path).unwrap(), None, "{path}");
    }
    for wrong in [
        "hf:",
        "hf:org/",
        "hf:../x",
        "hf:org/re po",
        "hf:org/repo:",
        "hf:org/repo:Q4/x",
        "hf:org/repo/../../x",
        "hf:org/repo//x",
        "hf:org/repo@",
        "hf:org/repo@../x",
        "hf:org/re--po",
        "ollama:",
        "ollama:../x",
        "ollama:a/b/c/d",
        "lmstudio:x/../y",
        "https://huggingface.co/datasets",
        "https://huggingface.co/org/repo/blob/main/../../x",
    ] {
        assert!(ModelName::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_looks_like_a_repository_is_asked_back() {
    for (text, meant) in [("org/repo", Some("hf:org/repo")), ("org/repo:Q8_0", Some("hf:org/repo:Q8_0"))] {
        assert_eq!(ModelName::meant(text).map(|n| n.to_string()).as_deref(), meant);
    }
    for path in ["model", "a/b/c", "../x", "./x/y", "/x/y", "a/b c"] {
        assert_eq!(ModelName::meant(path), None, "{path}");
    }
}

#[test]
fn ways_out_of_a_folder_are_no_inner_paths() {
    for wrong in ["", "..", "a/..", "/a", "a//b", "a\\b", "c:x", "a\0", "a/./b", "a./b", "a\n"] {
        assert!(!is_inner_path(wrong), "{wrong:?}");
    }
    assert!(["a", "a/b c/你好.gguf", "..a"].into_iter().all(is_inner_path));
}

fn files(names: &[&str]) -> Vec<RepoFile> {
    names.iter().map(|path| RepoFile { path: (*path).into(), size: Some(10) }).collect()
}

fn chosen(names: &[&str], part: &RepoPart) -> Result<String, (String, Vec<String>)> {
    choose(&files(names), part).map(|choice| choice.files[0].path.clone())
}

#[test]
fn the_usual_type_is_taken_or_else_the_nearest() {
    for (names, expected) in [
        (&["m.Q8_0.gguf", "m.Q4_K_M.gguf", "m.Q4_K_S.gguf", "mmproj-m.gguf"][..], "m.Q4_K_M.gguf"),
        (&["only.gguf", "only.imatrix.gguf", "README.md"], "only.gguf"),
        (&["m-Q8_0.gguf", "m-Q5_K_M.gguf", "m-Q2_K.gguf"], "m-Q5_K_M.gguf"),
        (&["m-f16.gguf", "m-IQ4_XS.gguf", "m-Q8_0.gguf"], "m-IQ4_XS.gguf"),
        (&["m-UD-Q4_K_XL.gguf", "m-Q6_K.gguf"], "m-UD-Q4_K_XL.gguf"),
    ] {
        assert_eq!(chosen(names, &RepoPart::Default).unwrap(), expected, "{names:?}");
    }
}

#[test]
fn an_encoder_is_that_of_the_models_folder_and_of_the_usual_type() {
    let beside = |names: &[&str], model: &str| encoder_beside(&files(names), model).map(|f| f.path.clone());
    let names = [
        "m-Q4_0.gguf",
        "mmproj-m-BF16.gguf",
        "mmproj-m-F16.gguf",
        "mmproj-m-f32.gguf",
        "q8/m.gguf",
        "q8/x.mmproj.gguf",
    ];
    assert_eq!(beside(&names, "m-Q4_0.gguf").unwrap(), "mmproj-m-F16.gguf");
    assert_eq!(beside(&names, "q8/m.gguf").unwrap(), "q8/x.mmproj.gguf");
    assert_eq!(beside(&names, "other/m.gguf").unwrap(), "mmproj-m-F16.gguf", "that of the top");
    assert_eq!(beside(&["m.gguf", "mmproj.gguf", "mmproj-Q8_0.gguf"], "m.gguf").unwrap(), "mmproj-Q8_0.gguf");
    assert_eq!(beside(&["m.gguf", "mmproj.txt"], "m.gguf"), None);
}

#[test]
fn tags_are_ends_of_names_case_apart() {
    let names = [
        "m-Q4_K_M.gguf",
        "m-IQ3_S-imat.gguf",
        "d/m-Q8_0-00002-of-00002.gguf",
        "d/m-Q8_0-00001-of-00002.gguf",
    ];
    let tag = |tag: &str| chosen(&names, &RepoPart::Tag(tag.into()));
    assert_eq!(tag("q4_k_m").unwrap(), names[0]);
    assert_eq!(tag("IQ3_S-imat").unwrap(), names[1]);
    assert_eq!(tag("Q8_0").unwrap(), names[3]);
    let (problem, list) = tag("Q2_K").unwrap_err();
    assert!(problem.contains("Q2_K") && list.len() == 3, "{problem} {list:?}");
    assert!(tag("4_K_M").is_err() || tag("4_K_M").is_ok_and(|f| f == names[0]));
    let twice = ["a-Q4_0.gguf", "b-Q4_0.gguf"];
    let (problem, list) = chosen(&twice, &RepoPart::Tag("Q4_0".into())).unwrap_err();
    assert!(problem.contains("several") && list.len() == 2);
}

#[test]
fn repositories_without_models_are_told() {
    let (problem, _) = chosen(&["pytorch_model.bin", "config.json"], &RepoPart::Default).unwrap_err();
    assert!(problem.contains("neither GGUF files nor safetensors"), "{problem}");
    assert!(chosen(&[], &RepoPart::Default).is_err());
    assert!(chosen(&["a.gguf"], &RepoPart::File("b.gguf".into())).is_err());
}

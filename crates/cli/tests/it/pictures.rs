//! Pictures on the command line.

use crate::common::*;
use serde_json::json;
use std::fs;

const MARKER: &str = "<|image_pad|>";

/// A model that sees, and a picture.
fn seeing() -> Option<(String, String)> {
    Some((shared("golden-vision/qwen2-vl")?, shared("golden-vision/images/wide.png")?))
}

#[test]
fn a_prompt_sees_files_and_stdin() {
    let Some((model, wide)) = seeing() else { return };
    let tall = shared("golden-vision/images/tall.png").unwrap();
    let greedy = ["--temp", "0", "-n", "6", "--ignore-eos", "--json"];
    let run = |images: &[&str], prompt: &str| {
        let shown: Vec<&str> = images.iter().flat_map(|file| ["--image", file]).collect();
        [&["run", &model], &shown[..], &[prompt], &greedy[..]]
            .concat()
            .iter()
            .map(|s| (*s).to_owned())
            .collect::<Vec<_>>()
    };
    let one = lamina(&run(&[&wide], &format!("{MARKER} What?"))).json();
    assert_eq!(one["images"][0]["size"], json!([96, 64]));
    assert_eq!(one["usage"]["image_tokens"], one["images"][0]["tokens"]);
    assert!(one["timings"]["encode_s"].as_f64().unwrap() > 0.0);
    let piped = lamina_with(&run(&["-"], &format!("{MARKER} What?")), fs::read(&wide).unwrap()).json();
    assert_eq!(piped["choices"][0]["tokens"], one["choices"][0]["tokens"]);
    let first = lamina(&run(&[&wide], " What?")).json();
    assert_eq!(first["choices"][0]["tokens"], one["choices"][0]["tokens"], "without a marker it goes first");
    let both = lamina(&run(&[&wide, &tall], "What?")).json();
    assert_eq!(both["images"].as_array().unwrap().len(), 2);
    let many = lamina(&run(&[&wide], &MARKER.repeat(2))).error(1);
    assert!(many.contains("2 places"), "{many}");
    let small =
        lamina(&[run(&[&wide], MARKER), vec!["--image-max-tokens".into(), "4".into()]].concat()).json();
    assert!(small["usage"]["image_tokens"].as_u64().unwrap() <= 4);
}

#[test]
fn what_is_no_picture_for_the_model_is_one_clear_error() {
    let Some((model, wide)) = seeing() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.png");
    fs::write(&cut, &fs::read(&wide).unwrap()[..200]).unwrap();
    let heic = shared("golden-vision/hostile/picture.heic").unwrap();
    let bomb = shared("golden-vision/hostile/bomb-bits.png").unwrap();
    let said = |model: &str, file: &str| lamina(&["run", model, "--image", file, "What?"]).error(1);
    for (file, word) in [
        (cut.to_str().unwrap(), "damaged"),
        (&heic, "HEIC"),
        (&bomb, "allowed"),
        ("no-such.png", "cannot be read"),
    ] {
        let error = said(&model, file);
        assert!(error.contains(word) && error.contains(file), "{error}");
    }
    let blind = said(&packaged(), &wide);
    assert!(blind.contains("this model takes text only") && blind.contains("mmproj"), "{blind}");
    let off = lamina(&["run", &model, "--mmproj", "off", "--image", &wide, "What?"]).error(1);
    assert!(off.contains("takes text only"), "{off}");
    let other = shared("golden-vision/mmproj/qwen2-vl.gguf").unwrap();
    let other = lamina(&["run", &packaged(), "--mmproj", &other, "What?"]).error(1);
    assert!(other.contains("mmproj of another model"), "{other}");
    let twice = lamina(&["run", &model, "--image", "-"]).error(2);
    assert!(twice.contains("stdin holds a picture"), "{twice}");
}

#[test]
fn a_conversation_shows_pictures() {
    let Some((model, wide)) = seeing() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dropped = dir.path().join("a dropped picture.png");
    fs::copy(&wide, &dropped).unwrap();
    let saved = dir.path().join("chat.json");
    let (show, drop) = (format!("/image {wide}"), format!("'{}'", dropped.display()));
    let save = format!("/save {}", saved.display());
    let lines = ["/images", &show, "/images", "What is it?", &drop, "And this?", "/images", "/tokens", &save];
    let done = lamina_with(&["chat", &model, "--temp", "0", "-n", "4"], lines.join("\n"));
    let out = done.ok();
    assert!(out.contains("there are no pictures"), "{out}");
    assert!(out.contains("with the next message"), "{out}");
    assert_eq!(out.matches("seen").count(), 2, "{out}");
    let written = fs::read_to_string(&saved).unwrap();
    assert!(written.contains("a dropped picture.png") && written.contains("What is it?"), "{written}");
    let again = [format!("/load {}", saved.display()), "/retry".into()].join("\n");
    lamina_with(&["chat", &model, "--temp", "0", "-n", "4"], again).ok();
    let session = dir.path().join("session");
    let session = session.to_str().unwrap();
    let kept = ["chat", &model, "--temp", "0", "-n", "4", "--session", session];
    lamina_with(&kept, [&show, "What is it?"].join("\n")).ok();
    let on = lamina_with(&kept, "/images\nAnd now?");
    assert!(on.ok().contains("seen"), "its pictures are read again");
    let refused = lamina_with(&["chat", &model], "/image no-such.png\n");
    assert!(refused.err.contains("no-such.png: no-such.png cannot be read"), "{}", refused.err);
}

#[test]
fn plans_benches_and_inspections_tell_what_pictures_take() {
    let Some((model, wide)) = seeing() else { return };
    let plan = lamina(&["plan", &model, "--image", "96x64", "--json"]).json();
    let seen = &plan["pictures"];
    assert_eq!(seen["picture"]["size"], json!([96, 64]));
    let tokens = seen["picture"]["tokens"].as_u64().unwrap();
    assert_eq!(seen["picture"]["row_bytes"], json!(tokens * 64 * 4));
    assert!(seen["weight_bytes"].as_u64().unwrap() > 0 && seen["working_bytes"].as_u64().unwrap() > 0);
    assert_eq!(plan["memory"]["parts"]["picture_encoder"], seen["weight_bytes"]);
    let large = lamina(&["plan", &model, "--image", "960x640", "--json"]).json();
    assert!(large["pictures"]["picture"]["tokens"].as_u64() >= Some(tokens), "{large}");
    assert!(lamina(&["plan", &model, "--image", "96x64"]).ok().contains(&format!("{tokens} tokens")));
    let off = lamina(&["plan", &model, "--mmproj", "off", "--json"]).json();
    assert!(off["pictures"].is_null() && off["memory"]["parts"]["picture_encoder"].is_null());
    assert!(lamina(&["plan", &packaged(), "--image", "9x9"]).error(1).contains("text only"));
    lamina(&["plan", &model, "--image", "9"]).error(2);

    let bench = lamina(&["bench", &model, "--image", &wide, "--repeat", "2", "--json"]).json();
    for part in ["decode_s", "resize_s", "encode_s", "prefill_s", "ttft_s", "ttft_cached_s"] {
        assert_eq!(bench[part].as_array().unwrap().len(), 2, "{part}");
    }
    assert_eq!(bench["tokens"], json!(tokens));
    let noise = lamina(&["bench", &model, "--image", "80x60", "--repeat", "1"]).ok();
    assert!(noise.contains("encode") && !noise.contains("decode"), "{noise}");

    let mmproj = shared("golden-vision/mmproj/qwen2-vl.gguf").unwrap();
    for file in [&mmproj, &model] {
        let vision = &lamina(&["inspect", file, "--json"]).json()["vision"];
        assert_eq!((&vision["family"], &vision["marker"]), (&json!("qwen2_vl"), &json!(MARKER)), "{file}");
    }
    assert!(lamina(&["inspect", &mmproj]).ok().contains("qwen2_vl encoder"));
}

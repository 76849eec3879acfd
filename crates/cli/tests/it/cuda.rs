//! The command with `--device cuda`, over a driver of our own that runs kernels on the emulator.

use crate::common::*;
use lamina_fixtures::extent;
use serde_json::json;

const PROMPT: &str = "Once upon a time";

/// The command with a driver's folder in front of the libraries' path, and the driver's settings.
fn with_driver(args: &[&str], libraries: &str, settings: &str) -> Done {
    let cache = tempfile::tempdir().unwrap();
    let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/kernels");
    let mut command = command(args);
    command.env("LD_LIBRARY_PATH", libraries).env("FAKE_CUDA", settings).env("LAMINA_KERNELS", kernels);
    Done::of(command.env("LAMINA_CACHE", cache.path()).output().unwrap())
}

fn on_cuda(args: &[&str], settings: &str) -> Done {
    with_driver(args, lamina_emu::FAKE_CUDA, settings)
}

fn story<'a>(model: &'a str, device: &'a str) -> Vec<&'a str> {
    vec!["run", model, PROMPT, "-n", "16", "--temp", "0", "--context", "64", "--device", device]
}

#[test]
fn the_text_is_that_of_the_cpu() {
    let model = packaged();
    let want = lamina(&story(&model, "cpu")).ok();
    for device in extent::some(["cuda", "cuda:0", "auto"], 0, 3) {
        let done = on_cuda(&story(&model, device), "");
        assert_eq!((done.err.contains("CPU"), done.ok()), (false, want.clone()), "{device}");
    }
    let second = on_cuda(&story(&model, "cuda:1"), "devices=2").ok();
    assert_eq!(second, want);
}

#[test]
fn what_cannot_be_used_is_one_line_and_the_cpu() {
    let model = packaged();
    let want = lamina(&story(&model, "cpu")).ok();
    let line = "cuda: the driver knows CUDA 11.7, needed is 12.0: install driver 525 or newer";
    let old = on_cuda(&story(&model, "cuda"), "version=11070").error(1);
    assert_eq!(old, format!("error: {line}"));
    let fallback = on_cuda(&story(&model, "auto"), "version=11070");
    let lines = fallback
        .err
        .lines()
        .filter_map(|l| l.strip_prefix("lamina: "))
        .filter(|l| l.starts_with("cuda: "))
        .collect::<Vec<_>>();
    assert_eq!(lines, [format!("{line}: running on the CPU")]);
    assert_eq!(fallback.ok(), want);
    // A machine without such a device is told nothing about it.
    let none = on_cuda(&story(&model, "auto"), "devices=0");
    assert_eq!((none.err.contains("cuda"), none.ok()), (false, want.clone()));
    // Nor is a driver looked at that nobody asked for: this one cannot be used.
    let cpu = with_driver(&story(&model, "cpu"), lamina_emu::OLD_CUDA, "");
    assert_eq!((cpu.err.contains("cuda"), cpu.ok()), (false, want));
}

#[test]
fn a_model_that_a_gpu_cannot_hold_runs_on_the_cpu() {
    let model = packaged();
    let want = lamina(&story(&model, "cpu")).ok();
    // Graphs take 64 MiB of it.
    let small = "memory=69000000";
    let named = on_cuda(&story(&model, "cuda"), small);
    // Of a device that is named, what fits is used.
    assert!(named.err.contains("of weights are on cuda:0"), "{named:#?}");
    assert_eq!(named.ok(), want);
    let nothing: Vec<&str> = story(&model, "cuda").into_iter().chain(["--device-memory", "1000"]).collect();
    let refused = on_cuda(&nothing, "").error(1);
    assert!(refused.contains("cuda:0 has 1.0 kB"), "{refused}");
    let fallback = on_cuda(&story(&model, "auto"), small);
    let lines: Vec<_> = fallback
        .err
        .lines()
        .filter_map(|l| l.strip_prefix("lamina: "))
        .filter(|l| l.starts_with("cuda: "))
        .collect();
    assert!(lines.len() == 1 && lines[0].ends_with(": running on the CPU"), "{lines:?}");
    assert_eq!(fallback.ok(), want);
    // Memory that another program took in the meantime is found missing on the way.
    let late = on_cuda(&story(&model, "auto"), "cuMemAlloc_v2=2@122");
    assert!(late.err.contains(": running on the CPU"), "{late:#?}");
    assert_eq!(late.ok(), want);
}

/// What a GPU that is named does not hold is computed on the CPU, and the text is the same.
#[test]
fn a_model_is_divided_between_a_gpu_and_the_cpu() {
    let model = packaged();
    let want = lamina(&story(&model, "cpu")).ok();
    let divisions = [
        &["-ngl", "1"][..],
        &["-ngl", "2", "--place", "kv=ram"],
        &["--place", "ffn=ram"],
        &["--place", "ffn=up", "--place", "attention 0=ram"],
        &["--percent", "50 50 100 0 0 100"],
    ];
    for more in extent::some(divisions, 0, 5) {
        let args: Vec<&str> = story(&model, "cuda").into_iter().chain(more.iter().copied()).collect();
        let done = on_cuda(&args, "");
        assert!(done.err.contains("of weights are on cuda:0"), "{more:?}: {done:#?}");
        assert_eq!(done.ok(), want, "{more:?}");
        let args: Vec<&str> =
            ["plan", &model, "--device", "cuda", "--json"].iter().chain(more).copied().collect();
        let told = on_cuda(&args, "").json();
        assert_eq!((&told["fits"], &told["device"]["name"]), (&true.into(), &"cuda:0".into()), "{told}");
        assert!(told["placement"]["attention"]["device"].as_u64().unwrap() > 0, "{told}");
    }
    // A device that holds the model and is told nothing computes all of it; without a device the number is of no use.
    let whole = on_cuda(&story(&model, "cuda"), "");
    assert!(!whole.err.contains("of weights are on"), "{whole:#?}");
    let cpu: Vec<&str> = story(&model, "cpu").into_iter().chain(["-ngl", "99"]).collect();
    assert_eq!(lamina(&cpu).ok(), want);
    let asks: Vec<&str> = story(&model, "cpu").into_iter().chain(["--place", "ffn=device"]).collect();
    let refused = lamina(&asks).error(1);
    assert!(refused.contains("asks for a device"), "{refused}");
}

/// A device that is lost while the host computes too is an error, and the process ends as it should.
#[test]
fn a_device_lost_beside_the_host_is_an_error() {
    let model = packaged();
    let args: Vec<&str> = story(&model, "cuda").into_iter().chain(["-ngl", "1"]).collect();
    let done = on_cuda(&args, "cuGraphLaunch=719@15");
    let said = done.err.lines().any(|l| l.starts_with("error: ") && l.contains("the device is lost"));
    assert!(done.code == Some(1) && said, "{done:#?}");
}

#[test]
fn auto_takes_the_first_gpu_that_can_be_used_and_holds_the_model() {
    let model = packaged();
    let want = lamina(&story(&model, "cpu")).ok();
    let old = "Fake GPU 0 has compute capability 7.0, needed is 7.5 or newer";
    let small = "the weights take";
    let machines = [
        ("devices=2,capability.0=70", vec![("cuda:0", old, "cuda:1")]),
        ("devices=2,memory.0=69000000", vec![("cuda:0", small, "cuda:1")]),
        (
            "devices=3,capability.0=70,memory.1=69000000",
            vec![("cuda:0", old, "cuda:2"), ("cuda:1", small, "cuda:2")],
        ),
        (
            "devices=2,capability.0=70,memory.1=69000000",
            vec![("cuda:0", old, "the CPU"), ("cuda:1", small, "the CPU")],
        ),
        ("devices=2", vec![]),
    ];
    for (settings, said) in extent::some(machines, 0, 5) {
        let done = on_cuda(&story(&model, "auto"), settings);
        let lines: Vec<_> = done
            .err
            .lines()
            .filter_map(|l| l.strip_prefix("lamina: "))
            .filter(|l| l.starts_with("cuda"))
            .collect();
        assert_eq!(lines.len(), said.len(), "{settings}: {lines:?}");
        for (line, (device, why, instead)) in lines.iter().zip(said) {
            let whole = line.starts_with(&format!("{device}: "))
                && line.ends_with(&format!(": running on {instead}"));
            assert!(whole && line.contains(why) && !line.contains("cuda: "), "{settings}: {line}");
        }
        assert_eq!(done.ok(), want, "{settings}");
        let done = on_cuda(&["plan", &model, "--device", "auto", "--json"], settings);
        assert_eq!(done.json()["fits"], true, "{settings}");
    }
}

#[test]
fn a_forecast_is_that_of_the_device_that_would_run() {
    let model = packaged();
    let machines = [
        ("cuda", "", false),
        ("auto", "", false),
        ("auto", "memory=69000000", true),
        ("cpu", "version=1", false),
    ];
    for (device, settings, said) in extent::some(machines, 0, 2) {
        let done = on_cuda(&["plan", &model, "--device", device, "--json"], settings);
        assert_eq!(done.err.contains("running on the CPU"), said, "{done:#?}");
        assert_eq!(done.json()["fits"], true, "{device} {settings}");
    }
}

#[test]
fn a_device_lost_on_the_way_is_an_error() {
    let model = packaged();
    // While weights are loaded, and in the middle of an answer; the self-test takes 57 copies and 19 recordings.
    for function in ["cuMemcpyHtoDAsync_v2=700@62", "cuGraphLaunch=719@24"] {
        let done = on_cuda(&story(&model, "cuda"), function);
        let said = done.err.lines().any(|l| l.starts_with("error: ") && l.contains("the device is lost"));
        assert!(done.code == Some(1) && said, "{function}: {done:#?}");
    }
}

#[test]
fn doctor_examines_a_device() {
    let args = ["doctor", "--device", "cuda", "--json"];
    let v = on_cuda(&args, "").json();
    assert_eq!((&v["device"], &v["kernels"]), (&"cuda:0".into(), &"sm_90".into()), "{v}");
    assert!(v["kernels_compared"].as_u64().unwrap() > 50 && v["passed"] == true, "{v}");
    assert_eq!(
        (&v["kernel_bits"], &v["kernels_that_differ"]),
        (&"bits as expected".into(), &json!([])),
        "{v}"
    );
    assert_eq!((&v["verdict"], &v["kernels_not_compared"]), (&"cuda:0: bits as expected".into(), &json!([])));
    // Of kernels, those that plans launch are loaded; those that are only compared are not.
    let v = on_cuda(&args, "cuModuleLoadData=222@1").json();
    let verdict = v["verdict"].as_str().unwrap();
    let said =
        " kernels were not compared, product_each_bf16 to product_many_q8_0, which no model runs here: ";
    assert!(verdict.starts_with("cuda:0: bits as expected; ") && verdict.contains(said), "{verdict}");
    assert!(
        verdict.ends_with("loading the kernels failed: the fake driver says 222 (CUDA_ERROR_222)"),
        "{v}"
    );
    let left_out: Vec<_> = v["kernels_not_compared"].as_array().unwrap().iter().map(|n| n.as_str()).collect();
    assert!(left_out.contains(&Some("product_few_q4_k")) && !left_out.contains(&Some("product_few_q2_k")));
    assert_eq!(v["passed"], true, "{v}");
    // Behind the self-test, copies are left undone: no kernel gets its operands.
    let wrong = on_cuda(&args, "cuMemcpyHtoDAsync_v2=-1@60");
    assert!(wrong.code == Some(1) && wrong.err.contains("cuda:0: other bits of "), "{wrong:#?}");
    assert!(wrong.out.contains("\"product_many_q2_k\""), "{wrong:#?}");
    let missing = on_cuda(&["doctor", "--device", "cuda"], "devices=0").error(1);
    assert!(missing.contains("cuda: there is no device 0"), "{missing}");
    // Who reads JSON gets it in any case.
    let missing = on_cuda(&args, "devices=0");
    let told: serde_json::Value = serde_json::from_str(&missing.out).expect("an object");
    let why = told["error"].as_str().expect("a text");
    assert!(missing.code == Some(1) && why.contains("cuda: there is no device 0"), "{missing:#?}");
}

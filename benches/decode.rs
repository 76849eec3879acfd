//! Speed of a model: prefill and decode by depth and batch, with the share of time per operator.
//!
//! `cargo bench --bench decode -- [MODEL] [--prompt 512] [--gen 64] [--depth 0,4096] [--batch 1,8] [--kv f16] [--threads 2]
//! [--repeat 3] [--smoke]`. Without a model the one inside the package runs. It is `lamina bench` without an installation.

use lamina::LoadOptions;
use lamina_fixtures::CommandLine;
use lamina_tools::bench::{BenchOptions, run};

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let [prompt, generated, repeat] = if smoke { ["16", "4", "1"] } else { ["512", "64", "3"] };
    let options = BenchOptions {
        prompt: args.numbers("--prompt", prompt),
        gen_tokens: args.numbers("--gen", generated),
        depth: args.numbers("--depth", "0"),
        batch: args.numbers("--batch", "1"),
        repeat: args.numbers("--repeat", repeat)[0],
        throughput: false,
        profile: true,
        text: None,
    };
    let load = LoadOptions {
        threads: args.number("--threads"),
        kv_dtype: args.value("--kv").unwrap_or("f16").parse().expect("a cache type"),
        ..LoadOptions::default()
    };
    let result = run(args.model().as_deref(), &load, &options, &mut |what| eprintln!("{what}"));
    println!("{:#}", result.expect("the model runs").json());
}

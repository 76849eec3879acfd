//! The law of the house on the trained model inside the package: a request's bits depend on nothing but the request.

use crate::common::answers::{Bits, top_bits};
use lamina::{Completion, GenerateOptions, KvType, LoadOptions, Model, Prompt, TokenStream};
use lamina_base::DType;
use lamina_fixtures::packaged;

/// Weight types of every kernel class; the model's rows of 256 columns hold all of them. None: as the file has them, in Q8_0.
const TYPES: &[Option<DType>] = &[
    None,
    Some(DType::F16),
    Some(DType::Q8_0),
    Some(DType::Q4_0),
    Some(DType::Q4_K),
    Some(DType::Q6_K),
    Some(DType::IQ4_XS),
];

fn options(dtype: Option<DType>) -> LoadOptions {
    LoadOptions { dtype, threads: Some(1), context: Some(512), ..LoadOptions::default() }
}

fn load(options: LoadOptions) -> Model {
    Model::load(Some(&packaged()), options).expect("loads")
}

fn asked(seed: i64) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(24), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("seed", seed).expect("known");
    o.sampling.set("logprobs", 3i64).expect("known");
    o
}

fn prompt(i: usize) -> Prompt {
    let long = "Once upon a time there was a little girl who liked to play in the park with her dog. "
        .repeat(1 + i % 3 * 3);
    Prompt::Text(format!("{long}One day, number {i}, she"))
}

fn alone(model: &Model, i: usize) -> Vec<Bits> {
    top_bits(&model.generate(&prompt(i), &asked(i as i64)).expect("runs")[0])
}

#[test]
fn company_threads_pieces_and_cache_change_no_bit() {
    for &dtype in TYPES {
        let plain = load(LoadOptions { reuse_prefixes: false, ..options(dtype) });
        let want: Vec<_> = (0..8).map(|i| alone(&plain, i)).collect();
        let others = [
            ("2 threads", LoadOptions { threads: Some(2), ..options(dtype) }),
            ("3 threads", LoadOptions { threads: Some(3), ..options(dtype) }),
            ("pieces of 1", LoadOptions { batch_rows: Some(1), ..options(dtype) }),
            ("pieces of 7", LoadOptions { batch_rows: Some(7), ..options(dtype) }),
            ("pieces of 64", LoadOptions { batch_rows: Some(64), ..options(dtype) }),
        ];
        for (name, o) in others {
            let model = load(o);
            // Twice: the second time every beginning is found in the cache.
            for round in 0..2 {
                assert_eq!(alone(&model, 5), want[5], "{dtype:?}, {name}, round {round}");
            }
        }
        let streams: Vec<TokenStream> =
            (0..8).map(|i| plain.stream(&prompt(i), &asked(i as i64)).expect("starts")).collect();
        for (stream, want) in streams.into_iter().zip(&want) {
            let mut got = Completion::empty();
            stream.for_each(|piece| got.push(piece.expect("runs")));
            assert_eq!(top_bits(&got), *want, "{dtype:?} among eight");
        }
    }
}

#[test]
fn rows_of_a_pass_are_the_rows_of_a_generation() {
    for kv_type in KvType::ALL.iter().map(|t| t.1) {
        let big = load(LoadOptions { kv_dtype: kv_type.into(), ..options(Some(DType::Q4_K)) });
        let small = load(LoadOptions {
            kv_dtype: kv_type.into(),
            batch_rows: Some(5),
            threads: Some(2),
            ..options(Some(DType::Q4_K))
        });
        let tokens = big.prompt_tokens(&prompt(2)).expect("tokens");
        let bits =
            |m: &Model| m.logits(&tokens).expect("runs").iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(bits(&big) == bits(&small), "{kv_type:?}");
    }
}

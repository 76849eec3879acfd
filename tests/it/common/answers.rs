//! Answers of a model to prompts of tokens, as bits; and the same where requests compete for a small cache.

use crate::common::rests;
use lamina::{Completion, GenerateOptions, KvSwap, LoadOptions, Model, Prompt, SwapChoice, TokenStream};
use std::path::Path;

/// The first answer.
pub fn answer(model: &Model, tokens: &[u32], o: &GenerateOptions) -> Completion {
    model.generate(&Prompt::Tokens(tokens.to_vec()), o).expect("runs").remove(0)
}

/// Tokens with the bits of their logprobs.
pub fn bits(c: &Completion) -> Vec<(u32, u32)> {
    c.tokens.iter().zip(&c.logprobs).map(|(t, (l, _))| (*t, l.to_bits())).collect()
}

/// A token, and the bits of its logprob and of those beside it.
pub type Bits = (u32, u32, Vec<u32>);

/// Tokens with the bits of their logprobs and of those beside them.
pub fn top_bits(c: &Completion) -> Vec<Bits> {
    let chosen = c.tokens.iter().zip(&c.logprobs);
    chosen.map(|(t, (l, top))| (*t, l.to_bits(), top.iter().map(|p| p.1.to_bits()).collect())).collect()
}

/// All answers to requests that are started together, each as tokens with the bits of their logprobs.
pub fn together(model: &Model, asked: &[(Prompt, GenerateOptions)]) -> Vec<Vec<Vec<Bits>>> {
    let start = |(prompt, o): &(Prompt, GenerateOptions)| model.stream(prompt, o).expect("starts");
    let streams: Vec<TokenStream> = asked.iter().map(start).collect();
    let collect = |(stream, (_, o)): (TokenStream, &(Prompt, GenerateOptions))| {
        let mut answers = vec![Completion::empty(); o.n];
        for piece in stream {
            let piece = piece.expect("runs");
            answers[piece.index].push(piece);
        }
        answers.iter().map(top_bits).collect()
    };
    streams.into_iter().zip(asked).map(collect).collect()
}

/// Two answers to each of `prompts` at once, in a cache that holds a few of them: those that lose their memory are computed
/// again, with and without shared beginnings, or go on from what was swapped. Each must be what it is alone.
pub fn assert_company_changes_nothing(
    path: &Path,
    options: &LoadOptions,
    (prompts, o): (&[Vec<u32>], &GenerateOptions),
    kv_memory: Option<u64>,
) {
    let load = |options| Model::load(Some(path), options).expect("loads");
    let model = load(options.clone());
    let want: Vec<_> = prompts.iter().map(|prompt| bits(&answer(&model, prompt, o))).collect();
    let swapped = KvSwap { choice: SwapChoice::Always, .."ram:64MiB".parse().expect("a size") };
    for (reuse_prefixes, kv_swap) in [(false, KvSwap::default()), (true, KvSwap::default()), (true, swapped)]
    {
        let small = load(LoadOptions { reuse_prefixes, kv_swap, kv_memory, ..options.clone() });
        let start = |prompt: &Vec<u32>| {
            let two = GenerateOptions { n: 2, ..o.clone() };
            small.stream(&Prompt::Tokens(prompt.clone()), &two).expect("starts")
        };
        let streams: Vec<TokenStream> = prompts.iter().map(start).collect();
        let mut preempted = 0;
        for (i, stream) in streams.into_iter().enumerate() {
            let mut both = [Completion::empty(), Completion::empty()];
            stream.map(|piece| piece.expect("runs")).for_each(|piece| both[piece.index].push(piece));
            preempted += both.iter().map(|c| c.timings.preemptions).sum::<u32>();
            both.iter().for_each(|c| assert_eq!(bits(c), want[i], "{i}"));
        }
        assert!(preempted > 0, "the cache was not too small");
        assert!(rests(&small));
    }
}

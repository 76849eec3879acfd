//! tiktoken rank files as GGUF keys: the merges that their ranks imply.

use ahash::AHashMap;

use super::{GgufVocab, cuts};
use crate::byte_level;
use crate::encode::bpe::Ranks;
use crate::encode::merge::MergeRule;
use crate::error::TokenizeError;
use crate::source::{folder, tiktoken};

pub(super) fn fill(vocab: &mut GgufVocab, model: &[u8]) -> Result<(), TokenizeError> {
    let ranks = tiktoken::parse(model)?;
    let family = cuts::of_rule(folder::encoding(ranks.len()).0.rule())?;
    vocab.model = "gpt2".into();
    // `cl100k_base` differs from Llama 3 only in line ends before the end of a text.
    vocab.pre = Some(family.map_or("dbrx", |f| f.names[0]).into());
    vocab.merges = Some(merges(&ranks));
    Ok(())
}

/// The two parts that each token is merged from, in the order of merging.
fn merges(ranks: &[(Vec<u8>, u32)]) -> Vec<String> {
    let table: AHashMap<Box<[u8]>, u32> = ranks.iter().map(|(t, id)| (t.as_slice().into(), *id)).collect();
    let table = Ranks::new(table);
    let pairs = ranks.iter().filter(|(token, _)| token.len() > 1);
    let parts =
        pairs.filter_map(|(token, rank)| last_merge(token, *rank, &table).map(|at| token.split_at(at)));
    parts.map(|(left, right)| format!("{} {}", byte_level::encode(left), byte_level::encode(right))).collect()
}

/// Where the last merge of `token` joins its two parts, if all merges have ranks below its own.
fn last_merge(token: &[u8], rank: u32, table: &Ranks) -> Option<usize> {
    let mut ends: Vec<usize> = (1..=token.len()).collect();
    while ends.len() > 2 {
        let start = |i: usize| if i == 0 { 0 } else { ends[i - 1] };
        let joins = (0..ends.len() - 1).filter_map(|i| {
            let joined = table.join(0, 0, &token[start(i)..ends[i + 1]])?;
            (joined.rank < rank).then_some((joined.rank, i))
        });
        let (_, i) = joins.min()?;
        ends.remove(i);
    }
    ends.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_the_last_steps_of_each_token() {
        let ranks: Vec<(Vec<u8>, u32)> = ["a", "b", "c", "ab", "bc", "abc", "abab"]
            .iter()
            .zip(0..)
            .map(|(t, i)| (t.as_bytes().to_vec(), i))
            .collect();
        assert_eq!(merges(&ranks), ["a b", "b c", "ab c", "ab ab"]);
    }
}

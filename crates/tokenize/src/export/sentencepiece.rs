//! SentencePiece models as GGUF keys.

use super::GgufVocab;
use crate::error::TokenizeError;
use crate::source::sentencepiece::Proto;

/// Pieces of a unigram model are a lattice (`t5`), those of a BPE model merge by score (`llama`).
const UNIGRAM: u64 = 1;

pub(super) fn fill(vocab: &mut GgufVocab, model: &[u8]) -> Result<(), TokenizeError> {
    let proto = Proto::parse(model)?;
    vocab.scores = Some(scores(&proto, vocab));
    vocab.pre = Some("default".into());
    vocab.add_space_prefix = Some(proto.dummy_prefix);
    if proto.collapse {
        vocab.remove_extra_whitespaces = Some(true);
    }
    vocab.model = if proto.model_type == UNIGRAM { "t5" } else { "llama" }.into();
    if proto.space_as_suffix {
        vocab.treat_whitespace_as_suffix = Some(true);
    }
    if !proto.escape {
        vocab.escape_whitespaces = Some(false);
    }
    if !proto.charsmap.is_empty() && proto.model_type == UNIGRAM {
        vocab.precompiled_charsmap = Some(proto.charsmap);
    }
    Ok(())
}

/// Scores by id; tokens that the model does not know never win.
pub(super) fn scores(proto: &Proto, vocab: &GgufVocab) -> Vec<f32> {
    let known = proto.pieces.iter().map(|(_, score, _)| *score);
    known.chain(std::iter::repeat(-1000.0)).take(vocab.tokens.len()).collect()
}

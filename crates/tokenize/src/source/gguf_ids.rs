//! The ids of roles in GGUF metadata, with the defaults of the format.

use super::gguf::{GgufVocab, TokenizerKind};
use crate::special::{InfillIds, SpecialIds};

impl GgufVocab {
    pub(super) fn ids(&self, model: TokenizerKind, warnings: &mut Vec<String>) -> SpecialIds {
        let size = self.tokens.len();
        let bert = matches!(model, TokenizerKind::WordPiece);
        let (bos, eos, unknown, separator, padding, mask) = match model {
            TokenizerKind::Spm => (Some(1), Some(2), Some(0), None, None, None),
            TokenizerKind::WordPiece => (Some(101), None, Some(100), Some(102), Some(0), Some(103)),
            TokenizerKind::Bpe(_) if self.model == "gemma4" => (None, None, None, None, None, None),
            TokenizerKind::Bpe(pre) => {
                (Some(11).filter(|_| pre.default_bos), Some(11), None, None, None, None)
            }
            TokenizerKind::Unigram => (None, Some(1), Some(2), None, Some(0), None),
            TokenizerKind::Rwkv => (None, None, None, None, None, None),
            TokenizerKind::Plamo2 => (Some(1), Some(2), Some(0), None, Some(3), None),
        };
        let mut pick = |key: &str, id: Option<u32>, default: Option<u32>| match id {
            Some(id) if (id as usize) < size => Some(id),
            Some(id) => {
                warnings.push(format!(
                    "tokenizer.ggml.{key}_token_id = {id} is outside the vocabulary of {size} tokens: ignored"
                ));
                default.filter(|&id| (id as usize) < size)
            }
            None => default.filter(|&id| (id as usize) < size),
        };
        let cls = pick("cls", self.cls, bos.filter(|_| bert));
        SpecialIds {
            bos: pick("bos", self.bos, if matches!(model, TokenizerKind::WordPiece) { cls } else { bos }),
            eos: pick("eos", self.eos, eos),
            eot: pick("eot", self.eot, None),
            eom: pick("eom", self.eom, None),
            unknown: pick("unknown", self.unknown, unknown),
            separator: pick("seperator", self.separator, separator),
            padding: pick("padding", self.padding, padding),
            mask: pick("mask", self.mask, mask),
            infill: InfillIds {
                prefix: pick("fim_pre", self.infill.prefix, None),
                suffix: pick("fim_suf", self.infill.suffix, None),
                middle: pick("fim_mid", self.infill.middle, None),
                file: pick("fim_sep", self.infill.file, None),
            },
        }
    }
}

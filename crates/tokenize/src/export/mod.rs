//! The way back of `source/gguf.rs`: the tokenizer of a Hugging Face folder as the keys of a GGUF file.
//!
//! What a `tokenizer.json` does is found by watching it (where it cuts a text, whether it puts a space first), not by
//! reading its many ways to say so. The result is read again and compared on a text of many scripts.

mod cuts;
mod json;
mod ranks;
mod sentencepiece;

use std::path::Path;

use crate::error::TokenizeError;
use crate::source::folder::Files;
use crate::source::gguf::GgufVocab;
use crate::special::Special;
use crate::tokenizer::Tokenizer;
use crate::vocab::TokenKind;

/// U+2581, which stands for a space in most vocabularies of characters.
const SPACE: char = '\u{2581}';

impl GgufVocab {
    /// The tokenizer in folder `dir` as GGUF has it, for a model of `size` tokens, and what a user should know: how it
    /// differs from the folder's where the format cannot say all of it. None when there is no tokenizer.
    ///
    /// # Errors
    /// When the folder's tokenizer cannot be read, or is of a kind that the format has no name for.
    pub fn from_dir(
        dir: impl AsRef<Path>,
        size: usize,
    ) -> Result<Option<(GgufVocab, Vec<String>)>, TokenizeError> {
        let dir = dir.as_ref();
        let (Some(files), Some(tokenizer)) = (Files::find(dir)?, Tokenizer::from_dir(dir)?) else {
            return Ok(None);
        };
        let mut vocab = common(&tokenizer, size);
        match files {
            Files::Json(json) => json::fill(&mut vocab, &tokenizer, &json, dir)?,
            Files::SentencePiece(model) => sentencepiece::fill(&mut vocab, &model)?,
            Files::Ranks(model) => ranks::fill(&mut vocab, &model)?,
            Files::Gpt2(_, merges) => {
                vocab.model = "gpt2".into();
                vocab.pre = Some("gpt-2".into());
                let lines = merges.lines().filter(|l| !l.is_empty() && !l.starts_with("#version"));
                vocab.merges = Some(lines.map(str::to_owned).collect());
            }
        }
        let mut notes = vec![];
        if tokenizer.vocab_size() > size {
            let more = tokenizer.vocab_size() - size;
            notes.push(format!("the tokenizer has {more} tokens more than the model: they are left out"));
        }
        notes.extend(difference(&tokenizer, &vocab)?);
        Ok(Some((vocab, notes)))
    }
}

/// What is the same for all kinds: texts and kinds of the tokens, roles, templates.
fn common(tokenizer: &Tokenizer, size: usize) -> GgufVocab {
    let ids = tokenizer.special_ids();
    let inside = |id: Option<u32>| id.filter(|&id| (id as usize) < size);
    let (tokens, types) = (0..size as u32).map(|id| token(tokenizer, id)).unzip();
    GgufVocab {
        tokens,
        token_types: Some(types),
        bos: inside(ids.bos),
        eos: inside(ids.eos),
        eot: inside(ids.eot),
        eom: inside(ids.eom),
        unknown: inside(ids.unknown),
        separator: inside(ids.separator),
        padding: inside(ids.padding),
        mask: inside(ids.mask),
        add_bos: Some(tokenizer.adds_bos()),
        add_eos: Some(tokenizer.adds_eos()),
        chat_templates: tokenizer.chat_templates().to_vec(),
        ..GgufVocab::default()
    }
}

/// Text and kind of a token; holes get a text of their own, since readers look tokens up by text.
fn token(tokenizer: &Tokenizer, id: u32) -> (String, i32) {
    let (text, kind) = (tokenizer.id_to_token(id).unwrap_or(""), tokenizer.kind(id));
    match kind {
        Some(TokenKind::UserDefined) => (text.replace(SPACE, " "), TokenKind::UserDefined.number()),
        Some(kind) if !text.is_empty() => (text.to_owned(), kind.number()),
        _ => (format!("[PAD{id}]"), TokenKind::Unused.number()),
    }
}

/// The first text of the probe that both encode differently.
fn difference(tokenizer: &Tokenizer, vocab: &GgufVocab) -> Result<Option<String>, TokenizeError> {
    let written = Tokenizer::from_gguf(vocab.clone())?;
    for text in cuts::PROBE {
        let (want, have) = (tokenizer.encode(text, Special::ADD)?, written.encode(text, Special::ADD)?);
        if want != have {
            return Ok(Some(format!(
                "GGUF cannot say all of this tokenizer: {text:?} becomes {have:?} there, and {want:?} in the folder"
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_tokenizer_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(GgufVocab::from_dir(dir.path(), 10).unwrap().is_none());
    }

    #[test]
    fn gpt2_files_come_back_with_holes_filled() {
        let dir = tempfile::tempdir().unwrap();
        let atoms = (0..=255u8).map(|b| crate::byte_level::char_of(b).to_string());
        let texts = atoms.chain(["ab".into(), "<|endoftext|>".into()]).enumerate();
        let map: serde_json::Map<_, _> = texts.map(|(i, text)| (text, (i + 1).into())).collect();
        std::fs::write(dir.path().join("vocab.json"), serde_json::Value::from(map).to_string()).unwrap();
        std::fs::write(dir.path().join("merges.txt"), "#version: 0.2\na b\n").unwrap();
        let (vocab, notes) = GgufVocab::from_dir(dir.path(), 260).unwrap().unwrap();
        assert_eq!(notes, Vec::<String>::new());
        assert_eq!((vocab.tokens[0].as_str(), vocab.tokens[259].as_str()), ("[PAD0]", "[PAD259]"));
        assert_eq!((vocab.bos, vocab.merges.as_deref()), (Some(258), Some(&["a b".to_owned()][..])));
        let written = Tokenizer::from_gguf(vocab).unwrap();
        assert_eq!(written.encode("ab", Special::NONE).unwrap(), [257]);
    }
}

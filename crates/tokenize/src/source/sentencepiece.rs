//! SentencePiece `.model` files: a protocol buffer (`sentencepiece_model.proto`) of which a few fields matter.

use crate::encode::charsmap::Charsmap;
use crate::encode::normalize::{DummySpace, Normalizer, ProtectedPieces};
use crate::encode::spm::{Pieces, Spm};
use crate::encode::unigram::{Lattice, Unigram};
use crate::encode::{Encoder, Fallback};
use crate::error::TokenizeError;
use crate::tokenizer::{DraftEncoder, Lead, Tokenizer, TokenizerDraft};
use crate::vocab::{TokenEntry, TokenKind, Vocab, byte_of_text};

const WHAT: &str = "SentencePiece model";

impl Tokenizer {
    /// A tokenizer from the bytes of a SentencePiece `.model`. BOS is added, EOS is not, as the models that ship
    /// such files expect; a `tokenizer_config.json` beside it may say otherwise (see [`Tokenizer::from_dir`]).
    pub fn from_sentencepiece(model: &[u8]) -> Result<Tokenizer, TokenizeError> {
        draft(model)?.finish()
    }
}

/// The fields of `ModelProto` that matter, with the defaults of the schema.
pub(crate) struct Proto {
    pub pieces: Vec<(String, f32, i32)>,
    /// 1 unigram, 2 BPE, 3 word, 4 character.
    pub model_type: u64,
    byte_fallback: bool,
    pub space_as_suffix: bool,
    bos: String,
    eos: String,
    pad: String,
    pub charsmap: Vec<u8>,
    pub dummy_prefix: bool,
    pub collapse: bool,
    pub escape: bool,
}

pub(crate) fn draft(model: &[u8]) -> Result<TokenizerDraft, TokenizeError> {
    let proto = Proto::parse(model)?;
    let vocab = proto.vocab();
    let scores: Vec<f32> = proto.pieces.iter().map(|(_, score, _)| *score).collect();
    let unknown = vocab.iter().find(|(_, _, kind)| *kind == TokenKind::Unknown).map(|(id, _, _)| id);
    let bytes = if proto.byte_fallback { vocab.byte_tokens() } else { None };
    let fallback = Fallback { bytes, unknown };
    let normalizer = proto.normalizer(&vocab)?;
    let encoder: Box<dyn Encoder> = match proto.model_type {
        1 => Box::new(Unigram { normalizer, lattice: Lattice::new(&vocab, &scores)?, fallback }),
        kind @ (2 | 4) => {
            Box::new(Spm { normalizer, pieces: Pieces::new(&vocab, &scores), merges: kind == 2, fallback })
        }
        kind => {
            let hint = "BPE, unigram and character models are";
            return Err(TokenizeError::unsupported(format!("a SentencePiece model of type {kind}"), hint));
        }
    };
    let control = |text: &str| vocab.id(text).filter(|&id| vocab.kind(id) == Some(TokenKind::Control));
    let (bos, eos, padding) = (control(&proto.bos), control(&proto.eos), control(&proto.pad));
    let mut draft = TokenizerDraft::new(vocab, DraftEncoder::Native(encoder));
    draft.ids.bos = bos;
    draft.ids.eos = eos;
    draft.ids.padding = padding;
    draft.ids.unknown = unknown;
    // A model without BOS is of the T5 family, which ends its texts instead.
    draft.add_bos = true;
    draft.add_eos = bos.is_none();
    draft.lead = match (proto.dummy_prefix, proto.collapse) {
        (_, true) => Lead::DropAll,
        (true, false) => Lead::DropOne,
        (false, false) => Lead::Keep,
    };
    Ok(draft)
}

impl Proto {
    pub fn parse(bytes: &[u8]) -> Result<Proto, TokenizeError> {
        let mut proto = Proto {
            pieces: Vec::new(),
            model_type: 1,
            byte_fallback: false,
            space_as_suffix: false,
            bos: "<s>".into(),
            eos: "</s>".into(),
            pad: "<pad>".into(),
            charsmap: Vec::new(),
            dummy_prefix: true,
            collapse: true,
            escape: true,
        };
        for field in Fields(bytes) {
            match field? {
                (1, Wire::Bytes(piece)) => proto.pieces.push(parse_piece(piece)?),
                (2, Wire::Bytes(trainer)) => proto.parse_trainer(trainer)?,
                (3, Wire::Bytes(normalizer)) => proto.parse_normalizer(normalizer)?,
                _ => {}
            }
        }
        if proto.pieces.is_empty() {
            return Err(TokenizeError::malformed(WHAT, "has no pieces: is this a SentencePiece file?"));
        }
        Ok(proto)
    }

    fn parse_trainer(&mut self, bytes: &[u8]) -> Result<(), TokenizeError> {
        for field in Fields(bytes) {
            match field? {
                (3, Wire::Number(kind)) => self.model_type = kind,
                (24, Wire::Number(flag)) => self.space_as_suffix = flag != 0,
                (35, Wire::Number(flag)) => self.byte_fallback = flag != 0,
                (46, Wire::Bytes(text)) => self.bos = utf8(text)?,
                (47, Wire::Bytes(text)) => self.eos = utf8(text)?,
                (48, Wire::Bytes(text)) => self.pad = utf8(text)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn parse_normalizer(&mut self, bytes: &[u8]) -> Result<(), TokenizeError> {
        for field in Fields(bytes) {
            match field? {
                (2, Wire::Bytes(map)) => self.charsmap = map.to_vec(),
                (3, Wire::Number(flag)) => self.dummy_prefix = flag != 0,
                (4, Wire::Number(flag)) => self.collapse = flag != 0,
                (5, Wire::Number(flag)) => self.escape = flag != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn vocab(&self) -> Vocab {
        let mut vocab = Vocab::default();
        for (text, _, kind) in &self.pieces {
            let kind = TokenKind::from_number(*kind);
            let bytes = match kind {
                TokenKind::Control | TokenKind::Unknown => text.clone().into_bytes(),
                TokenKind::Byte => byte_of_text(text).map_or_else(|| text.clone().into_bytes(), |b| vec![b]),
                _ => text.replace('\u{2581}', " ").into_bytes(),
            };
            vocab.push(TokenEntry { text: text.clone(), bytes, kind });
        }
        vocab
    }

    fn normalizer(&self, vocab: &Vocab) -> Result<Normalizer, TokenizeError> {
        let own = vocab.iter().filter(|(_, text, kind)| *kind == TokenKind::UserDefined && !text.is_empty());
        let own: Vec<(u32, &str)> = own.map(|(id, text, _)| (id, text)).collect();
        Ok(Normalizer {
            charsmap: Charsmap::parse(&self.charsmap)?,
            dummy: match (self.dummy_prefix, self.space_as_suffix) {
                (false, _) => DummySpace::None,
                (true, false) => DummySpace::Before,
                (true, true) => DummySpace::After,
            },
            collapse: self.collapse,
            escape: self.escape,
            protected: ProtectedPieces::new(&own)?,
        })
    }
}

fn parse_piece(bytes: &[u8]) -> Result<(String, f32, i32), TokenizeError> {
    let mut piece = (String::new(), 0.0, 1);
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Bytes(text)) => piece.0 = utf8(text)?,
            (2, Wire::Fixed32(bits)) => piece.1 = f32::from_bits(bits),
            (3, Wire::Number(kind)) => piece.2 = i32::try_from(kind).unwrap_or(1),
            _ => {}
        }
    }
    Ok(piece)
}

fn utf8(bytes: &[u8]) -> Result<String, TokenizeError> {
    let problem = || TokenizeError::malformed(WHAT, "a piece is not UTF-8: the file is damaged");
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| problem())
}

/// A value of the wire format.
enum Wire<'a> {
    Number(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message: number and value.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), TokenizeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(
            field.ok_or_else(|| {
                TokenizeError::malformed(WHAT, "is cut off or no protocol buffer: get it again")
            }),
        )
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Wire::Other
            }
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

//! The vocabulary: what each token id is, says and weighs. Every source fills the same table.

use ahash::AHashMap;

/// Ids from here on are taken for damage rather than for a vocabulary: the largest have a quarter of a million tokens.
pub(crate) const LARGEST_ID: u32 = 1 << 22;

/// What a token is for. The numbers of GGUF and of SentencePiece's `.model` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for text that the vocabulary cannot spell.
    Unknown,
    /// Structure, not text: beginning, end, turn markers. Hidden by `decode`.
    Control,
    /// Added by hand; found in text before anything else is looked at.
    UserDefined,
    /// A hole in the vocabulary.
    Unused,
    /// One raw byte.
    Byte,
}

impl TokenKind {
    /// The kind with this number in GGUF `tokenizer.ggml.token_type` and in SentencePiece (1 to 6); others are normal.
    pub fn from_number(number: i32) -> TokenKind {
        match number {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }

    /// The number of this kind in both formats.
    pub fn number(self) -> i32 {
        match self {
            TokenKind::Normal => 1,
            TokenKind::Unknown => 2,
            TokenKind::Control => 3,
            TokenKind::UserDefined => 4,
            TokenKind::Unused => 5,
            TokenKind::Byte => 6,
        }
    }

    /// Whether the token carries text of the answer (control and unknown tokens do not).
    pub fn is_text(self) -> bool {
        !matches!(self, TokenKind::Control | TokenKind::Unknown)
    }
}

/// One token while a vocabulary is being filled.
pub(crate) struct TokenEntry {
    /// As the file writes it.
    pub text: String,
    /// What it adds to the output, exactly.
    pub bytes: Vec<u8>,
    pub kind: TokenKind,
}

/// All tokens by id.
#[derive(Default)]
pub(crate) struct Vocab {
    texts: Vec<Box<str>>,
    bytes: ByteStrings,
    kinds: Vec<TokenKind>,
    ids: AHashMap<Box<str>, u32>,
}

impl Vocab {
    /// Appends the next id. Where two ids have one text, the first keeps it (an empty text is never found).
    pub fn push(&mut self, entry: TokenEntry) {
        let id = self.texts.len() as u32;
        let text = entry.text.into_boxed_str();
        if !text.is_empty() {
            self.ids.entry(text.clone()).or_insert(id);
        }
        self.texts.push(text);
        self.bytes.push(&entry.bytes);
        self.kinds.push(entry.kind);
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(|t| &**t)
    }

    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id as usize)
    }

    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// Rewrites an id, for a configuration that names what a file reserved.
    pub fn replace(&mut self, id: u32, entry: TokenEntry) {
        let Some(slot) = self.texts.get_mut(id as usize) else { return };
        let text = entry.text.into_boxed_str();
        let old = std::mem::replace(slot, text.clone());
        if self.ids.get(&old) == Some(&id) {
            self.ids.remove(&old);
        }
        self.ids.insert(text, id);
        self.bytes.replace(id as usize, &entry.bytes);
        self.kinds[id as usize] = entry.kind;
    }

    pub fn set_kind(&mut self, id: u32, kind: TokenKind) {
        if let Some(slot) = self.kinds.get_mut(id as usize) {
            *slot = kind;
        }
    }

    /// (id, text, kind) of every token.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        self.texts.iter().zip(&self.kinds).enumerate().map(|(id, (text, &kind))| (id as u32, &**text, kind))
    }

    /// The ids of the byte tokens `<0x00>` to `<0xFF>`, where the vocabulary has all of them.
    pub fn byte_tokens(&self) -> Option<Box<[u32; 256]>> {
        let ids: Option<Vec<u32>> = (0..256).map(|b| self.id(&format!("<0x{b:02X}>"))).collect();
        ids.and_then(|ids| ids.into_boxed_slice().try_into().ok())
    }
}

/// The byte that a text like `<0x0A>` stands for.
pub(crate) fn byte_of_text(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// Many short byte strings in one allocation: a vocabulary has hundreds of thousands.
#[derive(Default)]
struct ByteStrings {
    data: Vec<u8>,
    spans: Vec<(usize, usize)>,
}

impl ByteStrings {
    fn push(&mut self, bytes: &[u8]) {
        self.spans.push((self.data.len(), bytes.len()));
        self.data.extend_from_slice(bytes);
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let (start, length) = *self.spans.get(index)?;
        Some(&self.data[start..start + length])
    }

    /// The old bytes stay where they are: only a handful of tokens are ever replaced.
    fn replace(&mut self, index: usize, bytes: &[u8]) {
        self.spans[index] = (self.data.len(), bytes.len());
        self.data.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_texts_are_read_strictly() {
        assert_eq!(byte_of_text("<0x0A>"), Some(10));
        assert_eq!(byte_of_text("<0xff>"), Some(255));
        for bad in ["<0x>", "<0x+1>", "<0xA>", "0x0A", "<0x0A", "<0xGG>"] {
            assert_eq!(byte_of_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_of_two_equal_texts_is_found() {
        let mut vocab = Vocab::default();
        for bytes in [b"x", b"y"] {
            vocab.push(TokenEntry { text: "same".into(), bytes: bytes.to_vec(), kind: TokenKind::Normal });
        }
        assert_eq!(vocab.id("same"), Some(0));
        assert_eq!(vocab.bytes(1), Some(&b"y"[..]));
        assert_eq!(vocab.bytes(2), None);
        vocab
            .replace(0, TokenEntry { text: "other".into(), bytes: b"zz".to_vec(), kind: TokenKind::Control });
        assert_eq!((vocab.id("same"), vocab.id("other"), vocab.bytes(0)), (None, Some(0), Some(&b"zz"[..])));
    }
}

//! The wire form of protobuf: each field is its number with the kind of what follows, and then the value.

/// A message that is being written. Fields that are members of a `oneof` are written even where they are zero or empty.
#[derive(Default)]
pub(super) struct WireMessage(Vec<u8>);

/// Kinds of values.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;

impl WireMessage {
    /// A whole number without a sign, or a member of an enumeration.
    pub fn number(&mut self, field: u32, value: u64) -> &mut WireMessage {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    /// `fixed64`, or the bits of a `double`.
    pub fn fixed(&mut self, field: u32, bits: u64) -> &mut WireMessage {
        self.key(field, FIXED_64);
        self.0.extend(bits.to_le_bytes());
        self
    }

    /// Bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut WireMessage {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// A text.
    pub fn text(&mut self, field: u32, text: &str) -> &mut WireMessage {
        self.bytes(field, text.as_bytes())
    }

    /// A message inside.
    pub fn message(&mut self, field: u32, inner: &WireMessage) -> &mut WireMessage {
        self.bytes(field, &inner.0)
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

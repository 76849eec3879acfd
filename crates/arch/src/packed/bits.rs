//! Where codes of 1 to 8 bits stand in bytes and words.

use lamina_base::StoredBytes;

/// Why codes can be read: only `Parts::fetched` leads to a reader.
pub(crate) const FETCHED: &str = "codes are fetched before they are read";

/// Small codes in some layout.
pub(crate) trait CodeLayout: Send + Sync {
    /// True when a matrix of `rows x cols` lies inside; [`CodeLayout::read`] is only called for such.
    fn holds(&self, rows: usize, cols: usize) -> bool;

    /// The codes of `rows`, one row of `cols` after another. Rows come in tiles, because layouts that run down the
    /// columns have 16 rows in a cache line.
    fn read(&self, rows: &[u32], cols: usize, out: &mut [u8]);
}

/// A matrix of 32-bit words, row by row.
pub(crate) struct Words {
    pub bytes: StoredBytes,
    pub rows: usize,
    pub cols: usize,
}

impl Words {
    /// The word at `row` and `col`; zero behind the last row, which packers leave out where it would be padding.
    #[inline]
    pub fn at(&self, row: usize, col: usize) -> u32 {
        let at = 4 * (row * self.cols + col);
        self.bytes
            .held()
            .and_then(|b| b.get(at..at + 4))
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
}

/// Field `i` of `bits` bits in a stream of words, lowest bits first; a field may begin in one word and end in the next.
pub(crate) fn field(i: usize, bits: usize, word: impl Fn(usize) -> u32) -> u32 {
    let (at, shift) = (i * bits / 32, i * bits % 32);
    let low = word(at) >> shift;
    let high = if shift + bits > 32 { word(at + 1) << (32 - shift) } else { 0 };
    (low | high) & ((1 << bits) - 1)
}

/// Rows of codes, each a stream of bits that begins at a byte, lowest bits first.
pub(crate) struct RowBits {
    pub bytes: StoredBytes,
    pub bits: usize,
    pub row_bytes: usize,
}

impl CodeLayout for RowBits {
    fn holds(&self, rows: usize, cols: usize) -> bool {
        let inside = cols.checked_mul(self.bits).is_some_and(|bits| bits.div_ceil(8) <= self.row_bytes);
        inside && rows.checked_mul(self.row_bytes) == Some(self.bytes.len())
    }

    fn read(&self, rows: &[u32], cols: usize, out: &mut [u8]) {
        let held = self.bytes.held().expect(FETCHED);
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(cols)) {
            let stored = &held[row as usize * self.row_bytes..][..self.row_bytes];
            match self.bits {
                8 => out.copy_from_slice(&stored[..cols]),
                4 => nibbles(stored, out),
                bits => {
                    let byte = |i: usize| u32::from(stored.get(i).copied().unwrap_or(0));
                    for (i, code) in out.iter_mut().enumerate() {
                        let at = i * bits;
                        let pair = byte(at / 8) | byte(at / 8 + 1) << 8;
                        *code = (pair >> (at % 8) & ((1 << bits) - 1)) as u8;
                    }
                }
            }
        }
    }
}

/// Low nibble first.
fn nibbles(stored: &[u8], out: &mut [u8]) {
    let (pairs, last) = out.as_chunks_mut::<2>();
    for (pair, b) in pairs.iter_mut().zip(stored) {
        *pair = [b & 15, b >> 4];
    }
    if let [last] = last {
        *last = stored[pairs.len()] & 15;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit `i` of code `c` is bit `c * bits + i` of the stream.
    fn by_single_bits(stream: &[u8], bits: usize, code: usize) -> u8 {
        let bit = |i: usize| stream[i / 8] >> (i % 8) & 1;
        (0..bits).map(|i| bit(code * bits + i) << i).sum()
    }

    #[test]
    fn fields_of_every_width_are_the_bits_of_the_stream() {
        let stream: Vec<u8> = (0..40u32).map(|i| (i * 157 + 91) as u8).collect();
        let words = Words { bytes: stream.clone().into(), rows: 10, cols: 1 };
        for bits in 1..=8 {
            let count = 2 * stream.len() * 4 / bits - 1;
            let want: Vec<u8> = (0..count).map(|i| by_single_bits(&stream, bits, i)).collect();
            let fields: Vec<u8> = (0..count).map(|i| field(i, bits, |w| words.at(w, 0)) as u8).collect();
            assert_eq!(fields, want, "{bits} bits in words");
            let rows = RowBits { bytes: stream.clone().into(), bits, row_bytes: 20 };
            for cols in [1, 2, 17, 160 / bits] {
                let mut out = vec![0; 2 * cols];
                assert!(rows.holds(2, cols) && !rows.holds(3, cols) && !rows.holds(1, 160 / bits + 1));
                rows.read(&[1, 0], cols, &mut out);
                let second = (0..cols).map(|i| by_single_bits(&stream[20..], bits, i));
                assert!(out[..cols].iter().copied().eq(second), "{bits} bits, {cols} columns");
                assert_eq!(out[cols..], want[..cols]);
            }
        }
    }
}

//! The ways in which formats fold small codes into bytes. Each pair of functions is one rule.

/// Nibbles in halves of `H`: byte `i` of a group holds code `i` below and code `i + H` above.
#[inline(always)]
pub(crate) fn nibbles<const H: usize, const N: usize>(packed: &[u8]) -> [u8; N] {
    let mut codes = [0; N];
    for (group, bytes) in codes.chunks_exact_mut(2 * H).zip(packed.chunks_exact(H)) {
        let (low, high) = group.split_at_mut(H);
        for ((low, high), &b) in low.iter_mut().zip(high).zip(bytes) {
            (*low, *high) = (b & 15, b >> 4);
        }
    }
    codes
}

/// Inverse of [`nibbles`]; higher bits of a code are left out.
#[inline(always)]
pub(crate) fn pack_nibbles<const H: usize, const BYTES: usize>(codes: &[u8]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    for (bytes, group) in packed.chunks_exact_mut(H).zip(codes.chunks_exact(2 * H)) {
        let (low, high) = group.split_at(H);
        for ((b, low), high) in bytes.iter_mut().zip(low).zip(high) {
            *b = low & 15 | high << 4;
        }
    }
    packed
}

/// Two-bit codes of 256 elements: in each half, byte `i` of 32 holds the codes `i`, `i + 32`, `i + 64`, `i + 96`, the
/// first in its lowest bits.
#[inline(always)]
pub(crate) fn crumbs(packed: &[u8; 64]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (half, bytes) in codes.chunks_exact_mut(128).zip(packed.chunks_exact(32)) {
        for (k, plane) in half.chunks_exact_mut(32).enumerate() {
            plane.iter_mut().zip(bytes).for_each(|(c, b)| *c = b >> (2 * k) & 3);
        }
    }
    codes
}

/// Inverse of [`crumbs`]; higher bits of a code are left out.
#[inline(always)]
pub(crate) fn pack_crumbs(codes: &[u8; 256]) -> [u8; 64] {
    let mut packed = [0; 64];
    for (bytes, half) in packed.chunks_exact_mut(32).zip(codes.chunks_exact(128)) {
        for (k, plane) in half.chunks_exact(32).enumerate() {
            bytes.iter_mut().zip(plane).for_each(|(b, c)| *b |= (c & 3) << (2 * k));
        }
    }
    packed
}

/// One bit of 256 elements: bit `k` of byte `i` belongs to element `32 k + i`.
#[inline(always)]
pub(crate) fn planes(packed: &[u8; 32]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (k, plane) in codes.chunks_exact_mut(32).enumerate() {
        plane.iter_mut().zip(packed).for_each(|(c, b)| *c = b >> k & 1);
    }
    codes
}

/// Inverse of [`planes`] for codes 0 and 1.
#[inline(always)]
pub(crate) fn pack_planes(codes: &[u8; 256]) -> [u8; 32] {
    let mut packed = [0; 32];
    for (k, plane) in codes.chunks_exact(32).enumerate() {
        packed.iter_mut().zip(plane).for_each(|(b, c)| *b |= c << k);
    }
    packed
}

/// One bit per element in order, lowest bit of each byte first.
#[inline(always)]
pub(crate) fn bits<const N: usize>(packed: &[u8]) -> [u8; N] {
    let mut codes = [0; N];
    for (group, &b) in codes.chunks_exact_mut(8).zip(packed) {
        group.iter_mut().enumerate().for_each(|(i, c)| *c = b >> i & 1);
    }
    codes
}

/// Inverse of [`bits`] for codes 0 and 1.
#[inline(always)]
pub(crate) fn pack_bits<const BYTES: usize>(codes: &[u8]) -> [u8; BYTES] {
    let mut packed = [0; BYTES];
    for (b, group) in packed.iter_mut().zip(codes.chunks_exact(8)) {
        *b = group.iter().enumerate().fold(0, |b, (i, c)| b | c << i);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fold_unfolds() {
        let bytes: [u8; 64] = std::array::from_fn(|i| (i * 37 + 11) as u8);
        assert_eq!(pack_nibbles::<16, 64>(&nibbles::<16, 128>(&bytes)), bytes);
        assert_eq!(pack_crumbs(&crumbs(&bytes)), bytes);
        let (first, _) = bytes.split_first_chunk::<32>().expect("64 bytes");
        assert_eq!(pack_planes(&planes(first)), *first);
        assert_eq!(pack_bits::<64>(&bits::<512>(&bytes)), bytes);
    }

    #[test]
    fn the_first_element_is_in_the_lowest_bits() {
        assert_eq!(nibbles::<1, 2>(&[0x21]), [1, 2]);
        assert_eq!(bits::<8>(&[1])[0], 1);
        assert_eq!(crumbs(&[0b11_10_01_00; 64])[32], 1);
        assert_eq!(planes(&[2; 32])[32], 1);
    }
}

//! The eight 6-bit scales and minimums of Q4_K and Q5_K in twelve bytes.
//!
//! Byte `j` of the first four holds scale `j` in six bits, byte `4 + j` minimum `j`; byte `8 + j` holds the lower nibbles of
//! scale and minimum `4 + j`, whose upper two bits fill the first eight bytes.

/// Scales and minimums.
pub(super) fn unpack(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        let (scale, min, both) = (packed[j], packed[4 + j], packed[8 + j]);
        (scales[j], mins[j]) = (scale & 63, min & 63);
        (scales[4 + j], mins[4 + j]) = (both & 15 | scale >> 6 << 4, both >> 4 | min >> 6 << 4);
    }
    (scales, mins)
}

/// Inverse of [`unpack`] for values below 64.
pub(super) fn pack(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        packed[j] = scales[j] | scales[4 + j] >> 4 << 6;
        packed[4 + j] = mins[j] | mins[4 + j] >> 4 << 6;
        packed[8 + j] = scales[4 + j] & 15 | mins[4 + j] << 4;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_the_inverse_of_unpacking() {
        let packed: [u8; 12] = std::array::from_fn(|i| (i * 89 + 41) as u8);
        let (scales, mins) = unpack(&packed);
        assert!(scales.iter().chain(&mins).all(|v| *v < 64));
        assert_eq!(pack(&scales, &mins), packed);
    }
}

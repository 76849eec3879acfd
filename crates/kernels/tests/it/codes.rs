//! Packed integers: what is packed comes back, each in its byte.

use lamina_kernels::codes::{Bits1, Bits2, Bits3, Bits4, Bits5, Bits6, Bits8, Codes};
use lamina_simd::scalar::Scalar;

fn round_trip<C: Codes>() {
    let mask = ((1u32 << C::BITS) - 1) as u8;
    let mut packed = vec![0u32; 8 * C::BITS];
    let value = |row: usize, col: usize| ((row * 41 + col * 7 + col * col) as u8) & mask;
    for row in 0..8 {
        let codes =
            std::array::from_fn(|g| u32::from_le_bytes(std::array::from_fn(|k| value(row, 4 * g + k))));
        C::pack(&codes, |v, word| packed[v * 8 + row] = word);
    }
    // SAFETY: `BITS` vectors of eight words are there.
    let groups = unsafe { C::groups::<Scalar>(packed.as_ptr().cast()) };
    for (g, group) in groups.iter().enumerate() {
        for (row, word) in group.iter().enumerate() {
            for (k, byte) in word.to_le_bytes().into_iter().enumerate() {
                let column = 4 * g + k;
                assert_eq!(byte, value(row, column), "{} bits, row {row}, column {column}", C::BITS);
            }
        }
    }
}

#[test]
fn packing_is_undone_by_unpacking() {
    round_trip::<Bits1>();
    round_trip::<Bits2>();
    round_trip::<Bits3>();
    round_trip::<Bits4>();
    round_trip::<Bits5>();
    round_trip::<Bits6>();
    round_trip::<Bits8>();
}

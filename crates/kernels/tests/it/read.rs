//! The reader behind a measurement of bandwidth: a line that is left out would make memory look faster than it is.

use lamina_kernels::MemoryReader;
use lamina_simd::Isa;

#[test]
fn every_isa_reads_every_line_in_every_way() {
    for line in 0..64 {
        let mut bytes = vec![0u8; 4 << 10];
        bytes[64 * line + 63] = 1;
        for isa in Isa::usable() {
            for streams in [1, 2, 4] {
                let sum = MemoryReader::new(isa).sum(&bytes, streams, 1024);
                assert_eq!(sum, 1 << 24, "{isa} leaves line {line} out with {streams} streams");
            }
        }
    }
}

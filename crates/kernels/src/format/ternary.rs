//! The ternary types: values -1, 0 and 1 with one scale per 256. Both take 2.31 bits per weight in a panel (1.69 and 2.06
//! in the file), a quarter bit of it for integer scales that are all 1.

use crate::{
    codes::Bits2,
    super_block::{SuperFormat, Unpacked},
};
use lamina_quant as stored;

macro_rules! ternary {
    ($($(#[$doc:meta])* $name:ident $stored:ident,)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl SuperFormat for $name {
            type Codes = Bits2;
            const BY_16: bool = false;
            const ADDS: usize = 8;
            const OFFSET: i32 = 1;

            #[inline(always)]
            fn unpack(b: &[u8], out: &mut Unpacked) {
                let block: &stored::$stored = bytemuck::from_bytes(b);
                (out.codes, out.scales, out.d) = (block.codes(), [1; 16], block.d.to_bits());
            }
        }
    )*};
}

ternary! {
    /// TQ1_0.
    Tq1 BlockTQ1_0,
    /// TQ2_0.
    Tq2 BlockTQ2_0,
}

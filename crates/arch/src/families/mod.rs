//! Every family, one file each.

use crate::family::Family;

macro_rules! families {
    ($($name:ident)*) => {
        $(mod $name;)*
        /// All families that Lamina knows.
        pub static ALL: &[&Family] = &[$(&$name::FAMILY),*];
    };
}

families! { llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe }

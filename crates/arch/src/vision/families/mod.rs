//! Families of models that see: one small file each.

macro_rules! families {
    ($($name:ident)*) => {
        $(mod $name;)*

        /// All of them.
        pub(super) static ALL: &[&super::VisionFamily] = &[$(&$name::FAMILY),*];
    };
}

families! {
    gemma3 gemma4 glm4v idefics3 internvl llama4 llava llava_next minicpmv4_6 pixtral qwen2_5_vl qwen2_vl qwen3_vl
}

//! Token masks of grammars: one bit per token, set where the token is allowed, 32 tokens a word from the lowest bit.

/// Masks every token whose bit is not set. A mask may be shorter than the row: models pad their vocabulary beyond the
/// tokenizer's, and no grammar allows a padding token.
pub(super) fn apply(mask: &[u32], logits: &mut [f32]) {
    for (i, chunk) in logits.chunks_mut(32).enumerate() {
        match mask.get(i).copied().unwrap_or(0) {
            u32::MAX => {}
            0 => chunk.fill(f32::NEG_INFINITY),
            word => {
                for (bit, logit) in chunk.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_exactly_the_tokens_whose_bit_is_set(
            mask in prop::collection::vec(prop_oneof![Just(0), Just(u32::MAX), any::<u32>()], 0..5),
            vocab in 0usize..140,
        ) {
            let mut logits = vec![1.0; vocab];
            apply(&mask, &mut logits);
            for (id, logit) in logits.into_iter().enumerate() {
                let allowed = mask.get(id / 32).is_some_and(|w| w & (1 << (id % 32)) != 0);
                prop_assert_eq!(logit == 1.0, allowed);
            }
        }
    }
}

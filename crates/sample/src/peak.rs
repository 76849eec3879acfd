//! The first look at a row of logits: its highest value, and whether it is sound.

use super::SampleError;

/// The highest logit of a row and the lowest id that has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peak {
    pub id: u32,
    pub logit: f32,
}

impl Peak {
    /// `-inf` where the row is empty or wholly masked; an error where a logit is NaN.
    pub fn of(row: &[f32]) -> Result<Self, SampleError> {
        let mut peak = (0, f32::NEG_INFINITY);
        let mut nan = false;
        for (i, block) in row.chunks(BLOCK).enumerate() {
            let max = block_max(block);
            nan |= has_nan(block);
            if max > peak.1 {
                peak = (i * BLOCK, max);
            }
        }
        if nan {
            let token = row.iter().position(|x| x.is_nan()).unwrap_or(0);
            return Err(SampleError::NotANumber { token });
        }
        let inside = row[peak.0.min(row.len())..].iter().position(|&x| x == peak.1).unwrap_or(0);
        Ok(Self { id: (peak.0 + inside) as u32, logit: peak.1 })
    }
}

/// Tokens with a logit of +inf are certain: they share the probability, and all others have none.
pub(super) fn keep_certain(logits: &mut [f32]) {
    for x in logits.iter_mut() {
        *x = if *x == f32::INFINITY { 0.0 } else { f32::NEG_INFINITY };
    }
}

/// Logits looked at together; small enough that the rescan of one block costs nothing.
pub(super) const BLOCK: usize = 128;

/// Eight maxima side by side: a single running maximum of floats is a chain that compilers may not vectorize.
pub(super) fn block_max(block: &[f32]) -> f32 {
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 8];
    let (wide, rest) = block.as_chunks::<8>();
    for chunk in wide {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = higher(*lane, x);
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, higher)
}

fn has_nan(block: &[f32]) -> bool {
    block.iter().fold(false, |nan, x| nan | x.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::row;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_lowest_id_of_the_highest(row in row(1..400)) {
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let id = row.iter().position(|&x| x == max).unwrap();
            prop_assert_eq!(Peak::of(&row), Ok(Peak { id: id as u32, logit: max }));
        }

        #[test]
        fn nan_is_refused_with_its_place(mut row in row(1..400), at in any::<prop::sample::Index>()) {
            let token = at.index(row.len());
            row[token] = f32::NAN;
            prop_assert_eq!(Peak::of(&row), Err(SampleError::NotANumber { token }));
        }
    }

    #[test]
    fn edges() {
        assert_eq!(Peak::of(&[-1.0, -0.0, 0.0]).unwrap().id, 1);
        assert_eq!(Peak::of(&[]).unwrap().logit, f32::NEG_INFINITY);
        assert_eq!(Peak::of(&[f32::NEG_INFINITY; 3]).unwrap().logit, f32::NEG_INFINITY);
    }
}

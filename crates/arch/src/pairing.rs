//! Rotary pairs are settled at load: rows that a file stores as `(2i, 2i + 1)` are read as `(i, i + dim/2)`.
//!
//! The same reordering on queries and keys leaves every score unchanged, so kernels know one order only.

use crate::{
    error::Result,
    names::Canonical,
    spec::{Mixer, ModelSpec, Pairs, QkSpan, Rope},
    tensor::Tensor,
};

/// Order of the rows of a query or key tensor, or of its bias or norm, that brings its pairs to the order `to`; none
/// when it stays.
pub(crate) fn order(name: &Canonical<'_>, spec: &ModelSpec, numbers: usize, to: Pairs) -> Option<Vec<u32>> {
    let part = name.base.strip_prefix("blk.{i}.")?;
    let (heads, dim, start, rope) = match &name.spec(spec)?.mixer {
        Mixer::Gqa(g) => {
            let rope = g.rope.as_ref()?;
            match part {
                "attn_q" => (g.heads, g.dim, 0, rope),
                "attn_k" => (g.kv_heads, g.dim, 0, rope),
                "attn_q_norm" | "attn_k_norm" if g.qk_norm?.over == QkSpan::Head => (1, g.dim, 0, rope),
                "attn_q_norm" => (g.heads, g.dim, 0, rope),
                "attn_k_norm" => (g.kv_heads, g.dim, 0, rope),
                _ => return None,
            }
        }
        Mixer::Mla(m) => match part {
            "attn_q" | "attn_q_b" => (m.heads, m.nope + m.rope.dim, m.nope, &m.rope),
            "attn_k_rope" => (1, m.rope.dim, 0, &m.rope),
            _ => return None,
        },
        _ => return None,
    };
    debug_assert!(numbers >= heads * dim);
    (rope.pairs != to).then(|| match to {
        Pairs::Half => deinterleave(heads, dim, start, rope),
        Pairs::Adjacent => interleave(heads, dim, start, rope),
    })
}

impl ModelSpec {
    /// The spec with this order of rotary pairs in every layer.
    pub fn with_pairs(self, pairs: Pairs) -> ModelSpec {
        self.each(|_, l| match &mut l.mixer {
            Mixer::Gqa(g) => g.rope.iter_mut().for_each(|r| r.pairs = pairs),
            Mixer::Mla(m) => m.rope.pairs = pairs,
            _ => {}
        })
    }
}

/// The way back of [`deinterleave`].
fn interleave(heads: usize, dim: usize, start: usize, rope: &Rope) -> Vec<u32> {
    let there = deinterleave(heads, dim, start, rope);
    let mut back = vec![0; there.len()];
    there.iter().zip(0..).for_each(|(&from, to)| back[from as usize] = to);
    back
}

fn deinterleave(heads: usize, dim: usize, start: usize, rope: &Rope) -> Vec<u32> {
    let half = rope.dim / 2;
    let inside = |d: usize| match d.checked_sub(start) {
        Some(r) if r < half => start + 2 * r,
        Some(r) if r < 2 * half => start + 2 * (r - half) + 1,
        _ => d,
    };
    (0..heads).flat_map(|h| (0..dim).map(move |d| (h * dim + inside(d)) as u32)).collect()
}

/// A vector with its numbers in the order of `order`.
pub(crate) fn reorder_columns(t: &Tensor, order: &[u32]) -> Result<Tensor> {
    let values = t.to_f32()?;
    let moved: Vec<f32> = order.iter().map(|&i| values[i as usize]).collect();
    Ok(Tensor::from_f32(&t.name, 1, moved.len(), &moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pairs_become_halves_and_the_rest_stays() {
        let rope = Rope {
            dim: 4,
            pairs: Pairs::Adjacent,
            freqs: vec![1.0, 0.1],
            long: None,
            magnitude: 1.0,
            axes: vec![],
        };
        assert_eq!(deinterleave(2, 6, 0, &rope), [0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11]);
        assert_eq!(deinterleave(1, 6, 2, &rope), [0, 1, 2, 4, 3, 5]);
        let wide = Rope { dim: 6, ..rope };
        assert_eq!(interleave(1, 8, 1, &wide), [0, 1, 4, 2, 5, 3, 6, 7]);
    }
}

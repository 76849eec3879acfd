//! Small edits of a spec, from which families are made.

use super::{Ffn, Gqa, Layer, Mixer, ModelSpec, Moe, Norm, QkNorm, QkSpan};

impl ModelSpec {
    /// The spec after a small edit of every layer, those of heads included.
    pub fn each(mut self, mut edit: impl FnMut(usize, &mut Layer)) -> Self {
        let heads = self.heads.iter_mut().map(|h| &mut h.layer);
        self.layers.iter_mut().chain(heads).enumerate().for_each(|(i, l)| edit(i, l));
        self
    }

    /// The spec after a small edit of every layer that may fail.
    ///
    /// # Errors
    /// The first one of `edit`.
    pub fn try_each<E>(
        mut self,
        mut edit: impl FnMut(usize, &mut Layer) -> Result<(), E>,
    ) -> Result<Self, E> {
        self.layers.iter_mut().enumerate().try_for_each(|(i, l)| edit(i, l))?;
        Ok(self)
    }

    /// The spec after a small edit of every layer's experts.
    pub fn each_moe(self, mut edit: impl FnMut(&mut Moe)) -> Self {
        self.each(|_, l| {
            if let Ffn::Moe(m) = &mut l.ffn {
                edit(m);
            }
        })
    }

    /// The spec with `norm` in all layers and at the end.
    pub fn with_norm(mut self, norm: Norm) -> Self {
        self.final_norm = Some(norm);
        self.each(|_, l| l.norm = norm)
    }

    /// The spec with a norm of queries and keys, of the kind of the layer's other norms, before the rotary embedding.
    pub fn with_qk_norm(self, over: QkSpan) -> Self {
        self.each(|_, l| {
            if let Mixer::Gqa(g) = &mut l.mixer {
                g.qk_norm = Some(QkNorm { norm: l.norm, over, after_rope: false });
            }
        })
    }

    /// The spec after a small edit of every grouped-query attention.
    pub fn each_gqa(self, mut edit: impl FnMut(usize, &mut Gqa)) -> Self {
        self.each(|i, l| {
            if let Mixer::Gqa(g) = &mut l.mixer {
                edit(i, g);
            }
        })
    }
}

//! What a name leads to in a checkpoint, before anything is cut or edited.

use crate::{
    names::{Canonical, Edit, Rule},
    packed::{Packing, Parts},
};
use lamina_base::{DType, HostTensor};

/// A rule with the stored tensors that it leads to.
pub struct Found<'a> {
    /// Where it leads.
    pub source: Source<'a>,
    /// The rule.
    pub rule: Rule,
}

impl Found<'_> {
    /// Biases and norms are vectors, whatever shape they are stored in.
    pub fn is_vector(&self, canonical: &Canonical<'_>) -> bool {
        let named = canonical.suffix == ".bias" || canonical.base.ends_with("_norm");
        let flat = |parts: &[HostTensor]| parts.iter().all(|p| p.shape.len() <= 1);
        named || matches!(&self.source, Source::Plain(parts) if flat(parts))
    }

    /// Type, rows and columns of what is stored, one piece below the other; turned where the rule says so.
    pub fn layout(&self) -> Option<(DType, usize, usize)> {
        let turned = self.rule.edit == Edit::Transpose;
        let parts = match &self.source {
            Source::Plain(parts) => parts,
            Source::Packed(packing, parts) => {
                let stack = packing.open(parts).ok()?;
                let (matrices, rows, cols) = stack.shape();
                let (rows, cols) = if turned { (cols, rows) } else { (rows, cols) };
                return Some((stack.dtype(), matrices * rows, cols));
            }
        };
        let (mut rows, mut cols) = (0, parts.first()?.cols());
        for part in parts {
            match &part.shape[..] {
                [.., r, _] if turned => (rows, cols) = (rows + part.elements() / r.max(&1), *r),
                _ => rows += part.rows(),
            }
        }
        Some((parts.first()?.dtype, rows, cols))
    }
}

/// Tensors of one name, or of one name for each expert.
pub enum Source<'a> {
    /// As they are.
    Plain(Vec<HostTensor>),
    /// Codes with their scales.
    Packed(&'a Packing, Vec<Parts>),
}

impl Source<'_> {
    /// Names in the checkpoint.
    pub fn names(&self) -> Vec<String> {
        match self {
            Source::Plain(parts) => parts.iter().map(|p| p.name.clone()).collect(),
            Source::Packed(_, parts) => parts.iter().flat_map(Parts::names).collect(),
        }
    }
}

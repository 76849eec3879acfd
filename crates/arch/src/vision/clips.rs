//! Matrices whose inputs and outputs are cut to bounds that files have beside them.

use super::{ClipBounds, VisionWeights};
use crate::error::{ArchError, Result};
use std::collections::BTreeMap;

/// Matrices of a block that may have bounds.
const MATRICES: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"];

impl VisionWeights<'_> {
    /// The bounds of all matrices that have any, by their canonical names.
    ///
    /// # Errors
    /// When one of the four numbers is missing or cannot be read, or a lower bound lies above the upper one.
    pub(super) fn clips(&self) -> Result<BTreeMap<String, ClipBounds>> {
        let mut found = BTreeMap::new();
        if !self.source.tensors.keys().any(|name| name.ends_with(ClipBounds::ENDINGS[1])) {
            return Ok(found);
        }
        for i in 0..self.encoder.layers.len() {
            for part in MATRICES {
                let name = format!("v.blk.{i}.{part}");
                let Some((stored, _)) = self.find(&format!("{name}.weight")) else { continue };
                let base = stored.name.strip_suffix(".weight").unwrap_or(&stored.name);
                // Folders have the matrix inside of what cuts.
                let base = base.strip_suffix(".linear").unwrap_or(base);
                if self.source.tensors.contains_key(&format!("{base}{}", ClipBounds::ENDINGS[1])) {
                    found.insert(name, self.bounds(base)?);
                }
            }
        }
        Ok(found)
    }

    fn bounds(&self, base: &str) -> Result<ClipBounds> {
        let number = |ending: &str| {
            let name = format!("{base}{ending}");
            let stored = self.source.tensors.get(&name);
            let missing = || ArchError::MissingTensor { name: name.clone(), tried: String::new() };
            let numbers = self.values(stored.cloned().ok_or_else(missing)?)?;
            match numbers[..] {
                [number] if !number.is_nan() => Ok(number),
                _ => Err(ArchError::value(&name, format!("{numbers:?}"), "one number")),
            }
        };
        let [a, b, c, d] = ClipBounds::ENDINGS.map(number);
        let bounds = ClipBounds { input: [a?, b?], output: [c?, d?] };
        let ordered = |[low, high]: [f32; 2]| low <= high;
        match ordered(bounds.input) && ordered(bounds.output) {
            true => Ok(bounds),
            false => Err(ArchError::value(base, format!("{bounds:?}"), "bounds of which the lower is below")),
        }
    }
}

//! What a step moves of a layer of the cache that lies on disk.

use crate::cost_shape::CostShape;
use lamina_plan::{PAGE_LEN, Plan, Reach};
use lamina_stream::{LayerRoom, LayerUse};

/// A layer of the cache on disk, which is read before an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerOnDisk {
    /// How far back its rows see.
    pub reach: Reach,
    /// Bytes of a page in the file.
    pub stride: f64,
    /// Cells of the step are stored by an earlier operator of it.
    pub again: bool,
    /// Cells of the step are stored.
    pub stores: bool,
}

impl LayerOnDisk {
    /// Bytes that a step reads of it: pages with cells of earlier steps that rows see.
    pub(crate) fn read(&self, shape: &CostShape) -> f64 {
        let seen = self.reach.first(shape.depth) / PAGE_LEN;
        let old = shape.depth.div_ceil(PAGE_LEN).max(seen) - seen;
        let stored = if self.again { pages_stored(shape) } else { 0.0 };
        self.stride * shape.sequences as f64 * (old as f64 + stored)
    }

    /// Bytes that a step writes of it: pages with cells of the step.
    pub(crate) fn written(&self, shape: &CostShape) -> f64 {
        let stored = if self.stores { pages_stored(shape) } else { 0.0 };
        self.stride * shape.sequences as f64 * stored
    }
}

/// Pages that rows of a sequence are stored in.
fn pages_stored(shape: &CostShape) -> f64 {
    ((shape.depth + shape.rows).div_ceil(PAGE_LEN) - shape.depth / PAGE_LEN) as f64
}

/// The layers of the cache of `plan` that are read from disk, each before the first operator that uses it.
pub fn layers_on_disk(plan: &Plan, room: &LayerRoom) -> Vec<Option<LayerOnDisk>> {
    let mut layers = vec![None; plan.ops.len()];
    for one in LayerUse::of(plan) {
        let group = plan.kv.layers[one.layer].group();
        let reach = group.map_or(Reach::All, |group| plan.kv.groups[group].reach);
        let stride = room.arrays.get(one.array).map_or(0.0, |array| array.stride as f64);
        layers[one.first] = Some(LayerOnDisk { reach, stride, again: one.again, stores: one.stores });
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_earlier_cells_are_read_and_those_of_the_rows_written() {
        let layer = LayerOnDisk { reach: Reach::All, stride: 10.0, again: false, stores: true };
        let shape = CostShape { sequences: 3, rows: 1, depth: 100, logits: 1 };
        let moved = |layer: LayerOnDisk, shape: &CostShape| (layer.read(shape), layer.written(shape));
        assert_eq!(moved(layer, &shape), (120.0, 30.0));
        // Cells 91 to 99 lie in two pages.
        assert_eq!(moved(LayerOnDisk { reach: Reach::Window(10), ..layer }, &shape), (60.0, 30.0));
        assert_eq!(moved(LayerOnDisk { again: true, stores: false, ..layer }, &shape), (150.0, 0.0));
        let prompt = CostShape { sequences: 1, rows: 70, depth: 0, logits: 1 };
        assert_eq!(moved(layer, &prompt), (0.0, 30.0));
        assert_eq!(moved(layer, &CostShape { depth: 32, ..prompt }), (10.0, 30.0));
    }
}

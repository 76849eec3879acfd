//! How much of each class of weights lies where, by the classes that rules of placement name.

use crate::{
    rules::{WEIGHT_CLASSES, weight_class},
    weights::WeightPlacement,
};
use lamina_plan::{Plan, WeightId, WeightKind};

/// The class of what rules cannot name: norms behind the last layer, and other small weights.
const OTHER: &str = "other";

/// Weights of one class, and how many of their bytes lie where, in the form of the kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassHome {
    /// `attention`, `ffn`, `experts`, `shared`, `head` or `embedding`, as rules of placement name them, or `other`.
    pub class: &'static str,
    /// Bytes in the memory of a device beside the host.
    pub device: u64,
    /// Bytes in memory: that of the host, or of the only device.
    pub memory: u64,
    /// Bytes on disk alone: of experts those that no slot has room for, of others what every step reads.
    pub disk: u64,
    /// Of those in memory and on disk, bytes that are sent to a device in every step.
    pub up: u64,
}

/// Where the weights of `plan` lie, those of adapters apart; classes without any are left out.
pub(crate) fn class_homes(plan: &Plan, weights: &WeightPlacement) -> Vec<ClassHome> {
    let (sizes, on_disk) = (&weights.sizes, disk_bytes(plan, weights));
    let class = |i: usize| weight_class(&plan.weights[i].name).unwrap_or(OTHER);
    let of = |name: &'static str| {
        let all = (0..sizes.len()).filter(|&i| class(i) == name && !sizes[i].of_adapter);
        let none = ClassHome { class: name, device: 0, memory: 0, disk: 0, up: 0 };
        let add = |sum: ClassHome, i: usize| ClassHome {
            device: sum.device + sizes[i].device,
            memory: sum.memory + sizes[i].bytes - on_disk[i].min(sizes[i].bytes),
            disk: sum.disk + on_disk[i],
            up: sum.up + sizes[i].sent,
            ..sum
        };
        all.fold(none, add)
    };
    let mut homes: Vec<ClassHome> = WEIGHT_CLASSES.iter().chain([&OTHER]).map(|name| of(name)).collect();
    if let Some(experts) = weights.experts()
        && let Some(home) = homes.iter_mut().find(|home| home.class == "experts")
    {
        let cached = experts.slots_bytes().min(experts.bytes);
        home.memory = home.memory.saturating_sub(experts.bytes) + cached;
        home.disk = experts.bytes - cached;
    }
    homes.retain(|home| home.device + home.memory + home.disk > 0);
    homes
}

/// Bytes of each weight that every step reads.
fn disk_bytes(plan: &Plan, weights: &WeightPlacement) -> Vec<u64> {
    let mut bytes = vec![0; plan.weights.len()];
    let Some(offload) = &weights.offload else { return bytes };
    for WeightId(part) in offload.rows.streamed.iter().flat_map(|op| &op.weights) {
        let (source, rows) = &offload.rows.cut.sources[*part as usize];
        if let (Some(layout), WeightKind::Matrix { .. }) =
            (&offload.layouts[source.0 as usize], plan.weight(*source).kind)
        {
            bytes[source.0 as usize] += (layout.panels_of(rows).len() * layout.panel_bytes) as u64;
        }
    }
    bytes
}

//! Where the weights of a model lie, by the classes that rules of placement name.

use crate::{class_home::ClassHome, stream::StreamPlan, uploads::WeightSize};
use lamina_plan::{Plan, WeightId, WeightKind};
use lamina_planner::{WEIGHT_CLASSES, weight_class};

/// The class of what rules cannot name: norms behind the last layer, and other small weights.
const OTHER: &str = "other";

/// Where the weights of `plan` lie, those of adapters apart; classes without any are left out.
pub(crate) fn class_homes(plan: &Plan, sizes: &[WeightSize], stream: Option<&StreamPlan>) -> Vec<ClassHome> {
    let on_disk = stream.map_or_else(|| vec![0; sizes.len()], |stream| disk_bytes(plan, stream));
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
    if let Some(experts) = stream.and_then(|stream| stream.experts.as_ref())
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
fn disk_bytes(plan: &Plan, stream: &StreamPlan) -> Vec<u64> {
    let mut bytes = vec![0; plan.weights.len()];
    let placement = stream.placement(plan);
    for WeightId(part) in placement.streamed.iter().flat_map(|op| &op.weights) {
        let (source, rows) = &placement.cut.sources[*part as usize];
        if let (Some(layout), WeightKind::Matrix { .. }) =
            (&stream.layouts[source.0 as usize], plan.weight(*source).kind)
        {
            bytes[source.0 as usize] += (layout.panels_of(rows).len() * layout.panel_bytes) as u64;
        }
    }
    bytes
}

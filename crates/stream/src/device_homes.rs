//! Which weights and which layers of the cache lie on a device beside the host.

use crate::{
    tier_order::ordered,
    tier_plan::{TierPlan, layout},
    tier_side::{TierSide, TierSides},
};
use lamina_plan::{
    KvLayout, LORA, Plan, WeightId, WeightKind, WeightSpec, backend::Result, op::Operands, whole_name,
};
use std::collections::{HashMap, HashSet};

/// What of a plan lies on a device beside the host. Matrices that it does not know lie on the host.
///
/// An operator is run by one machine: where one of its matrices, or its layer of the cache, lies on the host, all of them
/// do. The matrices of adapters lie with those that they change. Short vectors lie on both, long ones where they are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceHomes {
    weights: HashMap<WeightSpec, TierSides>,
    layers: Vec<TierSide>,
    /// Names of the device's matrices that it has no more of than a copy in a staging slot, while it multiplies with them.
    sent: HashSet<String>,
}

impl DeviceHomes {
    /// The homes of the weights of `plan` and of its layers of the cache, from what is wished of each.
    ///
    /// # Errors
    /// When the plan cannot be divided.
    pub fn of(
        plan: &Plan,
        weight: &dyn Fn(WeightId) -> TierSide,
        layer: &dyn Fn(usize) -> TierSide,
    ) -> Result<DeviceHomes> {
        let mut homes: Vec<TierSide> = (0..plan.weights.len()).map(|i| weight(base(plan, i))).collect();
        let mut layers: Vec<TierSide> = (0..plan.kv.layers.len()).map(layer).collect();
        while plan.ops.iter().any(|op| together(plan, op, &mut homes, &mut layers)) {}
        (0..homes.len()).for_each(|i| homes[i] = homes[base(plan, i).0 as usize]);
        let placed = |(spec, &side): (&WeightSpec, &TierSide)| match is_vector(spec) {
            true => TierSides::BOTH,
            false => TierSides::only(side),
        };
        let mut sides: Vec<TierSides> = plan.weights.iter().zip(&homes).map(placed).collect();
        let split = TierPlan::of(plan, &sides, &layers)?;
        let long: Vec<bool> = plan.weights.iter().map(is_long_vector).collect();
        (0..sides.len()).filter(|&i| long[i]).for_each(|i| sides[i] = TierSides::default());
        for (op, step) in plan.ops.iter().zip(&split.steps) {
            let used = op.weights().into_iter().map(|w| w.0 as usize);
            used.filter(|&w| long[w]).for_each(|w| sides[w] = sides[w].and(step.side));
        }
        let weights = plan.weights.iter().cloned().zip(sides).collect();
        Ok(DeviceHomes { weights, layers, sent: HashSet::new() })
    }

    /// The same where the device's matrices of which `sends` is true stay with the host, and are sent to the device whenever it
    /// multiplies with them. Adapters are small, and stay on the device.
    #[must_use]
    pub fn sending(self, plan: &Plan, sends: &dyn Fn(WeightId) -> bool) -> DeviceHomes {
        let is_sent = |i: &usize| {
            let own = base(plan, *i) == WeightId(*i as u32);
            let there = plan.weights[*i].kind.is_matrix() && self.sides(&plan.weights[*i]).device;
            own && there && sends(WeightId(*i as u32))
        };
        let sent = (0..plan.weights.len()).filter(is_sent).map(|i| plan.weights[i].name.clone()).collect();
        DeviceHomes { sent, ..self }
    }

    /// True for a matrix that the host has and the device multiplies with, or for some rows of one.
    pub fn is_sent(&self, spec: &WeightSpec) -> bool {
        spec.kind.is_matrix() && self.sent.contains(whole_name(&spec.name))
    }

    /// How `plan` is divided.
    ///
    /// # Errors
    /// When no machine has all weights of an operator.
    pub fn split(&self, plan: &Plan) -> Result<TierPlan> {
        let sides: Vec<TierSides> = plan.weights.iter().map(|w| self.sides(w)).collect();
        TierPlan::of(plan, &sides, &self.layers(&plan.kv))
    }

    /// `plan` in the order in which device and host compute at the same time, with the same bits. What cannot be divided stays
    /// as it is.
    pub fn ordered(&self, plan: Plan) -> Plan {
        match self.split(&plan) {
            Ok(split) => ordered(plan, &split),
            Err(_) => plan,
        }
    }

    /// Where a weight lies.
    pub fn sides(&self, spec: &WeightSpec) -> TierSides {
        let unknown = || match is_vector(spec) {
            true => TierSides::BOTH,
            false => TierSides::only(if self.is_sent(spec) { TierSide::Device } else { TierSide::Host }),
        };
        self.weights.get(spec).copied().unwrap_or_else(unknown)
    }

    /// Where the layers of a cache lie: all on the host for one that it does not know.
    pub fn layers(&self, kv: &KvLayout) -> Vec<TierSide> {
        match self.layers.len() == kv.layers.len() {
            true => self.layers.clone(),
            false => vec![TierSide::Host; kv.layers.len()],
        }
    }

    /// The layout of the layers that lie on `side`.
    pub fn layout(&self, kv: &KvLayout, side: TierSide) -> KvLayout {
        layout(kv, &self.layers(kv), side)
    }

    /// All of it in words: what computes which row depends on it.
    pub fn text(&self) -> String {
        let on_device = self.weights.iter().filter(|(_, sides)| sides.device);
        let mut names: Vec<String> =
            on_device.map(|(spec, sides)| format!("{} {:?} {sides:?}", spec.name, spec.kind)).collect();
        names.sort_unstable();
        format!("{names:?} {:?}", self.layers)
    }
}

/// Numbers of a vector that is not worth a place on both machines: biases of all experts of a layer have more.
const LONG_VECTOR: usize = 1 << 16;

fn is_long_vector(spec: &WeightSpec) -> bool {
    matches!(spec.kind, WeightKind::Vector { len } if len > LONG_VECTOR)
}

fn is_vector(spec: &WeightSpec) -> bool {
    matches!(spec.kind, WeightKind::Vector { .. })
}

/// The matrix that weight `i` belongs to: one of an adapter to that which it changes.
fn base(plan: &Plan, i: usize) -> WeightId {
    let name = &plan.weights[i].name;
    let changed = LORA.iter().find_map(|end| name.strip_suffix(end));
    let is = |w: &WeightSpec, name: &str| w.name == name && matches!(w.kind, WeightKind::Matrix { .. });
    let found = changed.and_then(|name| plan.weights.iter().position(|w| is(w, name)));
    WeightId(found.unwrap_or(i) as u32)
}

/// Takes all matrices of an operator, and its layer, to the host if one of them is there; true if something moved.
fn together(plan: &Plan, op: &impl Operands, homes: &mut [TierSide], layers: &mut [TierSide]) -> bool {
    let large: Vec<usize> = op.weights().into_iter().map(|w| w.0 as usize).collect();
    let large: Vec<usize> = large.into_iter().filter(|&w| !is_vector(&plan.weights[w])).collect();
    let layer = op.layer();
    let all = || large.iter().map(|&w| homes[w]).chain(layer.map(|kv| layers[kv]));
    if !all().any(|side| side == TierSide::Host) || all().all(|side| side == TierSide::Host) {
        return false;
    }
    large.iter().for_each(|&w| homes[w] = TierSide::Host);
    layer.into_iter().for_each(|kv| layers[kv] = TierSide::Host);
    true
}

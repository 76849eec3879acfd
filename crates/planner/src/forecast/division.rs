//! The search of a division: which parts of each class of weights are best on the device, in memory and on disk, as rules.

use crate::{
    cache_layers::layer_of,
    cost::CostModel,
    cost_shape::CostShape,
    rules::weight_class,
    search::{PLACES, PairedClass, PartClass, SearchLimits, best_placement},
};
use lamina_plan::{Plan, WeightId, op::Operands};
use lamina_stream::STAGING_SLOTS;
use std::collections::BTreeMap;

/// Classes that are searched: what rules can name and every layer has, and the head.
const SEARCHED: [&str; 5] = ["attention", "ffn", "shared", "experts", "head"];

/// The parts of a class: bytes and seconds of each layer that has any.
#[derive(Default)]
struct ClassParts {
    /// Bytes of weights, bytes with the cache beside them, seconds on the device and on the CPU.
    layers: BTreeMap<usize, (u64, u64, f64, f64)>,
    /// Bytes of weights of the largest operator.
    largest: u64,
    /// Bytes of all that a step sends where all are sent, and that it reads where all are on disk.
    sent: f64,
    read: f64,
}

/// What a search goes by.
pub struct SearchQuestion<'a> {
    /// The whole plan.
    pub plan: &'a Plan,
    /// Bytes of its weights.
    pub bytes: &'a [u64],
    /// Bytes of each layer of the cache.
    pub cache: &'a [u64],
    /// Work and speeds of the plan as a whole.
    pub model: &'a CostModel,
    /// Budgets of weights.
    pub limits: SearchLimits,
    /// Weights can be sent to the device.
    pub sends: bool,
    /// The step that shall be fast.
    pub shape: CostShape,
}

impl SearchQuestion<'_> {
    /// The rules of the division by which a step is fastest; none where nothing can be divided, or parts fit nowhere.
    pub fn rules(&self) -> Option<Vec<String>> {
        let found: Vec<(&str, ClassParts)> = SEARCHED
            .iter()
            .map(|name| (*name, self.parts(name)))
            .filter(|(_, c)| !c.layers.is_empty())
            .collect();
        let classes: Vec<PartClass> = found
            .iter()
            .map(|(name, parts)| PartClass { pair: pair(name), ..parts.class(self.sends) })
            .collect();
        let found_places = best_placement(&classes, &self.limits)?;
        let rules =
            found.iter().zip(&found_places.counts).flat_map(|((name, parts), n)| parts.rules(name, *n));
        Some(rules.collect())
    }

    /// Operators of a class, by layer. Attention without matrices goes with what projects for it.
    fn parts(&self, class: &str) -> ClassParts {
        let (mut parts, mut now) = (ClassParts::default(), 0);
        for (i, op) in self.plan.ops.iter().enumerate() {
            let large: Vec<WeightId> =
                op.weights().into_iter().filter(|w| self.plan.weight(*w).kind.is_matrix()).collect();
            let name = large.first().map(|w| self.plan.weight(*w).name.as_str());
            now = name.and_then(layer_of).unwrap_or(now);
            let own = match name {
                Some(name) => weight_class(name) == Some(class),
                None => class == "attention" && op.layer().is_some(),
            };
            if !own {
                continue;
            }
            let bytes: u64 = large.iter().map(|w| self.bytes[w.0 as usize]).sum();
            let cache = op.layer().map_or(0, |kv| self.cache[kv]);
            parts.largest = parts.largest.max(bytes);
            parts.sent += self.model.sent_share(i, &self.shape) * bytes as f64;
            parts.read += self.model.read_share(i, &self.shape) * bytes as f64;
            let part = parts.layers.entry(now).or_default();
            part.0 += bytes;
            part.1 += bytes + cache;
            part.2 += self.model.operator_seconds(i, &self.shape, true);
            part.3 += self.model.operator_seconds(i, &self.shape, false);
        }
        parts
    }
}

/// Classes that are computed at the same time by two machines.
fn pair(class: &str) -> Option<PairedClass> {
    match class {
        "experts" => Some(PairedClass::First),
        "shared" => Some(PairedClass::Second),
        _ => None,
    }
}

impl ClassParts {
    /// Parts alike, as the mean of all; `sends` is true for a device that they can be sent to.
    fn class(&self, sends: bool) -> PartClass {
        let n = self.layers.len().max(1);
        let sum =
            self.layers.values().fold((0, 0, 0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1, s.2 + p.2, s.3 + p.3));
        PartClass {
            bytes: sum.0 / n as u64,
            device_bytes: sum.1 / n as u64,
            sent_bytes: (self.sent / n as f64) as u64,
            read_bytes: (self.read / n as f64) as u64,
            slot_bytes: STAGING_SLOTS as u64 * self.largest,
            parts: self.layers.len(),
            seconds: (sum.2 / n as f64, sum.3 / n as f64),
            places: [true, true, sends, true, sends],
            pair: None,
        }
    }

    /// Rules that put the last layers on the device and the first ones on disk.
    fn rules(&self, class: &str, [device, ram, upload, disk, disk_upload]: [usize; PLACES]) -> Vec<String> {
        let layers: Vec<usize> = self.layers.keys().copied().collect();
        let rule = |place: &str, from: usize, count: usize| {
            let (first, last) = (layers[from], layers[from + count - 1]);
            match count == layers.len() {
                true => format!("{class}={place}"),
                false => format!("{class} {first}-{last}={place}"),
            }
        };
        let (mut from, mut rules) = (0, vec![]);
        let places =
            [("disk", disk), ("disk-up", disk_upload), ("ram", ram), ("up", upload), ("device", device)];
        for (place, count) in places.into_iter().filter(|(_, n)| *n > 0) {
            rules.push(rule(place, from, count));
            from += count;
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::PlacementRule;

    #[test]
    fn rules_name_every_layer_once_and_can_be_read() {
        let layers = (0..9).map(|layer| (layer, (1, 1, 1.0, 1.0))).collect();
        let parts = ClassParts { layers, ..ClassParts::default() };
        let rules = parts.rules("ffn", [1, 2, 3, 1, 2]);
        let want = ["ffn 0-0=disk", "ffn 1-2=disk-up", "ffn 3-4=ram", "ffn 5-7=up", "ffn 8-8=device"];
        assert_eq!(rules, want);
        assert!(rules.iter().all(|rule| rule.parse::<PlacementRule>().is_ok()));
        assert_eq!(parts.rules("ffn", [0, 0, 9, 0, 0]), ["ffn=up"]);
    }

    #[test]
    fn places_are_those_that_a_device_has() {
        let parts = ClassParts { largest: 5, ..ClassParts::default() };
        assert_eq!(parts.class(true).places, [true; PLACES]);
        assert_eq!(parts.class(false).places, [true, true, false, true, false]);
        assert_eq!(parts.class(true).slot_bytes, 10);
    }
}

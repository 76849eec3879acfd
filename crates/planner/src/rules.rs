//! Rules of the user's: which weights lie on a device, which in memory, and which are read from disk.

use lamina_plan::Plan;
use regex::Regex;
use std::{ops::RangeInclusive, str::FromStr};

/// Where a weight lies between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the memory of a device beside the host.
    Device,
    /// In memory.
    Ram,
    /// On disk: it is read in every step.
    Disk,
    /// In memory, as far as that has room: it is sent to a device whenever that multiplies with it, and does not stay there.
    Upload,
    /// On disk: it is read in every step, and sent to a device.
    DiskUpload,
}

impl Home {
    /// True where a device multiplies with the weight.
    pub fn on_device(self) -> bool {
        matches!(self, Home::Device) || self.is_sent()
    }

    /// True where the weight is sent to a device in every step.
    pub fn is_sent(self) -> bool {
        matches!(self, Home::Upload | Home::DiskUpload)
    }

    /// True where the weight is read from disk in every step.
    pub fn is_read(self) -> bool {
        matches!(self, Home::Disk | Home::DiskUpload)
    }
}

/// Parts of a model that users name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeightClass {
    Attention,
    Ffn,
    Experts,
    Shared,
    Head,
    Embedding,
}

/// The names of the classes of weights that rules speak of.
pub const WEIGHT_CLASSES: [&str; 6] = {
    let mut names = [""; 6];
    let mut i = 0;
    while i < names.len() {
        names[i] = WeightClass::ALL[i].0;
        i += 1;
    }
    names
};

/// The class of a weight, by its canonical name; none for what rules cannot name.
pub fn weight_class(name: &str) -> Option<&'static str> {
    let class = WeightClass::of(name)?;
    WeightClass::ALL.iter().find(|(_, other)| *other == class).map(|(name, _)| *name)
}

impl WeightClass {
    const ALL: [(&str, WeightClass); 6] = [
        ("attention", WeightClass::Attention),
        ("ffn", WeightClass::Ffn),
        ("experts", WeightClass::Experts),
        ("shared", WeightClass::Shared),
        ("head", WeightClass::Head),
        ("embedding", WeightClass::Embedding),
    ];

    /// The class of a weight, by its canonical name.
    fn of(name: &str) -> Option<WeightClass> {
        let inside = name.strip_prefix("blk.").and_then(|rest| Some(rest.split_once('.')?.1));
        Some(match (inside, name) {
            (Some(part), _) if part.contains("_exps") => WeightClass::Experts,
            (Some(part), _) if part.contains("_shexp") => WeightClass::Shared,
            (Some(part), _) if part.starts_with("ffn") => WeightClass::Ffn,
            // What mixes rows: attention, and recurrent layers in its place.
            (Some(_), _) => WeightClass::Attention,
            (None, name) if name.starts_with("output.") => WeightClass::Head,
            (None, name) if name.contains("embd") => WeightClass::Embedding,
            _ => return None,
        })
    }
}

/// What a rule speaks of.
#[derive(Clone, Debug)]
enum RuleTarget {
    /// A class, of some layers or of all.
    Class(WeightClass, Option<RangeInclusive<usize>>),
    /// Layers.
    Layers(RangeInclusive<usize>),
    /// The cache, of some layers or of all.
    Cache(Option<RangeInclusive<usize>>),
    /// Names.
    Names(Regex),
}

impl RuleTarget {
    fn matches(&self, name: &str) -> bool {
        let layer = || name.strip_prefix("blk.")?.split('.').next()?.parse::<usize>().ok();
        let inside = |layers: &RangeInclusive<usize>| layer().is_some_and(|n| layers.contains(&n));
        match self {
            RuleTarget::Class(class, layers) => {
                WeightClass::of(name) == Some(*class) && layers.as_ref().is_none_or(inside)
            }
            RuleTarget::Layers(layers) => inside(layers),
            RuleTarget::Cache(_) => false,
            RuleTarget::Names(regex) => regex.is_match(name),
        }
    }
}

/// Why rules cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It is no rule.
    #[error(
        "`{rule}` is no rule: {problem}; rules are WHAT=WHERE, such as ffn=disk, layers 0-9=ram or blk\\.[0-9]\\.ffn_.*=disk"
    )]
    Form {
        /// The rule.
        rule: String,
        /// What is wrong.
        problem: String,
    },
    /// No weight has such a name.
    #[error("the rule `{rule}` names no weight of this model; it has {some}, and others")]
    NoMatch {
        /// The rule.
        rule: String,
        /// Some names.
        some: String,
    },
    /// What it names cannot be read from disk in parts.
    #[error(
        "the rule `{rule}` names weights that always stay in memory: norms, biases, routers, adapters, matrices that several operators share, and experts that a device keeps a matrix of"
    )]
    Resident {
        /// The rule.
        rule: String,
    },
}

/// `WHAT=WHERE`: weights and their home. WHAT is a class (`attention`, `ffn`, `experts`, `shared`, `head`, `embedding`),
/// also of some layers (`ffn 0-9`), layers (`layers 0-9`), or a regular expression that a canonical (GGUF) name contains;
/// WHERE is `device`, `ram` (also `cpu`) or `disk`, or what is sent to a device whenever that multiplies with it: `up` from
/// memory, `disk-up` from disk. WHAT may also be the cache, `kv` or that of some layers (`kv 0-9`),
/// which is on a device, in memory, or on disk; recurrent states are never there.
#[derive(Clone, Debug)]
pub struct PlacementRule {
    text: String,
    target: RuleTarget,
    home: Home,
}

impl PartialEq for PlacementRule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl PlacementRule {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where what it names lies.
    pub fn home(&self) -> Home {
        self.home
    }

    /// True where it speaks of the cache, and not of weights.
    pub fn is_of_cache(&self) -> bool {
        matches!(self.target, RuleTarget::Cache(_))
    }
}

impl FromStr for PlacementRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<PlacementRule, RuleError> {
        let wrong = |problem: &str| RuleError::Form { rule: text.to_owned(), problem: problem.to_owned() };
        let (what, home) = text.rsplit_once('=').ok_or_else(|| wrong("there is no ="))?;
        let home = match home.trim().to_ascii_lowercase().as_str() {
            "ram" | "cpu" => Home::Ram,
            "disk" => Home::Disk,
            "up" => Home::Upload,
            "disk-up" => Home::DiskUpload,
            "device" | "device:0" | "gpu" | "cuda" | "cuda0" | "cuda:0" => Home::Device,
            other if other.starts_with("device") || other.starts_with("cuda") || other.starts_with("gpu") => {
                return Err(wrong("a model is divided between one device and memory: WHERE is device"));
            }
            _ => return Err(wrong("WHERE is device, ram, disk, up or disk-up")),
        };
        let what = what.trim();
        let (word, layers) = what.split_once(' ').map_or((what, None), |(word, rest)| (word, Some(rest)));
        let layers =
            layers.map(|l| range(l).ok_or_else(|| wrong("layers are given as 0-9 or 7"))).transpose();
        let class = WeightClass::ALL.iter().find(|(name, _)| *name == word).map(|(_, class)| *class);
        let target = match (class, word) {
            (Some(class), _) => RuleTarget::Class(class, layers?),
            (None, "layers") => RuleTarget::Layers(layers?.ok_or_else(|| wrong("which layers?"))?),
            (None, "kv") if home.is_sent() => {
                return Err(wrong("the cache is on a device, in memory or on disk"));
            }
            (None, "kv") => RuleTarget::Cache(layers?),
            (None, "activations") => return Err(wrong("activations are where operators run")),
            _ => RuleTarget::Names(Regex::new(what).map_err(|e| wrong(&e.to_string()))?),
        };
        Ok(PlacementRule { text: text.to_owned(), target, home })
    }
}

fn range(text: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
    Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
}

/// The home that rules give the cache of each layer, by the number of the layer; none where no rule speaks of it.
pub fn cache_homes(layers: &[usize], rules: &[PlacementRule]) -> Vec<Option<Home>> {
    let names = |rule: &&PlacementRule, layer: usize| match &rule.target {
        RuleTarget::Cache(layers) => layers.as_ref().is_none_or(|layers| layers.contains(&layer)),
        _ => false,
    };
    layers.iter().map(|&layer| rules.iter().find(|rule| names(rule, layer)).map(|rule| rule.home)).collect()
}

/// The home that rules give each weight of `plan`, the first that matches; none where no rule speaks of it. `streamable`
/// says which can be read from disk.
///
/// # Errors
/// When a rule names no weight, or asks for the disk for none that can be read from it.
pub fn homes(
    plan: &Plan,
    rules: &[PlacementRule],
    streamable: &[bool],
) -> Result<Vec<Option<Home>>, RuleError> {
    for rule in rules.iter().filter(|rule| !rule.is_of_cache()) {
        let named = |i: usize| rule.target.matches(&plan.weights[i].name);
        let all: Vec<usize> = (0..plan.weights.len()).filter(|&i| named(i)).collect();
        if all.is_empty() {
            let some: Vec<_> = plan.weights.iter().rev().take(3).map(|w| w.name.as_str()).collect();
            return Err(RuleError::NoMatch { rule: rule.text.clone(), some: some.join(", ") });
        }
        if rule.home.is_read() && !all.iter().any(|&i| streamable[i]) {
            return Err(RuleError::Resident { rule: rule.text.clone() });
        }
    }
    let first = |name: &str| rules.iter().find(|rule| rule.target.matches(name)).map(|rule| rule.home);
    Ok(plan.weights.iter().map(|w| first(&w.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: &str, name: &str) -> bool {
        rule.parse::<PlacementRule>().expect("a rule").target.matches(name)
    }

    #[test]
    fn classes_layers_and_names_are_matched() {
        assert!(
            matches("ffn=disk", "blk.3.ffn_up.weight") && !matches("ffn=disk", "blk.3.ffn_up_exps.weight")
        );
        assert!(matches("experts 0-2=ram", "blk.2.ffn_up_exps.weight"));
        assert!(!matches("experts 0-2=ram", "blk.3.ffn_up_exps.weight"));
        assert!(matches("shared=ram", "blk.1.ffn_gate_shexp.weight"));
        assert!(
            matches("attention=disk", "blk.0.attn_q.weight")
                && matches("attention=disk", "blk.0.ssm_in.weight")
        );
        assert!(matches("head=disk", "output.weight") && !matches("head=disk", "output_norm.weight"));
        assert!(matches("embedding=ram", "token_embd.weight"));
        assert!(
            matches("layers 7=disk", "blk.7.attn_q.weight")
                && !matches("layers 7=disk", "blk.17.attn_q.weight")
        );
        assert!(matches(r"blk\.(2\d)\.ffn_.*=disk", "blk.21.ffn_up.weight"));
        assert!(matches("exps=CPU", "blk.21.ffn_up_exps.weight"));
    }

    #[test]
    fn the_cache_is_named_apart() {
        let rules: Vec<PlacementRule> =
            ["kv 2-2=ram", "kv 3=disk", "kv=device"].iter().map(|r| r.parse().expect("a rule")).collect();
        let homes = cache_homes(&[0, 2, 3, 7], &rules);
        assert_eq!(homes, [Home::Device, Home::Ram, Home::Disk, Home::Device].map(Some));
        assert!(rules[1].is_of_cache() && rules[1].home().is_read());
        assert!(!matches("kv=ram", "blk.0.attn_k.weight"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        let wrong = [
            "ffn",
            "ffn=",
            "ffn=tape",
            "ffn x=ram",
            "layers=ram",
            "(=ram",
            "kv=disk-up",
            "kv=up",
            "ffn=down",
            "kv x=ram",
            "ffn=device:1",
        ];
        for text in wrong {
            let error = text.parse::<PlacementRule>().expect_err(text).to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}

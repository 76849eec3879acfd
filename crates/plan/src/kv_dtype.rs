//! Number types of the cache as users write them: `q8_0`, `k=q8_0,v=q4_0`, `window=f16,full.k=q8_0`.

use crate::kv::{KvType, KvTypes, Reach};
use std::{fmt, str::FromStr};

/// Kinds of layer groups with the names that users write.
const KINDS: [&str; 3] = ["full", "window", "chunk"];

/// Number types of keys and values, for each kind of layer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvDtype {
    /// In the order of [`KINDS`].
    kinds: [KvTypes; 3],
}

impl KvDtype {
    /// The types of a group of this reach.
    pub fn of(self, reach: Reach) -> KvTypes {
        self.kinds[match reach {
            Reach::All => 0,
            Reach::Window(_) => 1,
            Reach::Chunk(_) => 2,
        }]
    }

    /// What groups have, as it is stored.
    pub fn of_groups(groups: impl IntoIterator<Item = (Reach, KvTypes)>) -> Option<KvDtype> {
        let mut groups = groups.into_iter().peekable();
        let mut all = KvDtype { kinds: [groups.peek()?.1; 3] };
        for (reach, types) in groups {
            let kind = KINDS.iter().position(|k| *k == kind(reach));
            kind.into_iter().for_each(|i| all.kinds[i] = types);
        }
        Some(all)
    }
}

fn kind(reach: Reach) -> &'static str {
    match reach {
        Reach::All => KINDS[0],
        Reach::Window(_) => KINDS[1],
        Reach::Chunk(_) => KINDS[2],
    }
}

impl Default for KvDtype {
    fn default() -> Self {
        KvType::F16.into()
    }
}

impl From<KvType> for KvDtype {
    fn from(one: KvType) -> KvDtype {
        KvDtype { kinds: [one.into(); 3] }
    }
}

impl From<KvTypes> for KvDtype {
    fn from(types: KvTypes) -> KvDtype {
        KvDtype { kinds: [types; 3] }
    }
}

/// A `kv_dtype` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is none of f32 f16 bf16 q8_0 q4_0 q4_1 fp8, nor a list such as `k=q8_0,v=q4_0` or \
     `window=f16,full.k=q8_0` (groups: full window chunk)"
)]
pub struct UnknownKvDtype(String);

impl FromStr for KvDtype {
    type Err = UnknownKvDtype;

    /// One type for all, or settings from left to right: `k=`, `v=`, a group `window=`, or one of its two `window.k=`.
    fn from_str(s: &str) -> Result<Self, UnknownKvDtype> {
        let unknown = |part: &str| UnknownKvDtype(part.to_owned());
        if !s.contains('=') {
            return s.parse::<KvType>().map(KvDtype::from).map_err(|_| unknown(s));
        }
        let mut all = KvDtype::default();
        for part in s.split(',').map(str::trim) {
            let (name, value) = part.split_once('=').ok_or_else(|| unknown(part))?;
            let value: KvType = value.trim().parse().map_err(|_| unknown(part))?;
            let name = name.trim();
            let (group, side) = name.split_once('.').unwrap_or(match name {
                "k" | "v" => ("", name),
                group => (group, ""),
            });
            if !(group.is_empty() || KINDS.contains(&group)) || !matches!(side, "" | "k" | "v") {
                return Err(unknown(part));
            }
            let kinds =
                all.kinds.iter_mut().zip(KINDS).filter(|(_, kind)| group.is_empty() || *kind == group);
            for (types, _) in kinds {
                if side != "v" {
                    types.k = value;
                }
                if side != "k" {
                    types.v = value;
                }
            }
        }
        Ok(all)
    }
}

impl fmt::Display for KvDtype {
    /// The shortest form that [`FromStr`] reads as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = self.kinds[0];
        if self.kinds == [full; 3] {
            return write!(f, "{full}");
        }
        let parts = KINDS.iter().zip(self.kinds).map(|(kind, types)| match types {
            KvTypes { k, v } if k == v => format!("{kind}={k}"),
            KvTypes { k, v } => format!("{kind}.k={k},{kind}.v={v}"),
        });
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_is_read_and_written() {
        let types = |k, v| KvTypes { k, v };
        let parse = |s: &str| s.parse::<KvDtype>().expect("reads");
        assert_eq!(parse("q8_0").of(Reach::All), KvType::Q8_0.into());
        assert_eq!(parse("k=q8_0,v=q4_0").of(Reach::Window(9)), types(KvType::Q8_0, KvType::Q4_0));
        let mixed = parse("window=f32, full.k=q8_0, full.v=q4_0");
        assert_eq!(mixed.of(Reach::All), types(KvType::Q8_0, KvType::Q4_0));
        assert_eq!(mixed.of(Reach::Window(4)), KvType::F32.into());
        assert_eq!(mixed.of(Reach::Chunk(4)), KvType::F16.into());
        for s in ["fp8", "k=q8_0,v=q4_0", "window=f32,full.k=q8_0,full.v=q4_0", "K=q8_0"] {
            let Ok(once) = s.parse::<KvDtype>() else {
                assert_eq!(s, "K=q8_0");
                continue;
            };
            assert_eq!(parse(&once.to_string()), once, "{once}");
        }
        for s in ["", "q9", "k=", "k=q9", "windows=f16", "full.x=f16", "k=f16,", "f16,v=q8_0", "full.k.v=f16"]
        {
            assert!(s.parse::<KvDtype>().is_err(), "{s}");
        }
    }

    #[test]
    fn groups_say_what_they_store() {
        let f16 = KvTypes::from(KvType::F16);
        let said = KvDtype::of_groups([(Reach::All, KvType::Q8_0.into()), (Reach::Window(8), f16)]);
        assert_eq!(said.map(|s| s.of(Reach::Window(8))), Some(f16));
        assert_eq!(KvDtype::of_groups([(Reach::All, f16)]).map(|s| s.to_string()), Some("f16".into()));
    }
}

//! Which machine has which layers.

use crate::{RankError, Result};
use std::{fmt, ops::Range, str::FromStr};

/// A rank by its address, and how many layers it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageAddress {
    /// `HOST:PORT`.
    pub address: String,
    /// Layers; none: by its memory.
    pub layers: Option<usize>,
}

impl FromStr for StageAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let must = "must be HOST:PORT or HOST:PORT=LAYERS, several with commas between them";
        let (address, layers) =
            text.trim().split_once('=').map_or((text.trim(), None), |(a, n)| (a, Some(n)));
        let layers = layers.map(|n| n.parse().ok().filter(|&n: &usize| n > 0).ok_or(must)).transpose()?;
        match is_address(address) {
            true => Ok(StageAddress { address: address.to_owned(), layers }),
            false => Err(must),
        }
    }
}

/// True for `HOST:PORT`.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Ranks that have some rows of each matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankList {
    /// Processes by their addresses, beside the leader; none of them: nothing is divided.
    At(Vec<String>),
    /// So many in this process, the leader one of them.
    Here(usize),
    /// One in this process for each node of the machine's memory.
    Nodes,
}

impl RankList {
    /// Ranks in one process, at most.
    pub const MOST: usize = 64;

    /// True where nothing is divided.
    pub fn is_empty(&self) -> bool {
        match self {
            RankList::At(addresses) => addresses.is_empty(),
            RankList::Here(ranks) => *ranks == 1,
            RankList::Nodes => false,
        }
    }
}

impl Default for RankList {
    fn default() -> RankList {
        RankList::At(vec![])
    }
}

impl FromStr for RankList {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let must = "must be HOST:PORT, several with commas between them, or a number of ranks in this process from 1 to 64, or numa";
        match (text.trim(), text.trim().parse()) {
            ("numa", _) => return Ok(RankList::Nodes),
            (_, Ok(ranks)) if (1..=RankList::MOST).contains(&ranks) => return Ok(RankList::Here(ranks)),
            _ => {}
        }
        let addresses = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let one = |text: &str| if is_address(text) { Ok(text.to_owned()) } else { Err(must) };
        Ok(RankList::At(addresses.map(one).collect::<std::result::Result<_, _>>()?))
    }
}

impl fmt::Display for StageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layers {
            Some(layers) => write!(f, "{}={layers}", self.address),
            None => f.write_str(&self.address),
        }
    }
}

/// The ranks of a model, in the order of their layers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageList(pub Vec<StageAddress>);

impl FromStr for StageList {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let stages = text.split(',').filter(|part| !part.trim().is_empty()).map(str::parse);
        Ok(StageList(stages.collect::<std::result::Result<_, _>>()?))
    }
}

/// What a machine gets of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageShare {
    /// So many.
    Layers(usize),
    /// As many as its part of the memory of all that have no number; these are bytes.
    Memory(u64),
}

impl StageShare {
    /// The layers that it has a number of; 0 for one by memory.
    fn layers(&self) -> usize {
        if let StageShare::Layers(n) = self { *n } else { 0 }
    }
}

/// Layers that no border divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerUnit {
    /// How many.
    pub layers: usize,
    /// Bytes of their weights.
    pub bytes: u64,
}

/// Divides `units`, in order, among machines with these shares, of which the first may get none of them. Ranges of units.
///
/// # Errors
/// When there are fewer units than machines need, or no border is where a number of layers wants one.
pub fn divide(units: &[LayerUnit], shares: &[StageShare]) -> Result<Vec<Range<usize>>> {
    let all = layers(units);
    let asked: usize = shares.iter().map(StageShare::layers).sum();
    let open = shares.iter().any(|s| matches!(s, StageShare::Memory(_)));
    if asked > all || (!open && asked < all) {
        return Err(told(format!("its stages have {asked} layers, but the model has {all}")));
    }
    let (mut start, mut parts) = (0, vec![]);
    for i in 0..shares.len() {
        let end = start + units_of(&units[start..], &shares[i..], i == 0)?;
        parts.push(start..end);
        start = end;
    }
    match start == units.len() {
        true => Ok(parts),
        false => {
            Err(told(format!("{} of its parts are left over: give one stage no number", units.len() - start)))
        }
    }
}

/// How many of the units that are left the first of the machines that are left gets.
fn units_of(units: &[LayerUnit], shares: &[StageShare], may_be_none: bool) -> Result<usize> {
    match shares[0] {
        StageShare::Layers(wanted) => {
            let found = (0..=units.len()).find(|&n| layers(&units[..n]) == wanted);
            found.ok_or_else(|| told(format!("it cannot be cut behind {wanted} layers of a stage")))
        }
        StageShare::Memory(_) => by_memory(units, shares, may_be_none)
            .ok_or_else(|| told("it has fewer layers than machines that share them".into())),
    }
}

/// The same by memory: the border that is nearest to the machine's share of the bytes, where the later ones keep enough.
fn by_memory(units: &[LayerUnit], shares: &[StageShare], may_be_none: bool) -> Option<usize> {
    let later = &shares[1..];
    let memory = |s: &StageShare| if let StageShare::Memory(m) = s { Some(*m as f64) } else { None };
    let asked: usize = later.iter().map(StageShare::layers).sum();
    let open = later.iter().filter_map(memory).count();
    // What stays: layers of those with numbers, and a unit for each machine.
    let room = |n: usize| units.len() >= n + later.len() && layers(&units[n..]) >= asked + open;
    let taken = |n: usize| units[..n].iter().map(|unit| unit.bytes as f64).sum::<f64>();
    let shared = taken(units.len()) * (1.0 - asked as f64 / layers(units).max(1) as f64);
    let all: f64 = shares.iter().filter_map(memory).sum();
    let wanted = if open == 0 { f64::INFINITY } else { shared * memory(&shares[0])? / all.max(1.0) };
    // A unit more where its middle is inside.
    let fits = |&n: &usize| room(n) && taken(n - 1) / 2.0 + taken(n) / 2.0 <= wanted;
    let found = (1..=units.len()).take_while(fits).last().unwrap_or(0);
    let least = usize::from(!may_be_none);
    (found >= least || room(least)).then_some(found.max(least))
}

fn layers(units: &[LayerUnit]) -> usize {
    units.iter().map(|unit| unit.layers).sum()
}

fn told(what: String) -> RankError {
    RankError::Told(format!("the model cannot be divided into these stages: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(counts: &[usize]) -> Vec<LayerUnit> {
        counts.iter().map(|&layers| LayerUnit { layers, bytes: 100 * layers as u64 }).collect()
    }

    fn ends(layers: &[usize], shares: &[StageShare]) -> Result<Vec<usize>> {
        Ok(divide(&units(layers), shares)?.iter().map(|part| part.end).collect())
    }

    #[test]
    fn layers_go_by_memory_or_by_number() {
        use StageShare::{Layers, Memory};
        assert_eq!(ends(&[1; 12], &[Memory(10), Memory(10)]).unwrap(), [6, 12]);
        assert_eq!(ends(&[1; 12], &[Memory(10), Memory(30), Memory(20)]).unwrap(), [2, 8, 12]);
        assert_eq!(ends(&[1; 12], &[Memory(10), Layers(9), Memory(20)]).unwrap(), [1, 10, 12]);
        assert_eq!(ends(&[1; 12], &[Memory(10), Layers(9)]).unwrap(), [3, 12]);
        assert_eq!(ends(&[1; 12], &[Layers(4), Memory(1)]).unwrap(), [4, 12]);
        assert_eq!(ends(&[1; 12], &[Memory(0), Memory(1)]).unwrap(), [0, 12], "the leader may have none");
        assert_eq!(ends(&[1; 3], &[Memory(1000), Memory(1), Memory(1)]).unwrap(), [1, 2, 3]);
        assert_eq!(ends(&[2, 1, 3], &[Memory(1), Layers(3)]).unwrap(), [2, 3]);
        assert_eq!(ends(&[1, 1, 1, 17], &[Memory(100), Memory(10), Memory(10)]).unwrap(), [2, 3, 4]);
    }

    #[test]
    fn what_cannot_be_divided_is_said() {
        use StageShare::{Layers, Memory};
        let why = |layers: &[usize], shares: &[StageShare]| ends(layers, shares).unwrap_err().to_string();
        assert!(why(&[1; 4], &[Layers(1), Layers(2)]).contains("have 3 layers, but the model has 4"));
        assert!(why(&[1; 4], &[Memory(1), Layers(5)]).contains("have 5 layers"));
        assert!(why(&[2, 2], &[Layers(1), Memory(1)]).contains("behind 1 layers"));
        assert!(why(&[1; 2], &[Memory(1), Memory(1), Memory(1), Memory(1)]).contains("fewer layers"));
    }

    #[test]
    fn addresses_are_host_port_and_layers() {
        let read = |text: &str| text.parse::<StageAddress>().ok().map(|s| (s.address, s.layers));
        assert_eq!(read("h:1"), Some(("h:1".into(), None)));
        assert_eq!(read(" [::1]:9000=12"), Some(("[::1]:9000".into(), Some(12))));
        for wrong in ["", "h", ":1", "h:x", "h:1=", "h:1=0", "h:1=-1", "h:70000"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let read = |text: &str| match text.parse::<RankList>() {
            Ok(RankList::At(addresses)) => Some(addresses.join(" ")),
            Ok(other) => Some(format!("{other:?}")),
            Err(_) => None,
        };
        assert_eq!(read("h:1, [::1]:9000 ,"), Some("h:1 [::1]:9000".into()));
        assert_eq!((read("h:1=2"), read("h"), read("")), (None, None, Some(String::new())));
        assert_eq!(
            ["1", " 64", "numa"].map(read),
            ["Here(1)", "Here(64)", "Nodes"].map(|text| Some(text.into()))
        );
        assert_eq!(["0", "65", "-1", "2,3", "numa,h:1"].map(read), [const { None }; 5]);
    }
}

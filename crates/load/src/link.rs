//! What lies between machines, as a user says it: a network by its name, figures, or a rank to which it is measured.

use crate::{
    error::Result,
    met_rank::{join_soon, key_for, of_rank},
};
use lamina_planner::{BadValue, StageLink};
use lamina_ranks::measure_line;
use std::str::FromStr;

/// What lies between machines.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkChoice {
    /// Its figures are known.
    Known(StageLink),
    /// They are measured to the `lamina rank` at this address.
    Rank(String),
}

impl LinkChoice {
    /// How one is written.
    pub fn forms() -> String {
        format!("{}; or HOST:PORT of a `lamina rank`, to which it is measured", StageLink::forms())
    }

    /// Its figures, which a rank takes seconds to tell.
    ///
    /// # Errors
    /// When the rank cannot be reached, serves somebody else, or has another key.
    pub fn link(&self) -> Result<StageLink> {
        let address = match self {
            LinkChoice::Known(link) => return Ok(*link),
            LinkChoice::Rank(address) => address,
        };
        let key = key_for(&[address])?;
        let line = join_soon(address, key.as_ref()).map_err(|e| of_rank(address, e))?;
        let speed = measure_line(&line).map_err(|e| of_rank(address, e))?;
        Ok(StageLink::measured(speed.seconds, speed.rate))
    }
}

impl Default for LinkChoice {
    fn default() -> Self {
        LinkChoice::Known(StageLink::default())
    }
}

impl FromStr for LinkChoice {
    type Err = BadValue;

    fn from_str(text: &str) -> std::result::Result<LinkChoice, BadValue> {
        let address = |text: &str| {
            let (host, port) = text.rsplit_once(':')?;
            (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| text.to_owned())
        };
        match (text.parse(), address(text.trim())) {
            (Ok(link), _) => Ok(LinkChoice::Known(link)),
            (Err(_), Some(address)) => Ok(LinkChoice::Rank(address)),
            (Err(_), None) => Err(BadValue::must_be(&LinkChoice::forms())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_known_or_a_rank_tells_it() {
        assert_eq!("10GbE".parse(), Ok(LinkChoice::default()));
        let rank = |text: &str| Ok(LinkChoice::Rank(text.to_owned()));
        assert_eq!("a.example:9000".parse(), rank("a.example:9000"));
        assert_eq!(" [::1]:9000".parse(), rank("[::1]:9000"));
        for wrong in ["wire", ":9000", "host:", "host:0", "host:65536", "host:x"] {
            let refused = wrong.parse::<LinkChoice>();
            assert!(refused.is_err_and(|e| e.to_string().contains("HOST:PORT")), "{wrong}");
        }
    }
}

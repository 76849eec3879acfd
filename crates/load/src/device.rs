//! Devices as users write them. Which of them a build has is known further up, where backends have names.

use crate::setting::BadValue;
use std::{fmt, str::FromStr};

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The fastest that there is.
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA GPU by its number; `cuda` alone is the first.
    Cuda(usize),
    /// The GPU of a Mac.
    Metal,
}

impl FromStr for Device {
    type Err = BadValue;

    fn from_str(s: &str) -> Result<Device, BadValue> {
        let unknown = || BadValue::must_be("auto, cpu, cuda, cuda:N or metal");
        match s {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            "metal" => Ok(Device::Metal),
            _ => {
                let number = s.strip_prefix("cuda:").and_then(|n| n.parse().ok());
                number.map(Device::Cuda).ok_or_else(unknown)
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(n) => write!(f, "cuda:{n}"),
            Device::Metal => f.write_str("metal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in ["auto", "cpu", "cuda:0", "cuda:3", "metal"] {
            assert_eq!(name.parse::<Device>().map(|d| d.to_string()), Ok(name.to_owned()));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for wrong in ["", "tpu", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert!(wrong.parse::<Device>().is_err_and(|e| e.0.contains("auto")), "{wrong}");
        }
    }
}

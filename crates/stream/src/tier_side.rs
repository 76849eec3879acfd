//! The two machines that a plan is divided between.

/// One of two machines: a device with memory of its own, or the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TierSide {
    /// The device.
    Device,
    /// The host.
    Host,
}

impl TierSide {
    /// Both, in the order in which pages and states of both are written.
    pub const BOTH: [TierSide; 2] = [TierSide::Device, TierSide::Host];

    /// The other one.
    pub fn other(self) -> TierSide {
        match self {
            TierSide::Device => TierSide::Host,
            TierSide::Host => TierSide::Device,
        }
    }
}

/// Which of the two machines have something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSides {
    /// The device.
    pub device: bool,
    /// The host.
    pub host: bool,
}

impl TierSides {
    /// Both.
    pub const BOTH: TierSides = TierSides { device: true, host: true };

    /// One of them.
    pub fn only(side: TierSide) -> TierSides {
        TierSides { device: side == TierSide::Device, host: side == TierSide::Host }
    }

    /// True where `side` has it.
    pub fn has(self, side: TierSide) -> bool {
        match side {
            TierSide::Device => self.device,
            TierSide::Host => self.host,
        }
    }

    /// With `side` too.
    #[must_use]
    pub fn and(self, side: TierSide) -> TierSides {
        let added = TierSides::only(side);
        TierSides { device: self.device || added.device, host: self.host || added.host }
    }

    /// Where both this and the other are.
    #[must_use]
    pub fn both(self, other: TierSides) -> TierSides {
        TierSides { device: self.device && other.device, host: self.host && other.host }
    }
}

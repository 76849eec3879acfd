//! The two parts that kernels come in (`kernels/all.h`).

use lamina_gpu::{KernelLine, ProductUnits, compared_kernels, launched_kernels};

/// A part of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelPart {
    /// Those that plans launch.
    Launched,
    /// Those that run for their golden bits alone.
    Compared,
}

impl KernelPart {
    /// Option of a compiler for this part alone.
    pub fn option(self) -> &'static str {
        match self {
            KernelPart::Launched => "-DONLY_LAUNCHED",
            KernelPart::Compared => "-DONLY_COMPARED",
        }
    }

    /// This part as all that there is.
    pub fn alone(self) -> &'static [KernelPart] {
        match self {
            KernelPart::Launched => &[KernelPart::Launched],
            KernelPart::Compared => &[KernelPart::Compared],
        }
    }

    /// Its kernels for a device with such tensor cores.
    pub fn kernels(self, units: ProductUnits) -> Vec<&'static KernelLine> {
        match self {
            KernelPart::Launched => launched_kernels(units).collect(),
            KernelPart::Compared => compared_kernels(units).collect(),
        }
    }
}

//! Weights that rules send to a device whenever it multiplies with them.

use crate::{error::Result, model::WeightSize, rules::Home};
use lamina_base::DType;
use lamina_plan::{Backend, BackendError, Plan, WeightId, WeightKind};
use lamina_stream::{DeviceHomes, staging_bytes};

/// Weights of a plan that are sent.
pub(crate) struct SentWeights {
    /// By weight.
    sent: Vec<bool>,
    dtypes: Vec<DType>,
}

/// Homes of weights where only matrices are sent: tables that are to be sent stay with the host, which reads their rows.
pub(crate) fn matrices_sent(plan: &Plan, homes: Vec<Option<Home>>) -> Vec<Option<Home>> {
    let is_table = |i: usize| matches!(plan.weights[i].kind, WeightKind::Table { .. });
    let one = |(i, home): (usize, Option<Home>)| match home {
        Some(home) if home.is_sent() && is_table(i) => Some(Home::Ram),
        home => home,
    };
    homes.into_iter().enumerate().map(one).collect()
}

impl SentWeights {
    /// Those of which `homes` says so.
    ///
    /// # Errors
    /// When the device takes weights only once.
    pub fn of(
        device: &dyn Backend,
        plan: &Plan,
        homes: &[Option<Home>],
        sizes: &[WeightSize],
    ) -> Result<SentWeights> {
        // Adapters are small, and stay on the device.
        let can_be = |i: usize| plan.weights[i].kind.is_matrix() && !sizes[i].of_adapter;
        let sent: Vec<bool> =
            (0..homes.len()).map(|i| can_be(i) && homes[i].is_some_and(Home::is_sent)).collect();
        let refused =
            (0..sent.len()).find(|&i| sent[i] && device.layout(&plan.weights[i], sizes[i].dtype).is_none());
        if let Some(i) = refused {
            let what = format!("`{}`, which a rule sends to it in every step", plan.weights[i].name);
            return Err(BackendError::Unsupported { backend: device.name(), what }.into());
        }
        Ok(SentWeights { sent, dtypes: sizes.iter().map(|s| s.dtype).collect() })
    }

    /// The sizes of weights on the device, where those that are sent take nothing but staging slots.
    pub fn without(&self, sizes: Vec<WeightSize>) -> Vec<WeightSize> {
        let one = |(size, &sent): (WeightSize, &bool)| {
            if sent { WeightSize { bytes: 0, ..size } } else { size }
        };
        sizes.into_iter().zip(&self.sent).map(one).collect()
    }

    /// Bytes of the weights that are sent in a step where they lie as `homes` says.
    pub fn bytes(&self, device: &dyn Backend, plan: &Plan, homes: &DeviceHomes) -> u64 {
        let sent = plan.weights.iter().zip(&self.dtypes).filter(|(spec, _)| homes.is_sent(spec));
        sent.filter_map(|(spec, dtype)| Some(device.layout(spec, *dtype)?.bytes() as u64)).sum()
    }

    /// `homes` with these weights sent, and the bytes of staging slots that they need.
    ///
    /// # Errors
    /// When the plan cannot be divided.
    pub fn staging(
        &self,
        device: &dyn Backend,
        plan: &Plan,
        homes: DeviceHomes,
    ) -> Result<(DeviceHomes, u64)> {
        let homes = homes.sending(plan, &|w: WeightId| self.sent[w.0 as usize]);
        let bytes = staging_bytes(device, &homes, plan, &|w: WeightId| self.dtypes[w.0 as usize])?;
        Ok((homes, bytes as u64))
    }
}

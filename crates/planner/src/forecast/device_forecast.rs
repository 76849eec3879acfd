//! The forecast of a model that is divided between a device and the host.

use super::{Forecast, ForecastQuestion, division::SearchQuestion, model_forecast::ForecastModel};
use crate::{
    cost::CostModel,
    cost_shape::CostShape,
    device_cost::{DeviceCost, link_rate},
    device_placement::DevicePlacement,
    error::Result,
    memory_parts::MemoryPart,
    search::SearchLimits,
    speed_table::SpeedTable,
};
use lamina_plan::{Backend, WeightId};
use lamina_stream::Tiered;

/// What a device beside the host takes of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceForecast {
    /// Its name.
    pub name: String,
    /// Bytes that can be had there.
    pub budget: u64,
    /// What takes them.
    pub parts: Vec<MemoryPart>,
    /// Bytes per second of the link to it, as measured.
    pub link_rate: f64,
    /// Bytes of weights that a step sends to it at most: of experts, one of few rows sends those that they choose.
    pub sent_bytes: u64,
}

impl DeviceForecast {
    fn of(name: String, placed: &DevicePlacement, link_rate: f64) -> DeviceForecast {
        let part = |name, bytes| MemoryPart { name, bytes };
        let parts = [
            part("weights", placed.weights),
            part("cache", (placed.machine.cache + placed.machine.states) as u64),
            part("working memory", placed.machine.working() as u64),
            part("staging slots", placed.staging),
        ];
        let parts = parts.into_iter().filter(|p| p.bytes > 0).collect();
        DeviceForecast { name, budget: placed.free, parts, link_rate, sent_bytes: placed.sent }
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// Speeds of both machines and of the link between them, each found once.
pub struct DividedSpeeds {
    host: SpeedTable,
    device: SpeedTable,
    link: f64,
}

impl DividedSpeeds {
    /// Measures the link of `device`; with `renew` nothing that was kept is believed of the rest.
    ///
    /// # Errors
    /// When the device fails.
    pub fn new(device: &dyn Backend, renew: bool) -> Result<DividedSpeeds> {
        let (host, device, link) = (SpeedTable::new(renew), SpeedTable::new(renew), link_rate(device)?);
        Ok(DividedSpeeds { host, device, link })
    }

    /// Speeds of the host.
    pub fn host(&mut self) -> &mut SpeedTable {
        &mut self.host
    }
}

impl ForecastModel<'_> {
    /// What a model takes that `placed` divides between the machines of `tiered`, and how fast it is; and the rules of the
    /// division by which steps of `batch` sequences would be fastest.
    ///
    /// # Errors
    /// When a machine cannot be measured.
    pub fn forecast_divided(
        &self,
        question: &ForecastQuestion,
        (tiered, placed): (&Tiered, &DevicePlacement),
        batch: usize,
        speeds: &mut DividedSpeeds,
    ) -> Result<(Forecast, Option<Vec<String>>)> {
        let (device, host) = (&*tiered.device, &*tiered.host);
        let steps = self.placement().steps(self.plan());
        let hardware = speeds.device.speeds(device, &self.types(device))?.hardware;
        let sent = |w: WeightId| self.sent_bytes(steps.weight(w));
        let cost = DeviceCost::new(steps, &tiered.split(steps)?, hardware, speeds.link).sending(steps, &sent);
        let whole = self.whole(speeds.host.speeds(host, &self.types(host))?.hardware);
        let whole = CostModel { device: Some(cost.clone()), ..whole };
        let mut forecast = self.forecast(question, &mut speeds.host, Some(cost))?;
        forecast.device = Some(DeviceForecast::of(device.about().device, placed, speeds.link));
        let depth = question.prompt.first().copied().unwrap_or(0);
        let search = SearchQuestion {
            plan: self.plan(),
            bytes: &self.weight_bytes(),
            cache: &placed.layer_bytes,
            limits: SearchLimits {
                device: placed.room(),
                ram: self.options().memory_of(tiered).map_or(u64::MAX >> 1, |m| m.free / 10 * 8),
                // Behind the forecast: what that has read of the disk is known.
                disk: speeds.host.disk(None)?.bytes,
                link: speeds.link,
            },
            sends: self.can_be_sent(device),
            shape: CostShape { sequences: batch, rows: 1, depth, logits: 1 },
            model: &whole,
        };
        Ok((forecast, search.rules()))
    }
}

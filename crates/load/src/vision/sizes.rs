//! What an encoder of pictures takes of memory, known from headers alone.

use super::{
    blocks::BlockPlans,
    ears::plans_around,
    eyes::{FoldStep, STEP_ROWS, fold_steps},
    search::FoundEncoder,
    stage::machine_limits,
};
use crate::{
    error::{Error, Result},
    options::{IMAGE_CACHE, LoadOptions},
};
use lamina_arch::{
    sound::SoundSpec,
    vision::{PictureLayout, VisionWeights},
};
use lamina_image::PixelSize;
use lamina_plan::{Backend, PAGE_LEN, Plan, emit_patches};
use lamina_planner::{EncoderForecast, MemoryPart, PictureForecast, PictureSize, WeightHeader, WeightSize};

/// The picture whose encoding has room when a model is loaded, where nobody asks about another: a megapixel.
const USUAL: PixelSize = PixelSize::square(1024);

/// The cache of rows takes at most one of so many parts of what is free, where nobody says how much.
const CACHE_PART: u64 = 16;

impl FoundEncoder {
    /// What it takes for pictures of `size`, and what such a picture takes; none: for usual pictures.
    ///
    /// # Errors
    /// When a weight is missing, or the picture is too thin for the model.
    pub fn forecast(&self, backend: &dyn Backend, size: Option<(u32, u32)>) -> Result<PictureForecast> {
        let asked = size.map(|(width, height)| PixelSize::new(width, height));
        let refused = |e: lamina_image::ImageError| Error::InvalidRequest(e.to_string());
        let layout = self.spec.layout(asked.unwrap_or(USUAL)).map_err(refused)?;
        let (weights, working) = self.sizes(backend, &layout)?;
        let deep = 1 + self.spec.projector.deep.len();
        let resized = layout.resized();
        let of = |size: (u32, u32)| PictureSize {
            size,
            resized: (resized.width, resized.height),
            patches: layout.patches(),
            tokens: layout.rows(),
            row_bytes: (4 * layout.rows() * self.spec.projector.out * deep) as u64,
        };
        let (name, file) = (self.family.name, self.found.file.clone());
        Ok(PictureForecast {
            encoder: EncoderForecast { name, file, device: None, weights, working },
            picture: size.map(of),
        })
    }

    /// Bytes of weights, and bytes that its machines work in for a picture that is cut in this way.
    fn sizes(&self, backend: &dyn Backend, layout: &PictureLayout) -> Result<(u64, u64)> {
        let from = VisionWeights::new(&self.found.source, self.family, &self.spec);
        let rows = step_rows(layout, self.spec.encoder.class.is_some());
        let (mut weights, mut working) = (0, 0);
        for (plan, share) in self.plans(&from) {
            for spec in &plan.weights {
                let dtype = from.stored(&spec.name, spec.kind.shape().0)?;
                let header = WeightHeader { dtype, held_bytes: None, of_adapter: false };
                weights += WeightSize::of(backend, spec, &header).bytes;
            }
            let rows = rows.div_ceil(share);
            let limits = machine_limits(&plan, rows, rows.div_ceil(PAGE_LEN), (0, 0));
            working += backend.footprint(&plan, &limits)?.unwrap_or_default().total() as u64;
        }
        Ok((weights, working))
    }

    /// The plans of its chain, each with how many patches become a row of it.
    fn plans(&self, from: &VisionWeights<'_>) -> Vec<(Plan, usize)> {
        let (spec, has) = (&self.spec, |name: &str| from.has(name));
        let BlockPlans { first, merge } = BlockPlans::of(&spec.encoder, &has);
        let mut plans = vec![(emit_patches(spec, &has), 1), (first, 1)];
        let merged = merge.as_ref().map_or(1, |merge| merge.square);
        plans.extend(merge.into_iter().flat_map(|m| [(m.attend, 1), (m.mix, merged), (m.rest, merged)]));
        let deep = spec.projector.deep.iter().zip(spec.encoder.deep.iter().copied());
        for (steps, block) in deep.chain([(&spec.projector.steps, 0)]) {
            let mut share = merged;
            for step in fold_steps(spec, steps, (spec.encoder.hidden, block), &has) {
                match step {
                    FoldStep::Pool(side) | FoldStep::Merge(side, _) => share *= side * side,
                    FoldStep::Standardize(..) => {}
                    FoldStep::Plan(plan) => plans.push((plan, share)),
                }
            }
        }
        plans
    }
}

/// Bytes of the weights of an encoder of sound, and bytes that its machines work in for a whole piece.
///
/// # Errors
/// When a weight is missing.
pub(super) fn sound_bytes(
    spec: &SoundSpec,
    from: &VisionWeights<'_>,
    backend: &dyn Backend,
) -> Result<[u64; 2]> {
    let has = |name: &str| from.has(name);
    let frames = spec.mel.piece.div_ceil(spec.mel.hop);
    let rows = spec.piece(frames).encoded;
    let [first, second, projector] = plans_around(spec, &has);
    let blocks = BlockPlans::of(&spec.encoder, &has).first;
    let (mut weights, mut working) = (0, 0);
    for (plan, rows) in [(first, frames), (second, rows), (blocks, rows), (projector, rows / spec.mean)] {
        for weight in &plan.weights {
            let dtype = from.stored(&weight.name, weight.kind.shape().0)?;
            let header = WeightHeader { dtype, held_bytes: None, of_adapter: false };
            weights += WeightSize::of(backend, weight, &header).bytes;
        }
        let limits = machine_limits(&plan, rows, rows.div_ceil(PAGE_LEN), (0, 0));
        working += backend.footprint(&plan, &limits)?.unwrap_or_default().total() as u64;
    }
    Ok([weights, working])
}

/// Rows of the largest step of a picture.
fn step_rows(layout: &PictureLayout, class: bool) -> usize {
    let tiles = layout.patches.iter().map(|grid| grid.cells() + usize::from(class));
    let largest = tiles.clone().max().unwrap_or(0);
    largest.max(tiles.sum::<usize>().min(STEP_ROWS))
}

/// Bytes of the cache of rows: as the user says, or a part of what is free.
pub(crate) fn cache_bytes(options: &LoadOptions, backend: &dyn Backend) -> u64 {
    match options.image_cache {
        IMAGE_CACHE => {
            let free =
                options.placing().memory_of(backend).map_or(u64::MAX, |memory| memory.free / CACHE_PART);
            IMAGE_CACHE.min(free)
        }
        given => given,
    }
}

/// What pictures take beside a model, by use.
pub(crate) fn picture_parts(
    found: &FoundEncoder,
    options: &LoadOptions,
    backend: &dyn Backend,
    size: Option<(u32, u32)>,
) -> Result<(PictureForecast, Vec<MemoryPart>)> {
    let forecast = found.forecast(backend, size)?;
    let parts = [
        ("picture encoder", forecast.encoder.weights),
        ("picture memory", forecast.encoder.working),
        ("image cache", cache_bytes(options, backend)),
    ];
    Ok((forecast, parts.map(|(name, bytes)| MemoryPart { name, bytes }).to_vec()))
}

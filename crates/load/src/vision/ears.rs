//! From sounds to the rows of a prompt.

use super::{
    blocks::{Blocks, TileRun},
    eyes::STEP_ROWS,
    sense::Sense,
    slices::Slices,
    stage::{PlanStage, Together},
};
use crate::error::{Error, Result};
use lamina_arch::{
    sound::{SoundFamily, SoundLayout, SoundSpec},
    vision::{ProjectorStep, VisionSource},
};
use lamina_engine::EncodedRows;
use lamina_plan::{Backend, Plan, emit_projection};
use lamina_sound::{MelFeatures, Sound};

/// Frames under a convolution.
const TAPS: usize = 3;

/// An encoder of sound and its projector on a backend.
pub struct Ears {
    spec: SoundSpec,
    convolutions: [PlanStage; 2],
    blocks: Blocks,
    projector: PlanStage,
    /// Learned places of frames, a row each.
    places: Vec<f32>,
}

/// The plans around the blocks: both convolutions and the projector.
pub(super) fn plans_around(spec: &SoundSpec, has: &dyn Fn(&str) -> bool) -> [Plan; 3] {
    let (encoder, hidden) = (&spec.encoder, spec.encoder.hidden);
    let convolution = |name: &'static str, width: usize| {
        let steps = [ProjectorStep::Linear(name, hidden), ProjectorStep::Act(spec.act)];
        emit_projection(encoder, &steps, (TAPS * width, 0), has)
    };
    let projector = emit_projection(encoder, &spec.projector.steps, (hidden, 0), has);
    [convolution("v.conv1", spec.mel.mels), convolution("v.conv2", hidden), projector]
}

/// Rows of a sound, as they stand in a prompt.
#[derive(Clone, Debug)]
pub struct SoundRows {
    /// How many there are of each piece.
    pub layout: SoundLayout,
    /// Numbers of a row.
    pub width: usize,
    /// `[rows x width]`.
    pub rows: Vec<f32>,
}

impl EncodedRows for SoundRows {
    fn numbers(&self) -> &[f32] {
        &self.rows
    }

    fn deep(&self) -> &[Vec<f32>] {
        &[]
    }
}

impl Ears {
    /// Puts the encoder of `source` on `backend`.
    ///
    /// # Errors
    /// When its family is not known, a weight is missing or broken, or the backend cannot run it.
    pub fn open(source: &VisionSource, backend: &dyn Backend) -> Result<Ears> {
        Ears::of(source, SoundFamily::of(source)?.spec(source)?, backend)
    }

    /// What it is.
    pub fn spec(&self) -> &SoundSpec {
        &self.spec
    }

    /// The rows of sounds. A sound's bits depend on nothing but its samples.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn encode(&mut self, sounds: &[&Sound]) -> Result<Vec<SoundRows>> {
        self.rows_of(sounds, &|| true)
    }

    /// The rows of pieces whose spectra are there.
    ///
    /// # Errors
    /// When the backend fails, or it is not wanted any more.
    pub fn encode_pieces(
        &mut self,
        pieces: &[MelFeatures],
        wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<f32>>> {
        let (mut out, mut rest, mut slices) = (vec![], pieces, Slices::new(wanted));
        while !rest.is_empty() {
            let sums = rest.iter().scan(0, |sum, piece| {
                *sum += self.spec.piece(piece.heard).encoded;
                Some(*sum)
            });
            let fit = sums.take_while(|&sum| sum <= STEP_ROWS).count().max(1);
            let (now, later) = rest.split_at(fit);
            out.extend(self.step(now, &mut slices)?);
            rest = later;
        }
        Ok(out)
    }

    fn step(&mut self, pieces: &[MelFeatures], slices: &mut Slices<'_>) -> Result<Vec<Vec<f32>>> {
        let (hidden, mean) = (self.spec.encoder.hidden, self.spec.mean);
        let (mut numbers, mut positions, mut whole) = (vec![], vec![], vec![]);
        for piece in pieces {
            let (first, mut rows) = (positions.len(), self.convolved(piece, slices)?);
            rows.iter_mut().zip(&self.places).for_each(|(n, place)| *n += place);
            positions.extend((0..rows.len() / hidden).map(|at| [at as u32, 0, 0]));
            whole.push(Together { rows: first..positions.len() });
            numbers.extend(rows);
        }
        let run = TileRun { numbers, positions, whole: whole.clone(), windows: vec![] };
        let last = self.blocks.run(&self.spec.encoder, run, slices)?.last;
        let own = |piece: &Together| &last[piece.rows.start * hidden..piece.rows.end * hidden];
        let means: Vec<Vec<f32>> = whole.iter().map(|piece| means(own(piece), hidden, mean)).collect();
        let rows = means.iter().map(|piece| piece.len() / hidden).sum();
        let projected = self.projector.all(means.concat(), rows, slices)?;
        let mut rest = projected.into_iter();
        let out = self.spec.projector.out;
        Ok(means.iter().map(|piece| rest.by_ref().take(piece.len() / hidden * out).collect()).collect())
    }

    /// A piece behind both convolutions, as far as its sound goes. What lies before and behind the piece is zero.
    fn convolved(&mut self, piece: &MelFeatures, slices: &mut Slices<'_>) -> Result<Vec<f32>> {
        let (mels, frames, hidden) = (piece.mels, piece.frames, self.spec.encoder.hidden);
        // The last frame of the second convolution may look at one behind the sound.
        let needed = frames.min(piece.heard + 1);
        let under = |rows: usize, by: usize, width: usize, at: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
            let taps = (0..rows)
                .flat_map(|row| (0..width).flat_map(move |c| (0..TAPS).map(move |tap| (row * by + tap, c))));
            taps.map(|(frame, c)| frame.checked_sub(1).map_or(0.0, |frame| at(frame, c))).collect()
        };
        let mel =
            |frame: usize, c: usize| if frame < frames { piece.values[c * frames + frame] } else { 0.0 };
        let first = self.convolutions[0].all(under(needed, 1, mels, &mel), needed, slices)?;
        let row = |frame: usize, c: usize| if frame < needed { first[frame * hidden + c] } else { 0.0 };
        let encoded = self.spec.piece(piece.heard).encoded;
        self.convolutions[1].all(under(encoded, 2, hidden, &row), encoded, slices)
    }
}

/// Means of `by` rows that follow one another; rows that are left over are left out.
fn means(rows: &[f32], width: usize, by: usize) -> Vec<f32> {
    let mean = |rows: &[f32]| -> Vec<f32> {
        (0..width).map(|c| rows[c..].iter().step_by(width).sum::<f32>() / by as f32).collect()
    };
    rows.chunks_exact(width * by).flat_map(mean).collect()
}

impl Sense for Ears {
    type Spec = SoundSpec;
    type Input = Sound;
    type Rows = SoundRows;
    const NAME: &'static str = "sound";

    fn of(source: &VisionSource, spec: SoundSpec, backend: &dyn Backend) -> Result<Ears> {
        let weights = SoundFamily::of(source)?.weights(source, &spec);
        let has = |name: &str| weights.has(name);
        let (encoder, hidden) = (&spec.encoder, spec.encoder.hidden);
        let places = weights.numbers("v.position_embd.weight")?.unwrap_or_default();
        let frames = spec.mel.piece.div_ceil(spec.mel.hop);
        if places.len() < frames.div_ceil(2) * hidden {
            return Err(Error::Unsupported(format!(
                "pieces of {frames} frames of sound, for whose rows the encoder has {} places",
                places.len() / hidden.max(1)
            )));
        }
        let stage = |plan| PlanStage::new(backend, plan, &weights);
        let [first, second, projector] = plans_around(&spec, &has);
        Ok(Ears {
            convolutions: [stage(first)?, stage(second)?],
            blocks: Blocks::new(encoder, &weights, backend)?,
            projector: stage(projector)?,
            places,
            spec,
        })
    }

    fn form(sound: &Sound) -> String {
        sound.rate().to_string()
    }

    fn content(sound: &Sound, out: &mut Vec<u8>) {
        out.extend(sound.samples().iter().flat_map(|sample| sample.to_le_bytes()));
    }

    fn patches(spec: &SoundSpec, sound: &Sound) -> usize {
        spec.layout(sound).encoded()
    }

    fn rows_of(&mut self, sounds: &[&Sound], wanted: &dyn Fn() -> bool) -> Result<Vec<SoundRows>> {
        let refused = |e: lamina_sound::SoundError| Error::InvalidRequest(e.to_string());
        let features = |sound: &&Sound| self.spec.mel.features(sound).map_err(refused);
        let pieces = sounds.iter().map(features).collect::<Result<Vec<_>>>()?.concat();
        let mut encoded = self.encode_pieces(&pieces, wanted)?.into_iter();
        let one = |sound: &&Sound| {
            let layout = self.spec.layout(sound);
            let rows = encoded.by_ref().take(layout.pieces.len()).flatten().collect();
            SoundRows { width: self.spec.projector.out, layout, rows }
        };
        Ok(sounds.iter().map(one).collect())
    }

    fn bytes(rows: &SoundRows) -> u64 {
        4 * rows.rows.len() as u64
    }

    fn told(sound: &Sound) -> String {
        format!("a sound of {:.1} s", sound.seconds())
    }
}

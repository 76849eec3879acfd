//! Loading a model that is streamed: panels are packed that are not on disk yet, and what stays in memory is uploaded.

use crate::{
    error::{Error, Result},
    headers::OpenedModel,
    identity::panel_key,
    info::StreamInfo,
    uploads::{LoadMeter, Progress},
};
use lamina_arch::weights::Tensor;
use lamina_base::human_bytes;
use lamina_disk::{
    DiskReader, Extent, MatrixName, PanelError, PanelFile, PanelFolder, PanelRange, ReaderKind, disk_space,
    faster_reader, note_sources,
};
use lamina_plan::{Backend, BackendError, BackendWeight, ExpertGuess, Plan, WeightId, WeightSpec, lookahead};
use lamina_planner::{BUFFERS, EXPERT_USES, READERS, StreamOptions, StreamedOp, WeightOffload, WeightSize};
use lamina_stream::{ExpertCache, ExpertStack, StreamExtent, StreamedWeights};
use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A model whose weights are partly in memory, and the rest of them in files.
pub(crate) struct StreamedModel {
    pub plan: Plan,
    pub weights: Vec<BackendWeight>,
    pub info: StreamInfo,
    extents: Vec<StreamExtent>,
    experts: Option<StreamedStacks>,
    options: StreamOptions,
}

/// Experts that are read as rows ask for them.
struct StreamedStacks {
    stacks: Vec<ExpertStack>,
    /// How many are in memory.
    slots: usize,
    /// Guesses of what will be asked for, whose operators are in the plan.
    guesses: Vec<ExpertGuess>,
    /// Where it is kept how often they are asked for.
    counts: PathBuf,
}

impl StreamedStacks {
    fn cache(self, reader: DiskReader) -> ExpertCache {
        let cache = ExpertCache::new(self.stacks, reader, self.slots);
        cache.with_guesses(&self.guesses).with_kept_counts(self.counts)
    }
}

impl StreamedModel {
    /// The plan, its weights on the backend, and what reads those that are not in memory.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn parts(self) -> Result<(Plan, Vec<BackendWeight>, StreamedWeights)> {
        let threads = self.options.readers.unwrap_or(READERS);
        let reader = || {
            let reader = self.info.reader.start(threads);
            reader.map_err(|e| Error::Runtime(format!("no thread for reading weights can be had: {e}")))
        };
        let experts = match self.experts {
            Some(experts) => Some(experts.cache(reader()?)),
            None => None,
        };
        let buffers = self.options.buffers.unwrap_or(BUFFERS);
        let streamed = StreamedWeights { extents: self.extents, reader: reader()?, buffers, experts };
        Ok((self.plan, self.weights, streamed))
    }
}

/// Loads a model of which some weights are streamed: packs what is not on disk yet, and uploads what stays.
///
/// # Errors
/// When a weight cannot be read, the disk is full, or `progress` gives up.
pub(crate) fn load_streamed(
    backend: &dyn Backend,
    opened: &OpenedModel<'_>,
    (offload, sizes): (&WeightOffload, &[WeightSize]),
    options: &StreamOptions,
    (total, progress): (u64, Progress<'_>),
) -> Result<(StreamedModel, Vec<u64>)> {
    let (ck, plan, rows) = (opened.ck, &opened.plan, &offload.rows);
    let key = panel_key(ck, opened.from.dtype);
    let mut panels = PanelFolder::open(&options.panel_root(), &key, options.access()).map_err(panel_error)?;
    let mut streamed: Vec<WeightId> = rows.streamed.iter().flat_map(|op| op.weights.clone()).collect();
    // A cut leaves the numbers of weights that it does not cut.
    streamed.extend(offload.experts.iter().flat_map(|e| &e.stacks).flatten());
    let kept = kept_weights(plan, offload, &streamed, options.folder.is_some());
    let mut loader = StreamLoader { backend, opened, plan, offload, sizes, last: None };
    let mut meter = LoadMeter::new(total, progress);
    loader.pack(&mut panels, &kept, options.folder.is_some(), &mut meter)?;
    note_sources(panels.path(), ck.files.iter().map(|file| file.path()));
    let (weights, bytes) = loader.upload(&panels, &streamed, &mut meter)?;
    let names = |w: WeightId| loader.name(w);
    let extents: Vec<_> = rows.streamed.iter().map(|op| extent(op, offload, &panels, &names)).collect();
    let stack = |stack: &[WeightId; 3]| expert_stack(*stack, offload, &panels, &names);
    let stacks: Option<Vec<ExpertStack>> =
        offload.experts.as_ref().map(|e| e.stacks.iter().map(stack).collect());
    let largest = extents.iter().map(|e| e.extent.room()).max().unwrap_or(0);
    let reader = chosen_reader(options, &extents, stacks.as_deref());
    let info = StreamInfo {
        reason: offload.reason,
        resident_bytes: rows.resident_bytes,
        streamed_bytes: rows.streamed_bytes,
        buffer_bytes: (largest * options.buffers.unwrap_or(BUFFERS)) as u64,
        panel_bytes: panels.bytes(),
        folder: panels.path().display().to_string(),
        direct: extents.iter().all(|e| e.extent.is_direct()),
        reader,
        experts: offload.experts.clone(),
    };
    let options = options.clone();
    let (plan, guesses) = match &stacks {
        Some(_) => lookahead(rows.cut.plan.clone(), &|w| !streamed.contains(&w)),
        None => (rows.cut.plan.clone(), vec![]),
    };
    let (slots, counts) = (offload.experts.as_ref().map_or(0, |e| e.slots), panels.path().join(EXPERT_USES));
    let experts = stacks.map(|stacks| StreamedStacks { stacks, slots, guesses, counts });
    Ok((StreamedModel { plan, weights, info, extents, experts, options }, bytes))
}

/// Weights of the whole plan that are kept as panels: those of which anything is streamed, or all that have a layout.
fn kept_weights(plan: &Plan, offload: &WeightOffload, streamed: &[WeightId], all: bool) -> Vec<WeightId> {
    let sources = &offload.rows.cut.sources;
    let some: Vec<WeightId> = streamed.iter().map(|w| sources[w.0 as usize].0).collect();
    let ids = (0..plan.weights.len()).map(|i| WeightId(i as u32));
    ids.filter(|w| offload.layouts[w.0 as usize].is_some() && (all || some.contains(w))).collect()
}

/// How what is streamed is read: as it was asked for, or as it is read faster.
fn chosen_reader(
    options: &StreamOptions,
    extents: &[StreamExtent],
    stacks: Option<&[ExpertStack]>,
) -> ReaderKind {
    let samples: Vec<Arc<Extent>> = match stacks {
        Some(stacks) => stacks.iter().flat_map(|s| &s.extents).cloned().collect(),
        None => extents.iter().map(|e| e.extent.clone()).collect(),
    };
    let threads = options.readers.unwrap_or(READERS);
    options.reader.unwrap_or_else(|| faster_reader(threads, &samples)).usable()
}

/// What is read before an operator.
fn extent(
    op: &StreamedOp,
    offload: &WeightOffload,
    panels: &PanelFolder,
    name: &dyn Fn(WeightId) -> MatrixName,
) -> StreamExtent {
    let run = |w: &WeightId| -> (Arc<PanelFile>, PanelRange) {
        let (source, rows) = &offload.rows.cut.sources[w.0 as usize];
        let layout = offload.layouts[source.0 as usize].as_ref().expect("streamed weights have a layout");
        let (file, place) = panels.find(&name(*source)).expect("streamed weights were packed");
        (file.clone(), PanelRange::new(file, place, layout.panels_of(rows)))
    };
    let extent = Extent::new(op.weights.iter().map(run).collect());
    let weights = op.weights.iter().copied().zip(extent.inside()).collect();
    StreamExtent { extent: Arc::new(extent), weights, rows: op.rows }
}

/// What is read for each expert of an operator.
fn expert_stack(
    weights: [WeightId; 3],
    offload: &WeightOffload,
    panels: &PanelFolder,
    name: &dyn Fn(WeightId) -> MatrixName,
) -> ExpertStack {
    let layout = |w: WeightId| offload.layouts[w.0 as usize].as_ref().expect("experts have a layout");
    let run = |w: WeightId, expert: usize| -> (Arc<PanelFile>, PanelRange) {
        let (each, (file, place)) = (layout(w).panels, panels.find(&name(w)).expect("experts were packed"));
        (file.clone(), PanelRange::new(file, place, expert * each..(expert + 1) * each))
    };
    let extent = |expert| Arc::new(Extent::new(weights.iter().map(|w| run(*w, expert)).collect()));
    ExpertStack { weights, extents: (0..layout(weights[0]).matrices).map(extent).collect() }
}

/// Packs and uploads weights, one after the other.
struct StreamLoader<'a> {
    backend: &'a dyn Backend,
    opened: &'a OpenedModel<'a>,
    plan: &'a Plan,
    offload: &'a WeightOffload,
    sizes: &'a [WeightSize],
    /// The weight that was opened last: it is used for all of its parts.
    last: Option<(WeightId, Tensor)>,
}

impl StreamLoader<'_> {
    fn name(&self, w: WeightId) -> MatrixName {
        let layout = self.offload.layouts[w.0 as usize].as_ref().map_or(String::new(), |l| l.key.clone());
        MatrixName { name: self.plan.weight(w).name.clone(), layout }
    }

    fn tensor(&mut self, w: WeightId) -> Result<&Tensor> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != w) {
            // Before the next is opened: both may be in memory.
            self.last = None;
            let spec = self.plan.weight(w);
            let tensor = match self.opened.loras.tensor(spec) {
                Some(tensor) => tensor,
                None => self.opened.from.tensor(spec, self.backend.about().threads)?.0,
            };
            let layout = self.offload.layouts[w.0 as usize].as_ref();
            if layout.is_some() && self.backend.layout(spec, tensor.dtype).as_ref() != layout {
                let what =
                    format!("`{}` is of type {} where its header says another", spec.name, tensor.dtype);
                return Err(Error::Format(what));
            }
            self.last = Some((w, tensor));
        }
        Ok(&self.last.as_ref().expect("just opened").1)
    }

    /// Writes those of `kept` that are on disk in no file. A folder that the user has `chosen` may be filled up.
    fn pack(
        &mut self,
        panels: &mut PanelFolder,
        kept: &[WeightId],
        chosen: bool,
        meter: &mut LoadMeter<'_>,
    ) -> Result<()> {
        let matrix = |w: &WeightId| {
            let layout = self.offload.layouts[w.0 as usize].as_ref().expect("kept weights have a layout");
            (self.name(*w), layout.matrices * layout.panels, layout.panel_bytes)
        };
        let wanted: Vec<_> = kept.iter().map(matrix).collect();
        if !chosen {
            enough_disk(panels.path(), panels.missing_bytes(&wanted))?;
        }
        let own = self.backend.need_panels()?;
        let packed = panels.add::<PackFailure>(&wanted, &mut |i, range, out| {
            let spec = self.plan.weight(kept[i]);
            let bytes = out.len() as u64;
            let tensor = self.tensor(kept[i])?;
            own.pack(spec, tensor, range, out).map_err(Error::from)?;
            Ok(meter.add(bytes)?)
        });
        self.last = None;
        packed.map_err(|e| e.0)
    }

    /// Uploads every weight of the cut plan, and tells the bytes of each weight of the whole one.
    fn upload(
        &mut self,
        panels: &PanelFolder,
        streamed: &[WeightId],
        meter: &mut LoadMeter<'_>,
    ) -> Result<(Vec<BackendWeight>, Vec<u64>)> {
        let cut = &self.offload.rows.cut;
        let mut order: Vec<usize> = (0..cut.plan.weights.len()).collect();
        // All parts of a weight in turn, so that it is opened once.
        order.sort_by_key(|&i| (cut.sources[i].0.0, i));
        let mut out: Vec<Option<BackendWeight>> = cut.plan.weights.iter().map(|_| None).collect();
        let mut bytes = vec![0; self.plan.weights.len()];
        for i in order {
            let (source, rows) = cut.sources[i].clone();
            let weight = self.part(panels, source, rows, &cut.plan.weights[i], streamed, i)?;
            out[i] = Some(weight);
            bytes[source.0 as usize] = self.stored_bytes(source);
            meter.add(0)?;
        }
        self.last = None;
        Ok((out.into_iter().flatten().collect(), bytes))
    }

    /// Bytes of a matrix as it is stored.
    fn stored_bytes(&self, w: WeightId) -> u64 {
        let (rows, cols) = self.plan.weight(w).kind.shape();
        let dtype = self.sizes[w.0 as usize].dtype;
        if self.offload.layouts[w.0 as usize].is_none() || self.opened.loras.has(self.plan.weight(w)) {
            return 0;
        }
        (rows * dtype.bytes_for(cols).unwrap_or(4 * cols)) as u64
    }

    fn part(
        &mut self,
        panels: &PanelFolder,
        source: WeightId,
        rows: Range<usize>,
        spec: &WeightSpec,
        streamed: &[WeightId],
        i: usize,
    ) -> Result<BackendWeight> {
        let dtype = self.sizes[source.0 as usize].dtype;
        if streamed.contains(&WeightId(i as u32)) {
            return Ok(self.backend.need_panels()?.unbound(spec, dtype)?);
        }
        let layout = self.offload.layouts[source.0 as usize].as_ref();
        let kept = layout.and_then(|layout| Some((layout, panels.find(&self.name(source))?)));
        if let Some((layout, (file, place))) = kept {
            // Rows of a stack are those of all its matrices.
            let first = if layout.matrices > 1 { 0 } else { layout.panels_of(&rows).start };
            return Ok(self.backend.need_panels()?.upload_panels(spec, dtype, &|range, out| {
                let range = first + range.start..first + range.end;
                file.read(place, range, out).map_err(|e| BackendError::Device {
                    backend: "disk",
                    what: e.to_string(),
                    lost: false,
                })
            })?);
        }
        let backend = self.backend;
        let whole = self.plan.weight(source).kind.shape().0 == rows.len();
        let tensor = self.tensor(source)?;
        Ok(match whole {
            true => backend.upload(spec, tensor)?,
            false => backend.upload(spec, &tensor.slice(rows))?,
        })
    }
}

/// Refuses to fill the disk with what nobody has asked for: a tenth of it, and 5 GiB, stay free, but for little.
fn enough_disk(folder: &Path, bytes: u64) -> Result<()> {
    let Some((free, total)) = disk_space(folder).filter(|_| bytes > 0) else { return Ok(()) };
    // One part in 100 of what is free is not missed.
    if free.saturating_sub(bytes) >= (total / 10).max(5 << 30) || bytes <= free / 100 {
        return Ok(());
    }
    Err(Error::Runtime(format!(
        "weights that do not fit into memory take {} on disk, and only {} are free in {}: \
         free space, name a folder with panel_cache, or use a smaller type",
        human_bytes(bytes),
        human_bytes(free),
        folder.display()
    )))
}

/// An error of loading, on its way through the writer of panels.
struct PackFailure(Error);

impl From<PanelError> for PackFailure {
    fn from(e: PanelError) -> Self {
        PackFailure(panel_error(e))
    }
}

impl From<Error> for PackFailure {
    fn from(e: Error) -> Self {
        PackFailure(e)
    }
}

fn panel_error(e: PanelError) -> Error {
    Error::Runtime(e.to_string())
}

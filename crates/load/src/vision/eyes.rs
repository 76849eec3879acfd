//! From pictures to the rows of a prompt.

use super::{
    blocks::{Blocks, TileRun},
    fold::TileCells,
    order::RowOrder,
    picture_rows::{CutPicture, PictureRows},
    places::Places,
    slices::Slices,
    stage::{PlanStage, Together},
};
use crate::error::{Error, Result};
use lamina_arch::vision::{
    CellGrid, ClassRow, MergeOrder, PictureLayout, ProjectorStep, VisionFamily, VisionSource, VisionSpec,
    VisionWeights,
};
use lamina_image::{Normalization, Picture};
use lamina_plan::{Backend, Plan, emit_patches, emit_projection};
use std::ops::Range;

/// Rows of tiles that are encoded in one step, where one tile does not have more.
pub(super) const STEP_ROWS: usize = 1024;

/// An encoder and a projector on a backend.
pub struct Eyes {
    spec: VisionSpec,
    numbers: Normalization,
    patches: PlanStage,
    blocks: Blocks,
    projector: Vec<Fold>,
    deep: Vec<Vec<Fold>>,
    places: Places,
    class: Vec<f32>,
    newline: Vec<f32>,
}

/// A step of a projector.
enum Fold {
    Pool(usize),
    Merge(usize, MergeOrder),
    Standardize([Vec<f32>; 2]),
    Plan(Box<PlanStage>),
}

/// Patches of a tile on their way.
struct TilePatches {
    grid: CellGrid,
    numbers: Vec<f32>,
}

/// What the blocks made of a tile.
struct TileRows {
    rows: Vec<f32>,
    deep: Vec<Vec<f32>>,
}

impl Eyes {
    /// Puts the encoder of `source` on `backend`.
    ///
    /// # Errors
    /// When its family is not known, a weight is missing or broken, or the backend cannot run it.
    pub fn open(source: &VisionSource, backend: &dyn Backend) -> Result<Eyes> {
        Eyes::of(source, VisionFamily::of(source)?.spec(source)?, backend)
    }

    /// [`Eyes::open`] with other bounds on pictures than the source says.
    ///
    /// # Errors
    /// As for [`Eyes::open`].
    pub fn of(source: &VisionSource, spec: VisionSpec, backend: &dyn Backend) -> Result<Eyes> {
        let family = VisionFamily::of(source)?;
        let weights = VisionWeights::new(source, family, &spec);
        let has = |name: &str| weights.has(name);
        let hidden = spec.encoder.hidden;
        let stage = |plan| PlanStage::new(backend, plan, &weights);
        let projector = folds(&spec, &spec.projector.steps, (hidden, 0), &weights, backend)?;
        let deep = spec.projector.deep.iter().zip(&spec.encoder.deep);
        let deep = deep
            .map(|(steps, &block)| folds(&spec, steps, (hidden, block), &weights, backend))
            .collect::<Result<_>>()?;
        let table = weights.numbers("v.position_embd.weight")?.unwrap_or_default();
        let class = weights.numbers("v.class_embd")?.unwrap_or_default();
        let newline = weights.numbers("v.image_newline")?.unwrap_or_default();
        Ok(Eyes {
            numbers: spec.pixels.scaling.table(),
            patches: stage(emit_patches(&spec, &has))?,
            blocks: Blocks::new(&spec.encoder, &weights, backend)?,
            projector,
            deep,
            places: Places::new(spec.encoder.places, spec.encoder.class, hidden, table),
            class,
            newline,
            spec,
        })
    }

    /// What it is.
    pub fn spec(&self) -> &VisionSpec {
        &self.spec
    }

    /// The rows of pictures. A picture's bits depend on nothing but its pixels.
    ///
    /// # Errors
    /// When a picture is too thin for the model, or the backend fails.
    pub fn encode(&mut self, pictures: &[&Picture]) -> Result<Vec<PictureRows>> {
        self.encode_while(pictures, &|| true)
    }

    /// [`Eyes::encode`] in slices of some 30 ms, between which the process's engines compute; `wanted` is asked before each, and
    /// gives up by returning false.
    ///
    /// # Errors
    /// As for [`Eyes::encode`]; also when it is not wanted any more.
    pub fn encode_while(
        &mut self,
        pictures: &[&Picture],
        wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<PictureRows>> {
        let cut = pictures.iter().map(|picture| self.cut(picture)).collect::<Result<_>>()?;
        self.encode_cut(cut, wanted)
    }

    /// A picture as the encoder takes it.
    ///
    /// # Errors
    /// When it is too thin for the model.
    pub fn cut(&self, picture: &Picture) -> Result<CutPicture> {
        let layout = self.spec.layout(picture.size()).map_err(|e| Error::InvalidRequest(e.to_string()))?;
        let pixels = layout.tiling.apply(picture, self.spec.pixels.filter);
        let tiles = pixels.iter().map(|tile| self.spec.pixels.patches.rows(tile, &self.numbers)).collect();
        Ok(CutPicture { layout, tiles })
    }

    /// [`Eyes::encode_while`] for pictures that are cut.
    ///
    /// # Errors
    /// When the backend fails, or it is not wanted any more.
    pub fn encode_cut(
        &mut self,
        pictures: Vec<CutPicture>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<PictureRows>> {
        let (mut layouts, mut tiles) = (vec![], vec![]);
        for CutPicture { layout, tiles: numbers } in pictures {
            let patches = layout.patches.iter().zip(numbers);
            tiles.extend(patches.map(|(&grid, numbers)| TilePatches { grid, numbers }));
            layouts.push(layout);
        }
        let mut encoded = self.encode_tiles(&tiles, &mut Slices::new(wanted))?.into_iter();
        let joined = |layout: PictureLayout| {
            let tiles: Vec<TileRows> = encoded.by_ref().take(layout.tiles.len()).collect();
            self.picture(layout, &tiles)
        };
        Ok(layouts.into_iter().map(joined).collect())
    }

    /// Rows of tiles behind the projector, in steps of some tiles.
    fn encode_tiles(&mut self, tiles: &[TilePatches], slices: &mut Slices<'_>) -> Result<Vec<TileRows>> {
        let mut out = vec![];
        let mut rest = tiles;
        while !rest.is_empty() {
            let sums = rest.iter().scan(0, |sum, tile| {
                *sum += tile.grid.cells() + 1;
                Some(*sum)
            });
            let fit = sums.take_while(|&sum| sum <= STEP_ROWS).count().max(1);
            let (now, later) = rest.split_at(fit);
            out.extend(self.step(now, slices)?);
            rest = later;
        }
        Ok(out)
    }

    fn step(&mut self, tiles: &[TilePatches], slices: &mut Slices<'_>) -> Result<Vec<TileRows>> {
        let orders: Vec<RowOrder> = tiles.iter().map(|tile| RowOrder::of(&self.spec, tile.grid)).collect();
        let embedded = self.embed(tiles, slices)?;
        let mut rows = vec![];
        let (mut positions, mut whole, mut windows) = (vec![], vec![], vec![]);
        let mut first = 0;
        for (tile, order) in tiles.iter().zip(&orders) {
            let start = positions.len();
            self.place(
                tile.grid,
                order,
                &embedded[first * self.spec.encoder.hidden..],
                (&mut rows, &mut positions),
            );
            first += tile.grid.cells();
            whole.push(Together { rows: start..positions.len() });
            windows.extend(order.windows.iter().map(|w| Together { rows: start + w.start..start + w.end }));
        }
        let run = TileRun { numbers: rows, positions, whole, windows };
        let blocks = self.blocks.run(&self.spec.encoder, run, slices)?;
        let cells = |numbers: &[f32]| -> Vec<TileCells> {
            let all = tiles.iter().zip(&orders).zip(&blocks.whole);
            all.map(|((tile, order), mine)| self.cells(tile.grid, order, mine.rows.clone(), numbers))
                .collect()
        };
        let deep: Vec<_> = blocks.deep.iter().map(|numbers| cells(numbers)).collect();
        let last = cells(&blocks.last);
        let rows = project(&mut self.projector, last, slices)?;
        let deep = self
            .deep
            .iter_mut()
            .zip(deep)
            .map(|(folds, cells)| project(folds, cells, slices))
            .collect::<Result<Vec<_>>>()?;
        let tile = |(i, rows): (usize, TileCells)| TileRows {
            rows: rows.rows,
            deep: deep.iter().map(|d| d[i].rows.clone()).collect(),
        };
        Ok(rows.into_iter().enumerate().map(tile).collect())
    }

    /// The patch embedding of tiles.
    fn embed(&mut self, tiles: &[TilePatches], slices: &mut Slices<'_>) -> Result<Vec<f32>> {
        let numbers: Vec<f32> = tiles.iter().flat_map(|tile| tile.numbers.iter().copied()).collect();
        let rows = numbers.len() / self.spec.pixels.patches.width();
        self.patches.all(numbers, rows, slices)
    }

    /// Rows of a tile as the blocks get them: in their order, with places and the class row.
    fn place(
        &self,
        grid: CellGrid,
        order: &RowOrder,
        embedded: &[f32],
        (rows, positions): (&mut Vec<f32>, &mut Vec<[u32; 3]>),
    ) {
        let (width, first) = (self.spec.encoder.hidden, self.spec.encoder.first_place);
        let class = |rows: &mut Vec<f32>, positions: &mut Vec<[u32; 3]>| {
            let start = rows.len();
            rows.extend_from_slice(&self.class);
            self.places.add_class(&mut rows[start..]);
            positions.push([0; 3]);
        };
        let has = self.spec.encoder.class;
        if matches!(has, Some(ClassRow::First | ClassRow::FirstKept)) {
            class(rows, positions);
        }
        for &from in &order.from {
            let (row, column) = order.places[from];
            let start = rows.len();
            rows.extend_from_slice(&embedded[from * width..(from + 1) * width]);
            self.places.add(grid, (row, column), &mut rows[start..]);
            positions.push([from as u32, row as u32 + first, column as u32 + first]);
        }
        if has == Some(ClassRow::Last) {
            class(rows, positions);
        }
    }

    /// A tile's rows in the order of the pixels, without the class row.
    fn cells(&self, grid: CellGrid, order: &RowOrder, rows: Range<usize>, numbers: &[f32]) -> TileCells {
        let (width, class) = (self.spec.encoder.hidden, self.spec.encoder.class);
        let skip = usize::from(class == Some(ClassRow::First));
        let mine = &numbers[(rows.start + skip) * width..rows.end * width];
        if let Some(merger) = &self.spec.encoder.merger {
            return TileCells { grid: grid.merged(merger.side), width, rows: mine.to_vec(), squares: 1 };
        }
        let squares = self.spec.pixels.patches.merge as usize;
        if class == Some(ClassRow::FirstKept) {
            let grid = CellGrid { rows: 1, columns: rows.len() };
            return TileCells { grid, width, rows: mine.to_vec(), squares };
        }
        let mut out = vec![0.0; order.from.len() * width];
        for (&to, row) in order.from.iter().zip(mine.chunks_exact(width)) {
            out[to * width..(to + 1) * width].copy_from_slice(row);
        }
        TileCells { grid, width, rows: out, squares }
    }

    /// The rows of a picture out of those of its tiles.
    fn picture(&self, layout: PictureLayout, tiles: &[TileRows]) -> PictureRows {
        let width = self.spec.projector.out;
        let rows = match layout.joined {
            None => tiles.iter().flat_map(|tile| tile.rows.iter().copied()).collect(),
            Some(kept) => self.joined(&layout, kept, tiles),
        };
        let deep = (0..self.deep.len())
            .map(|d| tiles.iter().flat_map(|tile| tile.deep[d].iter().copied()).collect())
            .collect();
        PictureRows { layout, width, rows, deep }
    }

    /// The whole, then tiles as one grid, from the middle of which `kept` is taken, each row with a row behind it.
    fn joined(&self, layout: &PictureLayout, kept: CellGrid, tiles: &[TileRows]) -> Vec<f32> {
        let (width, grid, cell) = (self.spec.projector.out, layout.whole_grid(), layout.cells[1]);
        let columns = layout.tile_grid().columns as usize;
        let (top, left) = ((grid.rows - kept.rows) / 2, (grid.columns - kept.columns) / 2);
        let mut out = tiles[0].rows.clone();
        for y in top..top + kept.rows {
            for x in left..left + kept.columns {
                let tile = &tiles[1 + y / cell.rows * columns + x / cell.columns];
                let at = (y % cell.rows * cell.columns + x % cell.columns) * width;
                out.extend_from_slice(&tile.rows[at..at + width]);
            }
            out.extend_from_slice(&self.newline);
        }
        out
    }
}

/// A step of a projector before its weights are read.
pub(super) enum FoldStep {
    Pool(usize),
    Merge(usize, MergeOrder),
    Standardize([&'static str; 2], usize),
    Plan(Plan),
}

/// Steps of a projector: runs of steps on single rows are a plan each.
pub(super) fn fold_steps(
    spec: &VisionSpec,
    steps: &[ProjectorStep],
    (mut width, block): (usize, usize),
    has: &dyn Fn(&str) -> bool,
) -> Vec<FoldStep> {
    use ProjectorStep::{Merge, Pool, Standardize};
    let on_host = |step: &ProjectorStep| matches!(step, Pool { .. } | Merge { .. } | Standardize(_));
    let mut out = vec![];
    for run in steps.chunk_by(|a, b| !on_host(a) && !on_host(b)) {
        out.push(match run[0] {
            Pool { side } => FoldStep::Pool(side),
            Standardize(names) => FoldStep::Standardize(names, width),
            Merge { side, order } => {
                width *= side * side;
                FoldStep::Merge(side, order)
            }
            _ => {
                let plan = emit_projection(&spec.encoder, run, (width, block), has);
                width = plan.width(plan.normed);
                FoldStep::Plan(plan)
            }
        });
    }
    out
}

/// Steps of a projector on `backend`.
fn folds(
    spec: &VisionSpec,
    steps: &[ProjectorStep],
    from: (usize, usize),
    weights: &VisionWeights<'_>,
    backend: &dyn Backend,
) -> Result<Vec<Fold>> {
    let fold = |step| {
        Ok(match step {
            FoldStep::Pool(side) => Fold::Pool(side),
            FoldStep::Merge(side, order) => Fold::Merge(side, order),
            FoldStep::Standardize(names, width) => Fold::Standardize(vectors(names, width, weights)?),
            FoldStep::Plan(plan) => Fold::Plan(Box::new(PlanStage::new(backend, plan, weights)?)),
        })
    };
    fold_steps(spec, steps, from, &|name| weights.has(name)).into_iter().map(fold).collect()
}

/// Vectors of `width` numbers that have to be there.
fn vectors(names: [&str; 2], width: usize, weights: &VisionWeights<'_>) -> Result<[Vec<f32>; 2]> {
    let one = |name: &str| -> Result<Vec<f32>> { Ok(weights.get(name, 1, width)?.to_f32()?) };
    Ok([one(names[0])?, one(names[1])?])
}

/// Takes the rows of tiles through a projector, those of all tiles together.
fn project(folds: &mut [Fold], mut tiles: Vec<TileCells>, slices: &mut Slices<'_>) -> Result<Vec<TileCells>> {
    for fold in folds {
        tiles = match fold {
            Fold::Pool(side) => tiles.into_iter().map(|tile| tile.pooled(*side)).collect(),
            Fold::Merge(side, order) => tiles.into_iter().map(|tile| tile.merged(*side, *order)).collect(),
            Fold::Standardize([less, times]) => {
                tiles.into_iter().map(|tile| tile.standardized(less, times)).collect()
            }
            Fold::Plan(stage) => {
                let all: Vec<f32> = tiles.iter().flat_map(|tile| tile.rows.iter().copied()).collect();
                let rows = tiles.iter().map(|tile| tile.grid.cells()).sum();
                let (out, width) = (stage.all(all, rows, slices)?, stage.plan.width(stage.plan.normed));
                let mut first = 0;
                let mut mine = |tile: TileCells| {
                    let range = first..first + tile.grid.cells() * width;
                    first = range.end;
                    TileCells { width, rows: out[range].to_vec(), ..tile }
                };
                tiles.into_iter().map(&mut mine).collect()
            }
        };
    }
    Ok(tiles)
}

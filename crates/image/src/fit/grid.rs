//! Rules that cut a picture into tiles.

use crate::{
    cut::{Step, TileGrid, TileView},
    picture::PixelSize,
};
use std::{cmp::Ordering, ops::RangeInclusive};

/// Longest side that Idefics 3 resizes to.
const MAX_SPLIT_SIDE: u32 = 4096;

/// The largest size of the aspect of `of` within `canvas`; `round` makes the shorter side whole.
fn inside(of: PixelSize, canvas: PixelSize, round: fn(f64) -> f64) -> PixelSize {
    let (wide, high) =
        (f64::from(canvas.width) / f64::from(of.width), f64::from(canvas.height) / f64::from(of.height));
    let side = |side: u32, scale: f64, most: u32| (round(f64::from(side) * scale) as u32).min(most);
    match wide < high {
        true => PixelSize::new(canvas.width, side(of.height, wide, canvas.height)),
        false => PixelSize::new(side(of.width, high, canvas.width), canvas.height),
    }
}

/// The whole, then tiles of the canvas that keeps the most pixels of the picture, and of these wastes the fewest.
pub fn pinpoints(of: PixelSize, tile: u32, canvases: &[PixelSize]) -> Vec<TileView> {
    let kept = |canvas: PixelSize| {
        let scale = (f64::from(canvas.width) / f64::from(of.width))
            .min(f64::from(canvas.height) / f64::from(of.height));
        let side = |side: u32| u64::from((f64::from(side) * scale) as u32);
        (side(of.width) * side(of.height)).min(of.area())
    };
    let better = |a: PixelSize, b: PixelSize| {
        let wasted = |canvas: PixelSize| canvas.area() as i64 - kept(canvas) as i64;
        kept(b) > kept(a) || kept(b) == kept(a) && wasted(b) < wasted(a)
    };
    let best = canvases.iter().copied().reduce(|a, b| if better(a, b) { b } else { a });
    let canvas = best.unwrap_or(PixelSize::square(tile));
    let size = inside(of, canvas, f64::ceil);
    let (left, top) = ((canvas.width - size.width) / 2, (canvas.height - size.height) / 2);
    let steps = vec![Step::Resize(size), Step::Pad { left, top, canvas, colour: [0; 3] }];
    let grid = TileGrid { rows: canvas.height.div_ceil(tile), columns: canvas.width.div_ceil(tile) };
    vec![TileView::whole(vec![Step::Resize(PixelSize::square(tile))]), TileView { of: None, steps, grid }]
}

/// Resized twice, to the longer side and then to whole tiles; the whole follows the tiles.
pub fn split(of: PixelSize, longest: u32, tile: u32, tiles: bool) -> Vec<TileView> {
    let size = long_even(of, longest);
    let whole = Step::Resize(PixelSize::square(tile));
    if !tiles {
        return vec![TileView::whole(vec![Step::Resize(size), whole])];
    }
    let up = |side: u32| side.div_ceil(tile) * tile;
    let canvas = match size.width >= size.height {
        true => {
            let width = up(size.width);
            PixelSize::new(width, up(((f64::from(width) / size.aspect()) as u32).max(1)))
        }
        false => {
            let height = up(size.height);
            PixelSize::new(up(((f64::from(height) * size.aspect()) as u32).max(1)), height)
        }
    };
    let grid = TileGrid { rows: canvas.height / tile, columns: canvas.width / tile };
    let cut = TileView { of: None, steps: vec![Step::Resize(size), Step::Resize(canvas)], grid };
    match grid.tiles() {
        1 => vec![cut],
        _ => vec![cut, TileView { of: Some(0), steps: vec![whole], grid: TileGrid::WHOLE }],
    }
}

/// The longer side as given and the other even, neither beyond the largest that there may be.
fn long_even(of: PixelSize, longest: u32) -> PixelSize {
    let even = |side: f64| (side as u32).next_multiple_of(2).max(1);
    let size = match of.width >= of.height {
        true => PixelSize::new(longest, even(f64::from(longest) / of.aspect())),
        false => PixelSize::new(even(f64::from(longest) * of.aspect()), longest),
    };
    match size.width.max(size.height) > MAX_SPLIT_SIDE {
        true if size.width >= size.height => {
            PixelSize::new(MAX_SPLIT_SIDE, ((f64::from(MAX_SPLIT_SIDE) / size.aspect()) as u32).max(1))
        }
        true => PixelSize::new(((f64::from(MAX_SPLIT_SIDE) * size.aspect()) as u32).max(1), MAX_SPLIT_SIDE),
        false => size,
    }
}

/// Tiles in the grid of the nearest aspect. Of equally near ones the larger, as long as it is not above twice the picture.
pub fn aspect(of: PixelSize, tile: PixelSize, tiles: RangeInclusive<u32>, thumbnail: bool) -> Vec<TileView> {
    let mut grids: Vec<TileGrid> = (1..=*tiles.end())
        .flat_map(|columns| (1..=*tiles.end()).map(move |rows| TileGrid { rows, columns }))
        .filter(|grid| tiles.contains(&grid.tiles()))
        .collect();
    // Stable: of grids of as many tiles those with fewer columns come first.
    grids.sort_by_key(|grid| grid.tiles());
    let (mut best, mut nearest) = (TileGrid::WHOLE, f64::INFINITY);
    for grid in grids {
        let difference = (of.aspect() - f64::from(grid.columns) / f64::from(grid.rows)).abs();
        let filled = of.area() as f64 > 0.5 * (tile.area() * u64::from(grid.tiles())) as f64;
        if difference < nearest || difference == nearest && filled {
            best = grid;
        }
        nearest = nearest.min(difference);
    }
    let canvas = PixelSize::new(tile.width * best.columns, tile.height * best.rows);
    let cut = TileView { of: None, steps: vec![Step::Resize(canvas)], grid: best };
    let whole = (thumbnail && best.tiles() > 1).then(|| TileView::whole(vec![Step::Resize(tile)]));
    std::iter::once(cut).chain(whole).collect()
}

/// Tiles of the canvas that shrinks the picture least, or, where none has to, enlarges it least; then the whole.
pub fn canvas(of: PixelSize, tile: u32, most: u32, enlarge: bool) -> Vec<TileView> {
    let grid = canvas_grid(of, tile, most, enlarge);
    let canvas = PixelSize::new(grid.columns * tile, grid.rows * tile);
    let bound = match enlarge {
        true => canvas,
        false => PixelSize::new(of.width.max(tile).min(canvas.width), of.height.max(tile).min(canvas.height)),
    };
    let size = inside(of, bound, f64::floor);
    let size = PixelSize::new(size.width.max(1), size.height.max(1));
    let steps = vec![Step::Resize(size), Step::Pad { left: 0, top: 0, canvas, colour: [0; 3] }];
    let whole = (grid.tiles() > 1).then(|| TileView::whole(vec![Step::Resize(PixelSize::square(tile))]));
    std::iter::once(TileView { of: None, steps, grid }).chain(whole).collect()
}

fn canvas_grid(of: PixelSize, tile: u32, most: u32, enlarge: bool) -> TileGrid {
    // The reference divides in 32 bits.
    let scale = |grid: &TileGrid| {
        let wide = (grid.columns * tile) as f32 / of.width as f32;
        wide.min((grid.rows * tile) as f32 / of.height as f32)
    };
    let grids: Vec<TileGrid> = (1..=most)
        .rev()
        .flat_map(|tiles| (1..=tiles).filter(move |rows| tiles % rows == 0).map(move |rows| (tiles, rows)))
        .map(|(tiles, rows)| TileGrid { rows, columns: tiles / rows })
        .collect();
    let scales = || grids.iter().map(scale);
    let enlarging = scales().filter(|&scale| scale >= 1.0);
    let chosen = match enlarge {
        true => enlarging.reduce(f32::max),
        false => enlarging.reduce(f32::min),
    };
    let chosen = chosen.or_else(|| scales().reduce(f32::max)).unwrap_or(1.0);
    let fitting = grids.iter().copied().filter(|grid| scale(grid) == chosen);
    fitting.min_by_key(|grid| grid.tiles()).unwrap_or(TileGrid::WHOLE)
}

/// The whole in about the area of a slice; where it has more, slices by area and logarithm of the aspect.
pub fn slices(of: PixelSize, side: u32, most: u32, cell: u32) -> Vec<TileView> {
    let sides = (f64::from(of.width), f64::from(of.height));
    let Some(grid) = slice_grid(of, side, most) else {
        return vec![TileView::whole(vec![Step::Resize(slice_size(sides, side, cell, true))])];
    };
    let whole = TileView::whole(vec![Step::Resize(slice_size(sides, side, cell, false))]);
    let part = |side: u32, by: u32| f64::from(nearest_multiple(f64::from(side), by)) / f64::from(by);
    let slice = slice_size((part(of.width, grid.columns), part(of.height, grid.rows)), side, cell, true);
    let canvas = PixelSize::new(slice.width * grid.columns, slice.height * grid.rows);
    vec![whole, TileView { of: None, steps: vec![Step::Resize(canvas)], grid }]
}

/// The grid of a picture's slices; none where one is enough.
fn slice_grid(of: PixelSize, side: u32, most: u32) -> Option<TileGrid> {
    let slices = (of.area() as f64 / f64::from(side * side)).ceil().min(f64::from(most)) as u32;
    if slices <= 1 {
        return None;
    }
    let counts = [slices - 1, slices, slices + 1].into_iter().filter(|&count| count > 1 && count <= most);
    let grids = counts.flat_map(|count| {
        (1..=count)
            .filter(move |rows| count % rows == 0)
            .map(move |rows| TileGrid { rows, columns: count / rows })
    });
    let aspect = of.aspect().ln();
    let error = |grid: &TileGrid| (aspect - (f64::from(grid.columns) / f64::from(grid.rows)).ln()).abs();
    // Of equally near ones that with more rows.
    let order = |a: &TileGrid, b: &TileGrid| error(a).total_cmp(&error(b)).then(b.rows.cmp(&a.rows));
    grids.reduce(|best, grid| if order(&grid, &best) == Ordering::Less { grid } else { best })
}

/// Whole cells of about the area of a slice, for (width, height) that may be fractions.
fn slice_size((width, height): (f64, f64), side: u32, cell: u32, enlarge: bool) -> PixelSize {
    let (width, height) = match enlarge || width * height > f64::from(side * side) {
        true => {
            let aspect = width / height;
            let height = (f64::from(side) / aspect.sqrt()).floor();
            ((height * aspect).floor(), height)
        }
        false => (width, height),
    };
    PixelSize::new(nearest_multiple(width, cell), nearest_multiple(height, cell))
}

/// The nearest multiple of `by`, half to even, and at least one of it.
fn nearest_multiple(length: f64, by: u32) -> u32 {
    ((length / f64::from(by)).round_ties_even() as u32).max(1) * by
}

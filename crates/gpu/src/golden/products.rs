//! Repacking, products and look-ups of every type.

use super::{
    launch::{GoldenCase, GoldenLaunch},
    step::{EMBEDDING as INPUTS, GoldenStep, ROWS, SELECTED, VOCABULARY as OUTPUTS},
};
use crate::{
    args::{EachArgs, Field, LookupArgs, ProductArgs, RepackArgs},
    format::{FORMATS, LANES, PanelFormat},
    samples::stored,
};
use lamina_plan::backend::Result;

/// Outputs of one of the matrices that items choose among.
const ITEM_OUTPUTS: usize = 48;
/// Items of a row.
const ITEMS: usize = 2;

pub(super) fn launches(on: &GoldenStep) -> Result<Vec<GoldenLaunch>> {
    let mut launches = vec![];
    for format in FORMATS {
        let numbers = GoldenCase::new(format.few).numbers(OUTPUTS * INPUTS, -1.0, 1.0);
        let rows = stored(format.dtype, &numbers)?;
        launches.push(repack(format, &rows));
        let weight = panels(format, &rows);
        launches.extend(products(on, format, &weight));
        launches.extend(lookups(on, format, &weight));
        launches.extend(items(on, format, &rows));
    }
    Ok(launches)
}

/// Rows of a file in the order of panels: what the kernel `repack` does, word by word.
fn panels(format: &PanelFormat, rows: &[u8]) -> Vec<u8> {
    let row_bytes = format.dtype.bytes_for(INPUTS).unwrap_or_default();
    let rows: Vec<&[u8]> = rows.chunks_exact(row_bytes).collect();
    let mut packed = vec![];
    for panel in rows.chunks(LANES) {
        for block in 0..format.blocks(INPUTS) {
            for field in format.fields {
                for at in (field.at..field.at + field.bytes).step_by(field.word as usize) {
                    let at = block * format.block_bytes() + at as usize;
                    for lane in 0..LANES {
                        let zeros = [0; 16];
                        let word = panel.get(lane).map_or(&zeros[..], |row| &row[at..]);
                        packed.extend_from_slice(&word[..field.word as usize]);
                    }
                }
            }
        }
    }
    packed
}

/// A panel, and one that is not full.
fn repack(format: &PanelFormat, rows: &[u8]) -> GoldenLaunch {
    let row_bytes = format.dtype.bytes_for(INPUTS).unwrap_or_default();
    let mut field = [Field::default(); 4];
    field[..format.fields.len()].copy_from_slice(format.fields);
    let args = RepackArgs {
        rows: 40,
        row_bytes: row_bytes as i32,
        block_bytes: format.block_bytes() as i32,
        blocks: format.blocks(INPUTS) as i32,
        fields: format.fields.len() as i32,
        field,
    };
    let case = GoldenCase::new("repack").bytes(rows[..40 * row_bytes].to_vec());
    case.written(2 * format.panel_bytes(INPUTS) / 4).over([format.blocks(INPUTS), 2, 1], &args)
}

fn products(on: &GoldenStep, format: &PanelFormat, weight: &[u8]) -> [GoldenLaunch; 4] {
    let (first, y_row) = (3, OUTPUTS + 8);
    let args = ProductArgs {
        inputs: INPUTS as i32,
        outputs: OUTPUTS as i32,
        first,
        y_row: y_row as i32,
        factor: 0.22,
        ..ProductArgs::default()
    };
    let plain = ProductArgs { has_bias: 1, ..args };
    let adding = ProductArgs { adds: 1, ..args };
    let launch = |kernel, kind, rows: usize, grid, args| {
        let operands = on.kernel(kernel).bytes(weight.to_vec()).floats(rows * INPUTS).floats(y_row);
        operands.updated(rows * y_row, -1.0, 1.0).over(grid, &ProductArgs { kind, ..args })
    };
    let few = |args| {
        let grid = [OUTPUTS.div_ceil(LANES), SELECTED.div_ceil(8) + 1, 1];
        launch(format.few, 1, SELECTED, grid, args)
    };
    let many = |args| launch(format.many, 0, ROWS, [OUTPUTS.div_ceil(64), ROWS.div_ceil(64) + 1, 1], args);
    [few(plain), few(adding), many(plain), many(adding)]
}

/// Embeddings, and numbers in their place; then positions and segments, which are added.
fn lookups(on: &GoldenStep, format: &PanelFormat, table: &[u8]) -> [GoldenLaunch; 3] {
    let launch = |args: LookupArgs| {
        let operands = on.kernel(format.lookup).bytes(table.to_vec()).updated(ROWS * INPUTS, -1.0, 1.0);
        let args = LookupArgs { width: INPUTS as i32, scale: 11.3, ..args };
        operands.over([INPUTS.div_ceil(64 * 32), ROWS + 2, 1], &args)
    };
    [
        launch(LookupArgs::default()),
        launch(LookupArgs { adds: 1, by: 1, offset: 2, ..LookupArgs::default() }),
        launch(LookupArgs { adds: 1, by: 2, ..LookupArgs::default() }),
    ]
}

/// Items of a row by matrices that they choose, and by those of their numbers.
fn items(on: &GoldenStep, format: &PanelFormat, rows: &[u8]) -> [GoldenLaunch; 2] {
    let matrices: Vec<u8> = rows
        .chunks_exact(rows.len() / OUTPUTS * ITEM_OUTPUTS)
        .flat_map(|rows| panels(format, rows))
        .collect();
    let chosen: Vec<u32> = (0..ROWS * ITEMS).map(|i| (i * 5 % 3) as u32).collect();
    let count = OUTPUTS / ITEM_OUTPUTS;
    let launch = |args: EachArgs, from: usize| {
        let args = EachArgs {
            first_row: from as i32,
            inputs: INPUTS as i32,
            outputs: ITEM_OUTPUTS as i32,
            items: ITEMS as i32,
            x_from: from as i32,
            x_row: (ITEMS * INPUTS) as i32,
            y_row: (ITEMS * ITEM_OUTPUTS) as i32,
            y_item: ITEM_OUTPUTS as i32,
            ..args
        };
        let x = on.kernel(format.each).bytes(matrices.clone()).floats(ROWS * ITEMS * INPUTS);
        let operands = x.floats(count * ITEM_OUTPUTS).words(&chosen).between(ROWS * ITEMS, 0.1, 1.0);
        let grid = [ITEM_OUTPUTS.div_ceil(LANES), ITEMS, ROWS - from + 2];
        operands.updated(ROWS * ITEMS * ITEM_OUTPUTS, -1.0, 1.0).over(grid, &args)
    };
    let by_choice = EachArgs { chosen: 1, scaled: 1, has_bias: 1, ..EachArgs::default() };
    let by_number = EachArgs { x_item: INPUTS as i32, ..EachArgs::default() };
    [launch(by_choice, 40), launch(by_number, 64)]
}

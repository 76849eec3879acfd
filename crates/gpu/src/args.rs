//! The structs that kernels take behind their buffers, field for field as `kernels/*.h` declare them. Devices hold the sizes
//! against those of the kernels.

use bytemuck::{Pod, Zeroable};

macro_rules! args {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        #[repr(C)]
        pub(crate) struct $name { $(pub $field: $type,)* })*
    };
}

args! {
    /// Field of a block: first byte in the file's block, bytes, bytes of a word.
    Field { at: i32, bytes: i32, word: i32, }
    RepackArgs { rows: i32, row_bytes: i32, block_bytes: i32, blocks: i32, fields: i32, field: [Field; 4], }
    RowArgs { kind: i32, width: i32, factor: f32, }
    AddArgs { kind: i32, width: i32, first: i32, count: i32, factor: f32, }
    PickArgs { kind: i32, width: i32, from: i32, }
    ConcatArgs { kind: i32, width: i32, first: i32, }
    GateArgs { kind: i32, width: i32, share: i32, }
    MapArgs { kind: i32, width: i32, code: i32, p: [f32; 3], }
    AdaptArgs { kind: i32, width: i32, first: i32, stride: i32, lora: i32, }
    ActArgs { kind: i32, width: i32, first_row: i32, first: i32, count: i32, gated: i32, code: i32, p: [f32; 3], }
    LookupArgs { kind: i32, width: i32, adds: i32, by: i32, offset: i32, scale: f32, }
    NormArgs {
        kind: i32, width: i32, pieces: i32, layer: i32, has_weight: i32, has_bias: i32, own_weight: i32, gate: i32, eps: f32,
    }
    RopeArgs {
        kind: i32, width: i32, heads: i32, start: i32, half: i32, table: i32, original: i32, magnitude: f32,
    }
    ProductArgs { kind: i32, inputs: i32, outputs: i32, has_bias: i32, adds: i32, first: i32, y_row: i32, factor: f32, }
    HalfArgs {
        kind: i32, first_row: i32, inputs: i32, items: i32, x_from: i32, x_row: i32, x_item: i32, scaled: i32, bf16: i32,
    }
    /// Pairs of rows and items of a launch, and the product.
    TensorArgs {
        first_row: i32, rows: i32, items: i32, share: i32, source: i32, pairs_at: i32, first_pair: i32,
        product: ProductArgs,
    }
    EachArgs {
        first_row: i32, inputs: i32, outputs: i32, items: i32, x_from: i32, y_from: i32, x_row: i32, x_item: i32,
        y_row: i32, y_item: i32, has_bias: i32, chosen: i32, scaled: i32,
    }
    StoreArgs {
        group: i32, heads: i32, dim: i32, code: i32, page_bytes: i32, head_bytes: i32, row_bytes: i32, at: i32,
    }
    /// A part of the keys, or the values, inside a head of a page.
    StoredPart { at: i32, row_bytes: i32, code: i32, width: i32, }
    /// Queries of a part of the keys, in numbers.
    QueryPart { from: i32, row: i32, head: i32, at: i32, }
    AttendArgs {
        first_row: i32, group: i32, heads: i32, share: i32, tiles: i32, page_bytes: i32, head_bytes: i32,
        key: StoredPart, rope: StoredPart, value: StoredPart, q: QueryPart, q_rope: QueryPart,
        out_from: i32, out_row: i32, mask: i32, span: i32, has_sinks: i32, slopes: i32,
        units: i32, stride: i32, pass: i32, last: i32, scale: f32, softcap: f32, slope_factor: f32, rows: i32,
    }
    RouteArgs {
        experts: i32, top_k: i32, score: i32, renorm: i32, groups: i32, keep: i32, best_two: i32, has_bias: i32,
        least: i32, first_rank: i32, end_rank: i32, scale: f32, threshold: f32,
    }
    GroupArgs { first_row: i32, rows: i32, items: i32, experts: i32, height: i32, pairs_at: i32, }
    CombineArgs { first_row: i32, width: i32, top_k: i32, weighted: i32, }
    ConvArgs { channels: i32, taps: i32, has_bias: i32, state_len: i32, }
    DeltaArgs { k_heads: i32, v_heads: i32, k_dim: i32, v_dim: i32, tiled: i32, at: i32, state_len: i32, }
    ScanArgs { heads: i32, dim: i32, groups: i32, state: i32, at: i32, state_len: i32, dt_low: f32, dt_high: f32, }
}

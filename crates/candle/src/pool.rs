//! What layers remember: rows of pages, and recurrent states, as tensors that are written in place.

use candle_core::{DType, Device, Result, Tensor};
use lamina_plan::{
    Limits,
    kv::{KvType, KvTypes, LayerState, PAGE_LEN},
};

/// Largest float16 number: larger ones are stored as this one.
const F16_MAX: f32 = 65504.0;

/// What pages are stored in where `types` were asked for: candle writes rows of floats in place, and no blocks.
pub(crate) fn stored_types(types: KvTypes) -> KvTypes {
    let float = |t| match t {
        KvType::F32 | KvType::F16 | KvType::BF16 => t,
        KvType::Q8_0 | KvType::Q4_0 | KvType::Q4_1 | KvType::F8 => KvType::F16,
    };
    KvTypes { k: float(types.k), v: float(types.v) }
}

fn tensor_type(kv_type: KvType) -> DType {
    match kv_type {
        KvType::F32 => DType::F32,
        KvType::BF16 => DType::BF16,
        _ => DType::F16,
    }
}

/// Rows of equal width in pieces of equal length; a piece is a page or a state.
pub(crate) struct RowPool {
    /// `[pieces * rows of a piece, width]`.
    rows: Tensor,
    /// Rows of a piece.
    piece: usize,
}

impl RowPool {
    fn new(pieces: usize, piece: usize, width: usize, dtype: DType, device: &Device) -> Result<RowPool> {
        Ok(RowPool { rows: Tensor::zeros((pieces * piece, width), dtype, device)?, piece })
    }

    /// Rows as they are stored: rounded to the type of the pool.
    pub(crate) fn stored(&self, x: &Tensor) -> Result<Tensor> {
        match self.rows.dtype() {
            DType::F16 => x.clamp(-F16_MAX, F16_MAX)?.to_dtype(DType::F16),
            dtype => x.to_dtype(dtype),
        }
    }

    /// Puts one stored row into row `at` of the pool.
    pub(crate) fn put(&self, at: usize, row: &Tensor) -> Result<()> {
        self.rows.slice_set(&row.contiguous()?, 0, at)
    }

    /// Some rows, in the order of `ids`, as float32.
    pub(crate) fn at(&self, ids: &Tensor) -> Result<Tensor> {
        self.rows.index_select(ids, 0)?.to_dtype(DType::F32)
    }

    /// Rows of piece `i`, which share its memory.
    pub(crate) fn of(&self, i: u32) -> Result<Tensor> {
        self.rows.narrow(0, i as usize * self.piece, self.piece)
    }

    /// Puts rows of a whole piece into piece `i`.
    pub(crate) fn set(&self, i: u32, rows: &Tensor) -> Result<()> {
        let width = self.rows.dim(1)?;
        self.rows.slice_set(&rows.reshape((self.piece, width))?.contiguous()?, 0, i as usize * self.piece)
    }

    /// Copies a piece, or clears it.
    fn copy(&self, from: Option<u32>, to: u32) -> Result<()> {
        match from {
            Some(from) if from == to => Ok(()),
            // candle writes no tensor from its own memory.
            Some(from) => self.set(to, &self.of(from)?.force_contiguous()?),
            None => self.set(to, &self.of(to)?.zeros_like()?),
        }
    }

    /// Bytes of piece `i`, in the type of the pool.
    fn export(&self, i: u32) -> Result<Vec<u8>> {
        let rows = self.of(i)?.flatten_all()?;
        Ok(match rows.dtype() {
            DType::F16 => bytemuck::cast_slice(&rows.to_vec1::<half::f16>()?).to_vec(),
            DType::BF16 => bytemuck::cast_slice(&rows.to_vec1::<half::bf16>()?).to_vec(),
            _ => bytemuck::cast_slice(&rows.to_vec1::<f32>()?).to_vec(),
        })
    }

    /// Bytes of a piece.
    fn piece_bytes(&self) -> Result<usize> {
        Ok(self.piece * self.rows.dim(1)? * self.rows.dtype().size_in_bytes())
    }

    fn import(&self, i: u32, bytes: &[u8]) -> Result<()> {
        let shape = [self.piece, self.rows.dim(1)?];
        self.set(i, &Tensor::from_raw_buffer(bytes, self.rows.dtype(), &shape, self.rows.device())?)
    }
}

/// Memory of one layer.
pub(crate) struct LayerPool {
    /// Keys, or latents, or the last inputs of a convolution; and values, or rotary keys, or state matrices. None where
    /// the layer has no such numbers.
    parts: [Option<RowPool>; 2],
    /// Group of a layer with pages; none where the pieces are states.
    pub(crate) group: Option<usize>,
}

impl LayerPool {
    pub(crate) fn new(layer: &LayerState, limits: &Limits, device: &Device) -> Result<LayerPool> {
        let (widths, types, pieces, piece) = match *layer {
            LayerState::Paged { group, kv_heads, dim } => {
                ([kv_heads * dim; 2], stored_types(limits.kv[group]), limits.pages[group], PAGE_LEN)
            }
            LayerState::Latent { group, rank, rope } => {
                let types = stored_types(limits.kv[group]).k.into();
                ([rank, rope], types, limits.pages[group], PAGE_LEN)
            }
            LayerState::Recurrent { conv, state } => ([conv, state], KvType::F32.into(), limits.states, 1),
            LayerState::Elsewhere => ([0; 2], KvType::F32.into(), 0, 1),
        };
        let part = |width: usize, kv_type| {
            let pool = || RowPool::new(pieces, piece, width, tensor_type(kv_type), device);
            (width > 0).then(pool).transpose()
        };
        let parts = [part(widths[0], types.k)?, part(widths[1], types.v)?];
        Ok(LayerPool { parts, group: layer.group() })
    }

    /// Part 0 or 1.
    pub(crate) fn part(&self, i: usize) -> Result<&RowPool> {
        match &self.parts[i] {
            Some(pool) => Ok(pool),
            None => candle_core::bail!("a layer without the memory that its operator uses"),
        }
    }

    fn there(&self) -> impl Iterator<Item = &RowPool> {
        self.parts.iter().flatten()
    }

    /// Copies one piece, or clears it.
    pub(crate) fn copy(&self, from: Option<u32>, to: u32) -> Result<()> {
        self.there().try_for_each(|pool| pool.copy(from, to))
    }

    /// Bytes of a piece of both parts.
    pub(crate) fn piece_bytes(&self) -> Result<usize> {
        self.there().map(RowPool::piece_bytes).sum()
    }

    /// A piece of both parts as bytes.
    pub(crate) fn export(&self, i: u32) -> Result<Vec<u8>> {
        Ok(self.there().map(|pool| pool.export(i)).collect::<Result<Vec<_>>>()?.concat())
    }

    /// Puts back what [`LayerPool::export`] gave.
    pub(crate) fn import(&self, i: u32, mut bytes: &[u8]) -> Result<()> {
        for pool in self.there() {
            let (own, rest) = bytes.split_at(pool.piece_bytes()?);
            pool.import(i, own)?;
            bytes = rest;
        }
        Ok(())
    }
}

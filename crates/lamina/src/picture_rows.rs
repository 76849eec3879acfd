//! The rows of pictures in a request.

use crate::{
    Result,
    media::runs_of_rows,
    media_use::{MediaUsed, PictureUse},
    model::Model,
};
use lamina_arch::vision::{PictureLayout, PictureSight, RowPositions, VisionSpec};
use lamina_engine::{NumberRows, RowGrid};
use lamina_image::Picture;
use lamina_load::vision::EncoderCounts;
use std::sync::Arc;

/// What helps where the context does not hold the rows of pictures.
const SMALLER: &str = "give fewer or smaller pictures, or load the model with a smaller image_max_tokens";

impl Model {
    /// What the encoder of pictures did so far; none where the model takes text only.
    pub fn encoder_counts(&self) -> Option<EncoderCounts> {
        self.shared.pictures.as_ref().map(|encoder| encoder.counts())
    }

    /// Rows of pictures in the place of the soft tokens of a prompt; `used` is told of them. Nothing is encoded here: that
    /// begins when a step comes to rows that the cache has not.
    pub(crate) fn picture_rows(
        &self,
        tokens: &[u32],
        images: &[Arc<Picture>],
        used: &mut MediaUsed,
    ) -> Result<Vec<NumberRows>> {
        if images.is_empty() {
            return Ok(vec![]);
        }
        let encoder = self.need_pictures()?;
        let layouts = images.iter().map(|picture| self.image_layout(picture)).collect::<Result<Vec<_>>>()?;
        let counts: Vec<usize> = layouts.iter().map(PictureLayout::rows).collect();
        let (soft, width) = (encoder.spec().prompt.soft, encoder.spec().projector.out);
        let places = self.soft_places(tokens, (soft, width), ("pictures", &counts), SMALLER)?;
        let mut rest = &places[..];
        let mut out = vec![];
        for (picture, layout) in images.iter().zip(&layouts) {
            let (mine, behind) = rest.split_at(layout.rows());
            rest = behind;
            used.pictures.push(PictureUse {
                size: picture.size(),
                resized: layout.resized(),
                tokens: layout.rows(),
                cached: false,
            });
            let job = self.media_job(encoder, &used.seen, picture);
            out.extend(runs_of_rows(&job, width, mine).map(|rows| placed(rows, encoder.spec(), layout)));
            used.seen.push(job);
        }
        Ok(out)
    }
}

/// Rows with how they are seen, and where they lie in their picture.
fn placed(rows: NumberRows, spec: &VisionSpec, layout: &PictureLayout) -> NumberRows {
    let rows = match spec.sight {
        PictureSight::Causal => rows,
        PictureSight::Both => rows.seeing_both_ways(),
    };
    let cells = layout.cells[0];
    match spec.positions == RowPositions::Grid {
        true => rows.in_grid(RowGrid { rows: cells.rows, columns: cells.columns }),
        false => rows,
    }
}

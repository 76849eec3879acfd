//! The rows of pictures in a request.

use crate::{
    Error, Result,
    model::Model,
    picture_use::{PictureUse, PicturesUsed},
};
use lamina_arch::vision::{PictureLayout, PictureSight, RowPositions};
use lamina_engine::{NumberRows, RowGrid};
use lamina_image::Picture;
use lamina_load::vision::{EncoderCounts, PictureEncoder, PictureJob};
use std::sync::Arc;

impl Model {
    /// What the encoder of pictures did so far; none where the model takes text only.
    pub fn encoder_counts(&self) -> Option<EncoderCounts> {
        self.shared.pictures.as_ref().map(PictureEncoder::counts)
    }

    /// Rows of pictures in the place of the soft tokens of a prompt, and what is told of them. Nothing is encoded here: that
    /// begins when a step comes to rows that the cache has not.
    pub(crate) fn picture_rows(
        &self,
        tokens: &[u32],
        images: &[Arc<Picture>],
    ) -> Result<(Vec<NumberRows>, PicturesUsed)> {
        let mut used = PicturesUsed::default();
        if images.is_empty() {
            return Ok((vec![], used));
        }
        let encoder = self.need_pictures()?;
        let layouts = images.iter().map(|picture| self.image_layout(picture)).collect::<Result<Vec<_>>>()?;
        let counts: Vec<usize> = layouts.iter().map(PictureLayout::rows).collect();
        let places = self.soft_places(tokens, encoder.spec().prompt.soft, ("pictures", &counts))?;
        self.check_room(tokens.len(), &counts)?;
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
            let (id, waker) = (encoder.id(picture), self.shared.service.waker());
            // The same picture twice is one.
            let known = used.jobs.iter().find(|job| *job.id() == id).cloned();
            let job = known.unwrap_or_else(|| encoder.job((id, picture.clone()), move || waker.wake()));
            self.place(encoder, layout, &job, mine, &mut out)?;
            used.jobs.push(job);
        }
        Ok((out, used))
    }

    /// The places of the soft tokens, as many as there are rows.
    pub(crate) fn soft_places(
        &self,
        tokens: &[u32],
        soft: &str,
        (called, rows): (&str, &[usize]),
    ) -> Result<Vec<usize>> {
        let id = self.need_tokenizer()?.token_to_id(soft);
        let places: Vec<usize> = (0..tokens.len()).filter(|&i| Some(tokens[i]) == id).collect();
        let wanted: usize = rows.iter().sum();
        match places.len() == wanted {
            true => Ok(places),
            false => Err(Error::InvalidRequest(format!(
                "the prompt has {} tokens {soft:?}, but its {called} have {wanted} rows",
                places.len()
            ))),
        }
    }

    /// Refuses a prompt that the context does not hold, before a picture is encoded for it.
    fn check_room(&self, tokens: usize, rows: &[usize]) -> Result<()> {
        let context = self.shared.info.context;
        if tokens < context {
            return Ok(());
        }
        let each: Vec<String> = rows.iter().map(usize::to_string).collect();
        Err(Error::InvalidRequest(format!(
            "the prompt has {tokens} tokens, those of its pictures are {}, but the context holds {context}: give fewer or \
             smaller pictures, or load the model with a smaller image_max_tokens",
            each.join(" + ")
        )))
    }

    /// The rows of a picture at `places`, as runs of them that follow one another.
    fn place(
        &self,
        encoder: &PictureEncoder,
        layout: &PictureLayout,
        job: &Arc<PictureJob>,
        places: &[usize],
        out: &mut Vec<NumberRows>,
    ) -> Result<()> {
        let (width, hidden) = (encoder.spec().projector.out, self.shared.info.hidden);
        if width != hidden {
            return Err(Error::Unsupported(format!(
                "the encoder is of another model: its rows have {width} numbers, those of this one {hidden}"
            )));
        }
        let grid = (encoder.spec().positions == RowPositions::Grid).then(|| layout.cells[0]);
        let mut first = 0;
        for run in places.chunk_by(|a, b| a + 1 == *b) {
            let part = first..first + run.len();
            first = part.end;
            let placed = NumberRows::of_source(run[0], width, job.clone(), (job.id(), part));
            let placed = match encoder.spec().sight {
                PictureSight::Causal => placed,
                PictureSight::Both => placed.seeing_both_ways(),
            };
            out.push(match grid {
                Some(cells) => placed.in_grid(RowGrid { rows: cells.rows, columns: cells.columns }),
                None => placed,
            });
        }
        Ok(())
    }
}

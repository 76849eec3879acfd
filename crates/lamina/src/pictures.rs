//! Pictures in prompts: how many tokens they take, the rows that stand in the place of these, and the text around them.

use crate::{Error, Result, generate::Prompt, model::Model};
use lamina_arch::vision::{PictureLayout, PictureSight, RowPositions, VisionSpec};
use lamina_engine::{NumberRows, RowGrid};
use lamina_image::Picture;
use lamina_load::vision::{PictureEncoder, PictureRows};
use lamina_tokenize::Special;
use std::{ops::Range, sync::Arc};

impl Model {
    /// What the model does with pictures; none where it takes text only.
    pub fn vision(&self) -> Option<&VisionSpec> {
        self.shared.pictures.as_ref().map(PictureEncoder::spec)
    }

    fn need_pictures(&self) -> Result<&PictureEncoder> {
        let missing = || Error::InvalidRequest("this model takes text only".into());
        self.shared.pictures.as_ref().ok_or_else(missing)
    }

    /// How a picture is cut, and how its rows lie; nothing is encoded.
    ///
    /// # Errors
    /// When the model takes text only, or the picture is too thin for it.
    pub fn image_layout(&self, picture: &Picture) -> Result<PictureLayout> {
        let layout = self.need_pictures()?.spec().layout(picture.size());
        layout.map_err(|e| Error::InvalidRequest(e.to_string()))
    }

    /// Tokens that a picture takes in a prompt, those that its rows replace and those around them.
    ///
    /// # Errors
    /// As for [`Model::image_layout`].
    pub fn image_tokens(&self, picture: &Picture) -> Result<usize> {
        let (rule, layout) = (&self.need_pictures()?.spec().prompt, self.image_layout(picture)?);
        Ok(self.tokenize(&rule.expand(0, &layout), Special::PARSE)?.len())
    }

    /// The rows of a picture behind the projector.
    ///
    /// # Errors
    /// As for [`Model::image_layout`]; also when the encoder cannot be loaded or fails.
    pub fn image_rows(&self, picture: &Picture) -> Result<Arc<PictureRows>> {
        self.need_pictures()?.rows(picture)
    }

    /// `text` with what pictures become in the place of their markers, in order. Pictures beyond the markers go first.
    ///
    /// # Errors
    /// As for [`Model::image_layout`]; also when there are more markers than pictures.
    pub fn expand_images(&self, text: &str, images: &[Arc<Picture>]) -> Result<String> {
        let rule = &self.need_pictures()?.spec().prompt;
        let parts: Vec<&str> = text.split(rule.marker).collect();
        let markers = parts.len() - 1;
        if markers > images.len() {
            return Err(Error::InvalidRequest(format!(
                "the prompt has {markers} markers {:?}, but there are {} pictures",
                rule.marker,
                images.len()
            )));
        }
        let texts =
            images.iter().enumerate().map(|(i, picture)| Ok(rule.expand(i, &self.image_layout(picture)?)));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let (before, inside) = texts.split_at(images.len() - markers);
        let mut out = before.concat();
        for (i, part) in parts.iter().enumerate() {
            out += part;
            out += inside.get(i).map_or("", String::as_str);
        }
        Ok(out)
    }

    /// Tokens of a prompt with pictures.
    pub(crate) fn seeing_tokens(&self, prompt: &Prompt, images: &[Arc<Picture>]) -> Result<Vec<u32>> {
        match prompt {
            Prompt::Text(text) if !images.is_empty() => {
                self.tokenize(&self.expand_images(text, images)?, Special::ADD_AND_PARSE)
            }
            prompt => self.prompt_tokens(prompt),
        }
    }

    /// Rows of pictures in the place of the soft tokens of a prompt.
    pub(crate) fn picture_rows(&self, tokens: &[u32], images: &[Arc<Picture>]) -> Result<Vec<NumberRows>> {
        if images.is_empty() {
            return Ok(vec![]);
        }
        let encoder = self.need_pictures()?;
        let soft = encoder.spec().prompt.soft;
        let id = self.need_tokenizer()?.token_to_id(soft);
        let places: Vec<usize> = (0..tokens.len()).filter(|&i| Some(tokens[i]) == id).collect();
        let layouts = images.iter().map(|picture| self.image_layout(picture)).collect::<Result<Vec<_>>>()?;
        let wanted: usize = layouts.iter().map(PictureLayout::rows).sum();
        if wanted != places.len() {
            return Err(Error::InvalidRequest(format!(
                "the prompt has {} tokens {soft:?}, but its pictures have {wanted} rows",
                places.len()
            )));
        }
        let mut rest = &places[..];
        let mut out = vec![];
        for (picture, layout) in images.iter().zip(&layouts) {
            let (mine, behind) = rest.split_at(layout.rows());
            rest = behind;
            let rows = encoder.rows(picture)?;
            if rows.width != self.shared.info.hidden {
                return Err(Error::Unsupported(format!(
                    "the encoder is of another model: its rows have {} numbers, those of this one {}",
                    rows.width, self.shared.info.hidden
                )));
            }
            let grid = (encoder.spec().positions == RowPositions::Grid).then(|| layout.cells[0]);
            let name = encoder.id(picture);
            let mut first = 0;
            for run in mine.chunk_by(|a, b| a + 1 == *b) {
                let part = first..first + run.len();
                first = part.end;
                let numbers = |all: &[f32]| -> Arc<[f32]> { slice(all, rows.width, &part).into() };
                let placed =
                    NumberRows::of_source(run[0], rows.width, numbers(&rows.rows), (&name, part.clone()));
                let placed = placed.with_deep(rows.deep.iter().map(|deep| numbers(deep)).collect());
                let placed = match encoder.spec().sight {
                    PictureSight::Causal => placed,
                    PictureSight::Both => placed.seeing_both_ways(),
                };
                out.push(match grid {
                    Some(cells) => placed.in_grid(RowGrid { rows: cells.rows, columns: cells.columns }),
                    None => placed,
                });
            }
        }
        Ok(out)
    }
}

/// Rows `part` of rows of `width` numbers.
fn slice<'a>(all: &'a [f32], width: usize, part: &Range<usize>) -> &'a [f32] {
    &all[part.start * width..part.end * width]
}

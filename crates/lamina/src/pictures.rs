//! Pictures in prompts: how many tokens they take, and the text that takes the place of their markers.

use crate::{Error, Result, chat::refused, chat_options::ChatOptions, model::Model};
use lamina_arch::vision::{PictureLayout, VisionSpec};
use lamina_chat::{ExpandedPicture, MediaMarks, expand_prompt, take_pictures};
use lamina_image::{Picture, RequestLimits, RequestReader};
use lamina_load::vision::{PictureEncoder, PictureRows};
use lamina_tokenize::Special;
use serde_json::Value;
use std::sync::Arc;

const TEXT_ONLY: &str =
    "this model takes text only: for pictures, load it with the file of its encoder as mmproj";

impl Model {
    /// What the model does with pictures; none where it takes text only.
    pub fn vision(&self) -> Option<&VisionSpec> {
        self.shared.pictures.as_ref().map(|encoder| encoder.spec())
    }

    /// The encoder of pictures; none where the model takes text only.
    pub fn picture_encoder(&self) -> Option<&PictureEncoder> {
        self.shared.pictures.as_ref()
    }

    /// Reads the pictures of a request, within the limits of the model.
    ///
    /// # Errors
    /// When the model takes text only.
    pub fn image_reader(&self) -> Result<RequestReader> {
        Ok(self.need_pictures()?.limits().reader())
    }

    /// What pictures of a request may measure; none where the model takes text only.
    pub fn image_limits(&self) -> Option<RequestLimits> {
        self.shared.pictures.as_ref().map(PictureEncoder::limits)
    }

    pub(crate) fn need_pictures(&self) -> Result<&PictureEncoder> {
        let missing = || Error::InvalidRequest(TEXT_ONLY.into());
        self.shared.pictures.as_ref().ok_or_else(missing)
    }

    pub(crate) fn marks(&self) -> Result<MediaMarks<'static>> {
        let rule = &self.need_pictures()?.spec().prompt;
        Ok(MediaMarks { part: "image", marker: rule.marker, soft: rule.soft })
    }

    /// What takes the places of the markers of pictures, in order.
    fn expanded(&self, images: &[Arc<Picture>]) -> Result<Vec<ExpandedPicture>> {
        let rule = &self.need_pictures()?.spec().prompt;
        let named = |i: usize, e: Error| match e {
            Error::InvalidRequest(why) if images.len() > 1 => {
                Error::InvalidRequest(format!("picture {} of {}: {why}", i + 1, images.len()))
            }
            e => e,
        };
        let one = |(i, picture): (usize, &Arc<Picture>)| {
            let layout = self.image_layout(picture).map_err(|e| named(i, e))?;
            Ok(ExpandedPicture { text: rule.expand(i, &layout), rows: layout.rows() })
        };
        images.iter().enumerate().map(one).collect()
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
        self.need_pictures()?.rows(Arc::new(picture.clone()))
    }

    /// `text` with what pictures become in the place of their markers, in order. Pictures beyond the markers go first.
    ///
    /// # Errors
    /// As for [`Model::image_layout`]; also when there are more markers than pictures.
    pub fn expand_images(&self, text: &str, images: &[Arc<Picture>]) -> Result<String> {
        expand_prompt(text, self.marks()?, &self.expanded(images)?).map_err(refused)
    }

    /// Tokens of a conversation whose pictures `options` has.
    pub(crate) fn seeing_chat_tokens(&self, messages: &[Value], options: &ChatOptions) -> Result<Vec<u32>> {
        let given = ("pictures", options.images.len());
        let expanded = || self.expanded(&options.images);
        self.media_chat_tokens(take_pictures(messages), options, given, self.marks(), expanded)
    }
}

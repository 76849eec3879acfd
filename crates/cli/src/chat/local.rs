//! A model of this process as the one that answers.

use super::{
    AnswerPrinter, Session, Template,
    message_file::{MessageFile, MessageFileKind},
    partner::{Partner, Reply, ReplyEnd},
};
use crate::{
    args::Wanted,
    error::{CliError, Result},
    interrupt::{self, On},
    output::note,
    stats::line,
};
use lamina::{
    ChatOptions, Completion, FinishReason, GenerateOptions, ImageInput, LengthBy, MediaInputs, Model,
    PicturePart, PreparedChat, SoundInput, has_pictures, has_sounds, image::Picture, sound::Sound,
    take_pictures, take_sounds,
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};

/// How long a Ctrl-C may wait.
const GLANCE: Duration = Duration::from_millis(50);

/// A model with its template.
pub struct Local {
    /// Answers.
    pub model: Model,
    /// Makes prompts of conversations.
    pub template: Template,
}

impl Partner for Local {
    fn about(&self) -> Vec<String> {
        let info = self.model.info();
        let size = info.params as f64 / 1e6;
        let model = format!("{} ({}, {size:.1} M parameters)", info.path, info.type_name);
        vec![format!("{model}, context {} tokens", info.context)]
    }

    fn warning(&self) -> Option<&str> {
        self.template.note.as_deref()
    }

    fn answer(&mut self, session: &mut Session, wanted: &Wanted) -> Result<Reply> {
        let mut chat = self.fit(session, &wanted.options)?;
        let stop = self.template.stop.iter().map(|s| (*s).to_owned());
        let stop = wanted.options.stop.iter().cloned().chain(stop).collect();
        let options = GenerateOptions { stop, ..wanted.options.clone() };
        interrupt::set(On::Catch);
        let answer = self.stream(&mut chat, &options);
        interrupt::set(On::Hint);
        let (answer, printer) = answer?;
        Ok(Reply {
            text: printer.text().to_owned(),
            calls: printer.calls(),
            ending: ending(answer.finish_reason),
            stats: line(&answer),
        })
    }

    fn count(&self, session: &Session) -> Result<(usize, Option<usize>)> {
        let window = session.window();
        let context = Some(self.model.info().context);
        if window.is_empty() {
            return Ok((0, context));
        }
        let options = ChatOptions { no_generation_prompt: true, ..self.options(&window)? };
        Ok((self.model.chat_tokens(&window, &options)?.len(), context))
    }

    fn takes(&self, kind: MessageFileKind) -> bool {
        match kind {
            MessageFileKind::Picture => self.model.vision().is_some(),
            MessageFileKind::Sound => self.model.hearing().is_some(),
        }
    }

    fn look(&self, file: &MessageFile) -> Result<String> {
        let path = file.path.as_str();
        let (sizes, mut said) = match file.kind {
            MessageFileKind::Picture => {
                let read = self.model.read_images([(path, ImageInput::File(path.as_ref()))])?;
                let size = |picture: &Arc<Picture>| {
                    Ok((format!("{} pixels", picture.size()), self.model.image_tokens(picture)?))
                };
                (read.images.iter().map(size).collect::<Result<Vec<_>>>()?, read.notes)
            }
            MessageFileKind::Sound => {
                let read = self.model.read_sounds([(path, SoundInput::File(path.as_ref()))])?;
                let size = |sound: &Arc<Sound>| {
                    Ok((format!("{:.1} seconds", sound.seconds()), self.model.sound_tokens(sound)?))
                };
                (read.iter().map(size).collect::<Result<Vec<_>>>()?, vec![])
            }
        };
        let line = |(size, tokens)| format!("{path}: {size}, {tokens} tokens of the next message");
        said.extend(sizes.into_iter().map(line));
        Ok(said.join("\n"))
    }

    fn restore(&self, path: &Path) -> Result<Session> {
        let saved = self.model.load_session(path)?;
        let wrong = |problem| CliError::Content { path: path.to_owned(), problem };
        let session = Session::from_json(&saved.data).map_err(wrong)?;
        let (messages, tokens, cached) = (session.len(), saved.tokens.len(), saved.cached_tokens);
        note(&format!("{messages} messages, {tokens} tokens, of which {cached} need not be computed"));
        Ok(session)
    }

    fn save(&self, session: &Session, path: &Path) -> Result<()> {
        let window = session.window();
        let options = ChatOptions { no_generation_prompt: true, ..self.options(&window)? };
        let tokens = if window.is_empty() { vec![] } else { self.model.chat_tokens(&window, &options)? };
        let data = json!({ "messages": session.to_json() });
        let media = MediaInputs { images: options.images, sounds: options.sounds };
        self.model.save_session_with(path, &tokens, &media, &data)?;
        Ok(())
    }
}

impl Local {
    /// The conversation; the oldest turns are dropped until half of the context is free, so that this does not happen,
    /// and the computed beginning is not lost, with every message.
    fn fit(&self, session: &mut Session, options: &GenerateOptions) -> Result<PreparedChat> {
        let context = self.model.info().context;
        let room = options.max_tokens.unwrap_or(usize::MAX).min(context / 4).max(1);
        let mut chat = self.prepare(session)?;
        if chat.tokens.len() + room <= context {
            return Ok(chat);
        }
        let mut turns = 0;
        while chat.tokens.len() > context / 2 && session.drop_oldest() {
            turns += 1;
            chat = self.prepare(session)?;
        }
        if turns > 0 {
            note(&format!("the context of {context} tokens is full: the oldest {turns} turns are dropped"));
        }
        Ok(chat)
    }

    fn prepare(&self, session: &Session) -> Result<PreparedChat> {
        let window = session.window();
        Ok(self.model.prepare_chat(&window, &self.options(&window)?)?)
    }

    /// The template's options with the pictures and sounds of messages, whose parts name files.
    fn options(&self, window: &[Value]) -> Result<ChatOptions> {
        let mut options = self.template.options.clone();
        if has_pictures(window) {
            let files = files(take_pictures(window).1, MessageFileKind::Picture);
            let inputs = files.iter().map(|file| (file.as_str(), ImageInput::File(file.as_ref())));
            options.images = self.model.read_images(inputs)?.images;
        }
        if has_sounds(window) {
            let files = files(take_sounds(window).1, MessageFileKind::Sound);
            let inputs = files.iter().map(|file| (file.as_str(), SoundInput::File(file.as_ref())));
            options.sounds = self.model.read_sounds(inputs)?;
        }
        Ok(options)
    }

    fn stream(
        &self,
        chat: &mut PreparedChat,
        options: &GenerateOptions,
    ) -> Result<(Completion, AnswerPrinter)> {
        let mut stream = self.model.stream_chat(chat, options)?;
        let media = stream.media().clone();
        chat.answer.warnings.iter().for_each(|warning| note(warning));
        let mut reader = chat.answer.reader();
        let (mut answer, mut printer) = (Completion::empty(), AnswerPrinter::default());
        loop {
            if interrupt::hit() {
                stream.cancel();
            }
            match stream.next_within(GLANCE) {
                Ok(None) => {}
                Ok(Some(piece)) => {
                    reader.push(&piece).into_iter().try_for_each(|delta| printer.push(delta))?;
                    answer.push(piece);
                }
                Err(Some(e)) => return Err(e.into()),
                Err(None) => break,
            }
        }
        printer.finish()?;
        answer.media = media;
        Ok((answer, printer))
    }
}

/// Files that parts of a kind name.
fn files(parts: Vec<PicturePart>, kind: MessageFileKind) -> Vec<String> {
    let file = |part: PicturePart| part.part.get(kind.part()).and_then(Value::as_str).map(str::to_owned);
    parts.into_iter().map(|part| file(part).unwrap_or_default()).collect()
}

fn ending(reason: FinishReason) -> ReplyEnd {
    match reason {
        FinishReason::Stop { .. } => ReplyEnd::Complete,
        FinishReason::Cancelled => ReplyEnd::Stopped,
        FinishReason::Length { by: LengthBy::MaxTokens } => ReplyEnd::Limit("ended at max_tokens"),
        FinishReason::Length { by: LengthBy::Context } => ReplyEnd::Limit("ended at the end of the context"),
        FinishReason::Length { by: LengthBy::Deadline } => ReplyEnd::Limit("ended at its deadline"),
    }
}

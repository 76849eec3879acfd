//! Answers to a conversation as they come, taken apart.

use crate::{
    Error, Result,
    answer::{ChatReader, PreparedChat},
    generate::{GenerateOptions, Piece},
    model::Model,
    token_stream::TokenStream,
};
use lamina_chat::Delta;
use lamina_engine::Canceller;
use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

/// A piece of an answer, and what it adds to text, reasoning and calls; its number is the piece's.
pub type ChatPiece = (Piece, Vec<Delta>);

/// Answers to a conversation as they come, taken apart. Dropping it cancels the request.
pub struct ChatStream {
    stream: TokenStream,
    /// One for each answer.
    readers: Vec<ChatReader>,
}

impl Model {
    /// Streams the answers to a conversation, taken apart.
    ///
    /// ```no_run
    /// # let model = lamina::Model::load(None, lamina::LoadOptions::default())?;
    /// let said = [serde_json::json!({ "role": "user", "content": "Hello" })];
    /// let mut chat = model.prepare_chat(&said, &lamina::ChatOptions::default())?;
    /// for piece in model.chat_deltas(&mut chat, &lamina::GenerateOptions::default())? {
    ///     for delta in piece?.1 {
    ///         println!("{delta:?}");
    ///     }
    /// }
    /// # Ok::<(), lamina::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Model::stream_chat`].
    pub fn chat_deltas(&self, chat: &mut PreparedChat, options: &GenerateOptions) -> Result<ChatStream> {
        let stream = self.stream_chat(chat, options)?;
        let readers = (0..options.n.max(1)).map(|_| chat.answer.reader()).collect();
        Ok(ChatStream { stream, readers })
    }
}

impl ChatStream {
    /// What cancels it from other threads.
    pub fn canceller(&self) -> Canceller {
        self.stream.canceller()
    }

    /// As [`TokenStream::next_within`].
    ///
    /// # Errors
    /// As there.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<ChatPiece>, Option<Error>> {
        Ok(self.stream.next_within(time)?.map(|piece| self.read(piece)))
    }

    /// As [`TokenStream::poll_next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<ChatPiece>>> {
        let piece = ready!(self.stream.poll_next(context));
        Poll::Ready(piece.map(|piece| Ok(self.read(piece?))))
    }

    fn read(&mut self, piece: Piece) -> ChatPiece {
        let deltas = self.readers[piece.index].push(&piece);
        (piece, deltas)
    }
}

impl Iterator for ChatStream {
    type Item = Result<ChatPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.stream.next()?;
        Some(piece.map(|piece| self.read(piece)))
    }
}

//! The thread that loads a model and answers, so that a window never waits for either.

use lamina::{ChatOptions, GenerateOptions, LoadOptions, Model, Prompt, TokenStream};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// What the thread tells the window.
pub enum Told {
    /// Bytes of the weights that are there, and of all.
    Loading(u64, u64),
    /// A model can be asked.
    Ready(String),
    /// More of the answer.
    Piece(String),
    /// The answer is over, and why.
    Ended(String),
    /// The model cannot be loaded.
    NoModel(String),
}

/// Turns of a conversation: who, and what.
pub type Turns = Vec<(&'static str, String)>;

/// A model on a thread of its own. Dropping it ends the thread with what it is doing.
pub struct Answers {
    asked: Sender<Turns>,
    told: Receiver<Told>,
    stopped: Arc<AtomicBool>,
}

impl Answers {
    /// Begins to load `model`; `wake` is called whenever there is news.
    pub fn start(model: PathBuf, wake: impl Fn() + Send + Sync + 'static) -> Answers {
        let ((asked, questions), (news, told)) = (channel(), channel());
        let stopped = Arc::new(AtomicBool::new(false));
        let worker = Worker { news, stopped: stopped.clone(), wake: Box::new(wake) };
        thread::spawn(move || worker.run(&model, &questions));
        Answers { asked, told, stopped }
    }

    /// The next piece of news.
    pub fn told(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }

    /// Asks for the next turn.
    pub fn ask(&self, turns: Turns) {
        self.stopped.store(false, Relaxed);
        // The thread is gone where there is no model, which it has told.
        _ = self.asked.send(turns);
    }

    /// Ends the answer that is being written.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    news: Sender<Told>,
    stopped: Arc<AtomicBool>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Worker {
    fn run(&self, path: &Path, questions: &Receiver<Turns>) {
        let loaded = Model::load_with(Some(path), &LoadOptions::default(), &|done, all| {
            self.tell(Told::Loading(done, all));
            !self.stopped.load(Relaxed)
        });
        let model = match loaded {
            Ok(model) => model,
            Err(why) => return self.tell(Told::NoModel(why.to_string())),
        };
        let (info, known) = (model.info(), model.has_chat_template());
        let kind = if known { "a model that talks" } else { "a model that continues texts" };
        self.tell(Told::Ready(format!("{kind}: {}, {}", info.family, info.type_name)));
        for turns in questions {
            let ended = self.answer(&model, &turns).unwrap_or_else(|why| why.to_string());
            self.tell(Told::Ended(ended));
        }
    }

    /// Tells the answer piece by piece; returns why it ended. A stream that is dropped cancels its request.
    fn answer(&self, model: &Model, turns: &Turns) -> lamina::Result<String> {
        let mut count = 0;
        for piece in begin(model, turns)? {
            let piece = piece?;
            count += 1;
            self.tell(Told::Piece(piece.text));
            if let Some((reason, _)) = piece.end {
                return Ok(format!("{count} pieces, ended by {}", reason.name()));
            }
            if self.stopped.load(Relaxed) {
                break;
            }
        }
        Ok(format!("{count} pieces, stopped"))
    }

    fn tell(&self, told: Told) {
        // A window that was closed hears nothing.
        _ = self.news.send(told);
        (self.wake)();
    }
}

/// The answer to a conversation. A model without a template continues the text of all turns.
fn begin(model: &Model, turns: &Turns) -> lamina::Result<TokenStream> {
    let options = GenerateOptions { max_tokens: Some(512), ..GenerateOptions::default() };
    if !model.has_chat_template() {
        let text: Vec<&str> = turns.iter().map(|(_, text)| text.as_str()).collect();
        return model.stream(&Prompt::Text(text.join(" ")), &options);
    }
    let role = |who: &str| if who == "you" { "user" } else { "assistant" };
    let messages: Vec<_> =
        turns.iter().map(|(who, text)| json!({"role": role(who), "content": text})).collect();
    model.chat(&messages, &ChatOptions::default(), &options)
}

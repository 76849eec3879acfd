//! A window that talks with a model: Lamina inside a desktop program, without a server and without another process.
//!
//! `cargo run -- [MODEL]`; MODEL is a GGUF file or a Hugging Face folder, by default the small model of the repository. The
//! window never waits: a thread loads and answers (`answers.rs`), and wakes it for each piece of text.

mod answers;

use answers::{Answers, Told};
use eframe::egui::{self, Align, Key, Panel, ProgressBar, RichText, ScrollArea, TextEdit};
use std::path::PathBuf;

/// The small model in the repository.
const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lamina/models/lamina-tiny.gguf");

fn main() -> eframe::Result {
    let model = std::env::args_os().nth(1).map_or_else(|| BUILT_IN.into(), PathBuf::from);
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default().with_inner_size([720.0, 540.0]),
        ..Default::default()
    };
    let start = |context: &eframe::CreationContext<'_>| {
        Ok(Box::new(Window::new(model, context.egui_ctx.clone())) as Box<dyn eframe::App>)
    };
    eframe::run_native("Lamina", options, Box::new(start))
}

/// What the window shows.
enum State {
    /// Bytes of the weights that are there, and of all.
    Loading(u64, u64),
    Ready,
    /// An answer is being written.
    Answering,
    /// There is no model to ask.
    Failed,
}

struct Window {
    answers: Answers,
    state: State,
    /// Turns of the conversation: who, and what.
    turns: Vec<(&'static str, String)>,
    /// What went wrong last, or what is to be known of the answer.
    note: String,
    draft: String,
}

impl Window {
    fn new(model: PathBuf, context: egui::Context) -> Window {
        let answers = Answers::start(model, move || context.request_repaint());
        let (turns, note, draft) = (vec![], String::new(), String::new());
        Window { answers, state: State::Loading(0, 0), turns, note, draft }
    }

    /// Takes what the thread has told since the last frame.
    fn listen(&mut self) {
        while let Some(told) = self.answers.told() {
            match told {
                Told::Loading(done, all) => self.state = State::Loading(done, all),
                Told::Ready(what) => (self.state, self.note) = (State::Ready, what),
                Told::Piece(text) => {
                    if let Some((_, answer)) = self.turns.last_mut() {
                        answer.push_str(&text);
                    }
                }
                Told::Ended(why) => (self.state, self.note) = (State::Ready, why),
                Told::NoModel(why) => (self.state, self.note) = (State::Failed, why),
            }
        }
    }

    fn send(&mut self) {
        let text = std::mem::take(&mut self.draft);
        self.turns.push(("you", text));
        self.answers.ask(self.turns.clone());
        self.turns.push(("model", String::new()));
        self.state = State::Answering;
        self.note.clear();
    }

    /// The line at the bottom: what is typed, and the button that sends it or stops the answer.
    fn entry(&mut self, ui: &mut egui::Ui) {
        ui.horizontal(|ui| {
            let is_answering = matches!(self.state, State::Answering);
            let button = if is_answering { "Stop" } else { "Send" };
            let usable = is_answering || matches!(self.state, State::Ready) && !self.draft.trim().is_empty();
            let clicked = ui.add_enabled(usable, egui::Button::new(button)).clicked();
            let hint = "Write something; Enter sends it";
            let line = TextEdit::singleline(&mut self.draft).hint_text(hint).desired_width(f32::INFINITY);
            let line = ui.add(line);
            let entered = line.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if is_answering {
                if clicked {
                    self.answers.stop();
                }
            } else if usable && (clicked || entered) {
                self.send();
                line.request_focus();
            }
        });
        ui.label(RichText::new(&self.note).small());
    }

    fn conversation(&self, ui: &mut egui::Ui) {
        if let State::Loading(done, all) = self.state {
            ui.add(ProgressBar::new(done as f32 / all.max(1) as f32).text("loading"));
        }
        ScrollArea::vertical().auto_shrink(false).stick_to_bottom(true).show(ui, |ui| {
            for (who, text) in &self.turns {
                ui.with_layout(egui::Layout::top_down(Align::LEFT), |ui| {
                    ui.label(RichText::new(*who).small().weak());
                    ui.label(text);
                });
                ui.add_space(8.0);
            }
        });
    }
}

impl eframe::App for Window {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        self.listen();
        Panel::bottom("entry").show(ui, |ui| self.entry(ui));
        egui::CentralPanel::default().show(ui, |ui| self.conversation(ui));
    }
}

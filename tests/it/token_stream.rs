//! Answers as they come: a stream keeps its model, is polled or waited for, and cancelled by other threads.

use lamina::{
    ChatOptions, Delta, Error, FinishReason, GenerateOptions, LoadOptions, Model, Piece, Prompt, TokenStream,
};
use lamina_fixtures::packaged;
use std::{
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

fn model() -> Model {
    let options = LoadOptions { threads: Some(1), context: Some(256), ..LoadOptions::default() };
    Model::load(Some(&packaged()), options).expect("the model inside the package")
}

fn options(max_tokens: usize) -> GenerateOptions {
    let mut options = GenerateOptions { max_tokens: Some(max_tokens), ..GenerateOptions::default() };
    options.ignore_eos = true;
    options.sampling.set("temperature", 0.0).expect("a parameter");
    options
}

fn begin(model: &Model, tokens: usize) -> TokenStream {
    model.stream(&Prompt::Text("Once upon a time".into()), &options(tokens)).expect("a request")
}

fn text(pieces: impl Iterator<Item = Result<Piece, Error>>) -> String {
    pieces.map(|piece| piece.expect("a piece").text).collect()
}

#[test]
fn a_stream_outlives_the_last_value_of_its_model() {
    let model = model();
    let want = text(begin(&model, 24));
    let stream = begin(&model, 24);
    drop(model);
    assert_eq!(text(stream), want);
}

#[test]
fn pieces_that_are_polled_or_tried_are_those_that_are_waited_for() {
    let model = model();
    let want = text(begin(&model, 24));
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let (mut stream, mut polled) = (begin(&model, 24), String::new());
    loop {
        match stream.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Pending => thread::park_timeout(Duration::from_secs(20)),
            Poll::Ready(None) => break,
            Poll::Ready(Some(piece)) => polled += &piece.expect("a piece").text,
        }
    }
    assert_eq!(polled, want);
    let (mut stream, mut tried) = (begin(&model, 24), String::new());
    loop {
        match stream.try_next() {
            Ok(Some(piece)) => tried += &piece.text,
            Ok(None) => thread::sleep(Duration::from_millis(1)),
            Err(None) => break,
            Err(Some(e)) => panic!("{e}"),
        }
    }
    assert_eq!(tried, want);
}

#[test]
fn another_thread_cancels_a_stream_that_is_waited_for() {
    let model = model();
    let mut stream = begin(&model, 200);
    let (canceller, mut came, mut end) = (stream.canceller(), 0, None);
    for piece in stream.by_ref() {
        came += 1;
        if came == 3 {
            let canceller = canceller.clone();
            thread::spawn(move || canceller.cancel()).join().expect("a thread");
        }
        end = piece.expect("a piece").end;
    }
    assert_eq!(end.map(|(reason, _)| reason), Some(FinishReason::Cancelled));
    assert!(came < 200, "{came}");
    assert!(stream.try_next().is_err_and(|e| e.is_none()) && stream.next().is_none());
}

#[test]
fn deltas_of_a_conversation_make_up_its_text() {
    let model = model();
    let said = [serde_json::json!({ "role": "user", "content": "Tell me a story" })];
    let chat = ChatOptions {
        template: Some("{% for m in messages %}{{ m.content }}\n{% endfor %}".into()),
        ..ChatOptions::default()
    };
    let mut prepared = model.prepare_chat(&said, &chat).expect("a prompt");
    let want = text(model.stream_chat(&mut prepared.clone(), &options(24)).expect("a request"));
    let mut got = String::new();
    for piece in model.chat_deltas(&mut prepared, &options(24)).expect("a request") {
        for delta in piece.expect("a piece").1 {
            let Delta::Content(text) = delta else { panic!("{delta:?}") };
            got += &text;
        }
    }
    assert_eq!(got.trim(), want.trim());
}

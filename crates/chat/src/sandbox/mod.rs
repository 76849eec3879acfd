//! The sandbox of chat templates: Jinja as `transformers` has it, within limits.
//!
//! `transformers` runs jinja2 (immutable sandbox, `trim_blocks`, `lstrip_blocks`, loop controls) with a few helpers
//! of its own. minijinja is the same language; the helpers and the places where Python shows through are here.
//!
//! A template is a program that came with a model, so it runs within limits ([`meter`]): on a stack of its own
//! ([`stack`]), its source bounded before it is parsed ([`program`]), its operators ([`operators`]), filters and
//! methods ([`guard`]) bounded by arithmetic before they allocate.

mod builtins;
mod clock;
mod generation;
mod guard;
mod json;
mod meter;
mod namespace;
mod operators;
mod program;
mod python;
mod size;
mod stack;

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, machinery,
};

use crate::error::ChatError;

pub use clock::Clock;
pub(crate) use clock::strftime;
pub(crate) use python::{list, value};
pub(crate) use size::length;
pub(crate) use stack::run as on_stack;

const OUT_OF_FUEL: &str = "it took more steps than any conversation needs: it seems to loop without end";
const NAME: &str = "chat";

/// A program whose source compiles, with all that it may call.
#[derive(Debug)]
pub(crate) struct Sandbox {
    environment: Environment<'static>,
    syntax: SyntaxConfig,
    /// The source as the engine takes it.
    rewritten: String,
}

/// A refusal by the template itself, told apart from its failures.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl Sandbox {
    /// Compiles a source.
    pub fn new(source: &str) -> Result<Sandbox, ChatError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_recursion_limit(meter::FRAMES);
        environment.set_formatter(emit);
        builtins::add_to(&mut environment);
        operators::add_to(&mut environment);
        python::add_to(&mut environment);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", raise_exception);
        let sandbox = Sandbox { environment, syntax: syntax()?, rewritten: generation::rewrite(source) };
        let compiled = || program::compile(NAME, &sandbox.rewritten, &sandbox.syntax).map(|_| ());
        stack::run(compiled)?.map_err(|e| unreadable(&e))?;
        Ok(sandbox)
    }

    /// Lets `strftime_now` take the time from `clock`.
    pub fn set_clock(&mut self, clock: Clock) {
        self.environment.add_function("strftime_now", move |format: &str| strftime(clock, format));
    }

    /// Renders with these variables, which have `bytes` bytes. To be called on a stack of its own ([`on_stack`]).
    pub fn run(&self, variables: Vec<(String, Value)>, bytes: usize) -> Result<String, ChatError> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(meter::instructions(bytes)));
        let program = program::compile(NAME, &self.rewritten, &self.syntax).map_err(|e| unreadable(&e))?;
        meter::fill(bytes);
        namespace::emptied_after(|| {
            let mut text = String::new();
            let mut output = machinery::make_string_output(&mut text);
            let root = Value::from_pairs(variables);
            let escape = AutoEscape::None;
            machinery::eval(&environment, &program.main, root, &program.blocks, &mut output, escape)
                .map(|_| ())
                .map_err(|e| failure(&e))?;
            Ok(text)
        })
    }
}

fn syntax() -> Result<SyntaxConfig, ChatError> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.map_err(|e| ChatError::Syntax(describe(&e)))
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

/// Writes a value, after its cost was taken.
fn emit(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let bytes = match value.as_str() {
        Some(text) => text.len(),
        None => size::measure(value)?.printed(),
    };
    let growth = if matches!(state.auto_escape(), AutoEscape::None) { 1 } else { 6 };
    meter::memory(bytes.saturating_mul(growth))?;
    minijinja::escape_formatter(output, state, value)
}

/// The first cause of this type.
fn cause<T: std::error::Error + 'static>(error: &Error) -> Option<&T> {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

fn unreadable(error: &Error) -> ChatError {
    match cause::<meter::Exceeded>(error) {
        Some(exceeded) => ChatError::Limit(exceeded.0.clone()),
        None => ChatError::Syntax(describe(error)),
    }
}

fn failure(error: &Error) -> ChatError {
    if let Some(refusal) = cause::<Refusal>(error) {
        return ChatError::Refused(refusal.0.clone());
    }
    if let Some(exceeded) = cause::<meter::Exceeded>(error) {
        return ChatError::Limit(exceeded.0.clone());
    }
    match error.kind() {
        ErrorKind::OutOfFuel => ChatError::Limit(OUT_OF_FUEL.into()),
        _ => ChatError::Failed(describe(error)),
    }
}

/// One line: what, and where in the template.
fn describe(error: &Error) -> String {
    match (error.detail(), error.line()) {
        (Some(detail), Some(line)) => format!("{}: {detail} (line {line})", error.kind()),
        (None, Some(line)) => format!("{} (line {line})", error.kind()),
        _ => error.to_string(),
    }
}

//! Spans of requests for collectors of OpenTelemetry, over HTTP. Never a text.

#[cfg(feature = "client")]
mod collector;
#[cfg(not(feature = "client"))]
mod no_collector;
mod request;
mod sender;
mod target;

#[cfg(feature = "client")]
use collector::SpanCollector;
#[cfg(not(feature = "client"))]
use no_collector::NoCollector as SpanCollector;
pub use sender::SpanSender;

//! What those who watch a server are shown: requests that run, times of the last minute, samples of the last ten.

mod feed;
mod open;
mod stream;
mod window;

pub use feed::LiveFeed;
pub use open::OpenRequests;
pub use stream::LiveStream;
pub use window::LatencyWindow;

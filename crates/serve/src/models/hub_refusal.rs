//! What went wrong with the hub, for those who asked a server.

use crate::error::{ApiError, Cause};
use lamina::hub::HubError;
use std::time::Duration;

/// When to try again what a network or a disk has refused.
const AGAIN: Duration = Duration::from_secs(10);

/// What went wrong with a name, without the paths of this machine.
pub(super) fn refusal(e: HubError) -> ApiError {
    let told = e.to_string();
    match e {
        HubError::Name { .. } | HubError::Choice { .. } | HubError::NoRevision { .. } => {
            ApiError::at("model", told)
        }
        HubError::NoRepo { .. } => ApiError::new(Cause::NoModel, told).of("model"),
        HubError::Gated { .. } | HubError::Token { .. } => ApiError::new(Cause::Forbidden, told),
        HubError::Unfit { .. } => ApiError::unsupported(told),
        HubError::Space { needed, free, .. } => {
            let [needed, free] = [needed, free].map(lamina::human_bytes);
            let text = format!("the server's disk is too full: {needed} are needed, {free} are free");
            ApiError::unavailable(text, AGAIN)
        }
        HubError::File { action, path, problem } => {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            ApiError::unavailable(format!("the server cannot {action} {file}: {problem}"), AGAIN)
        }
        HubError::Cancelled => ApiError::unavailable("the server stopped fetching", AGAIN),
        _ => ApiError::unavailable(told, AGAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn errors_tell_no_paths() {
        let path = PathBuf::from("/home/somebody/hub/blobs/abc");
        let file =
            HubError::File { action: "write", path: path.clone(), problem: "No space left on device".into() };
        let space = HubError::Space { folder: path, needed: 40_000_000_000, free: 3_000_000 };
        for (error, words) in [(file, "No space left on device"), (space, "too full: 40.0 GB are needed")] {
            let told = refusal(error);
            assert!(told.message.contains(words) && !told.message.contains("somebody"), "{told:?}");
            assert_eq!(told.cause, Cause::Unavailable);
        }
    }
}

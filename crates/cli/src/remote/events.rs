//! Server-sent events: the `data` fields of a body that comes in pieces of any size.

/// What an event holds.
#[derive(Debug, PartialEq)]
pub enum EventData {
    /// The text of its `data` field.
    Text(String),
    /// The mark behind the last event.
    Done,
}

/// Cuts pieces of a body into events.
#[derive(Debug, Default)]
pub struct EventReader {
    rest: Vec<u8>,
}

impl EventReader {
    /// The events that `piece` completes. Comments and other fields are passed over.
    pub fn push(&mut self, piece: &[u8]) -> Vec<EventData> {
        self.rest.extend_from_slice(piece);
        let Some(end) = self.rest.iter().rposition(|&b| b == b'\n') else { return vec![] };
        let rest = self.rest.split_off(end + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        // Whole lines only, so that no character is cut.
        String::from_utf8_lossy(&lines).lines().filter_map(data).collect()
    }
}

fn data(line: &str) -> Option<EventData> {
    let text = line.strip_prefix("data:")?.trim();
    Some(if text == "[DONE]" { EventData::Done } else { EventData::Text(text.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_body_is_cut() {
        let body =
            ": ping\r\n\r\ndata: {\"a\": \"é你\"}\r\n\r\nevent: x\ndata:2\n\ndata: [DONE]\n\n".as_bytes();
        let expected =
            [EventData::Text("{\"a\": \"é你\"}".into()), EventData::Text("2".into()), EventData::Done];
        for size in 1..=body.len() {
            let mut reader = EventReader::default();
            let events: Vec<_> = body.chunks(size).flat_map(|piece| reader.push(piece)).collect();
            assert_eq!(events, expected, "pieces of {size} bytes");
        }
    }
}

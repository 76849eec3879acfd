//! What an engine says to a gateway about one request, and the request itself: frames of bytes over a connection of their own.
//!
//! A frame is `u32 length of the payload, u8 kind, payload, u64 XXH3 of all before`, integers in little endian. One that is
//! cut or damaged does not count. Frames whose kind a side does not know are skipped.

mod events;
mod line;
mod read;
mod write;

pub use events::{read_events, write_event};
pub use line::FrameLine;
pub use read::FrameReader;
pub use write::{write_frame, write_value};

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// To the engine: what is asked, and by whom.
    Ticket,
    /// To the engine: the request's body.
    Request,
    /// To the engine: a mark of an engine before it.
    Told,
    /// To the engine: nothing more of the request follows.
    Go,
    /// The head of the response.
    Head,
    /// Bytes of the response.
    Bytes,
    /// All bytes so far tell these events, and those of the marks before.
    Mark,
    /// All bytes so far are told, and no other engine could go on behind them.
    Final,
    /// A kept answer, with its id.
    Kept,
    /// The engine lives and has nothing to say.
    Alive,
    /// The response is whole: what there is to say of it.
    End,
    /// To a replica that joins: what the gateway says first.
    Challenge,
    /// To the gateway: who joins, with a proof.
    Join,
    /// To a replica that joins: whether it is one of the replicas now.
    Verdict,
    /// To a replica: its process is to end. To a gateway: this replica is let go by another one.
    Leave,
    /// To a gateway: what others ask of this replica.
    News,
    /// To the engine: names of the request's text, for its other gateways.
    Names,
    /// What was computed of the prompt lies in the folder that the replicas share: another engine finds it there.
    Prefilled,
}

impl FrameKind {
    const ALL: [FrameKind; 18] = [
        FrameKind::Ticket,
        FrameKind::Request,
        FrameKind::Told,
        FrameKind::Go,
        FrameKind::Head,
        FrameKind::Bytes,
        FrameKind::Mark,
        FrameKind::Final,
        FrameKind::Kept,
        FrameKind::Alive,
        FrameKind::End,
        FrameKind::Challenge,
        FrameKind::Join,
        FrameKind::Verdict,
        FrameKind::Leave,
        FrameKind::News,
        FrameKind::Names,
        FrameKind::Prefilled,
    ];

    /// Its number: numbers of kinds never change.
    fn number(self) -> u8 {
        self as u8 + 1
    }

    fn of(number: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

//! What a replica tells each of its gateways of what the others ask of it, so that all of them choose by the same knowledge.

use crate::router::RequestNames;
use bytes::Buf;

/// A message to a gateway. Numbers of requests are the replica's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteNews {
    /// The replica has computed these names, the youngest first.
    Holds(RequestNames),
    /// It was given a request.
    Asked {
        /// Which.
        number: u64,
        /// Its text.
        request: RequestNames,
    },
    /// The answer of a request has begun.
    Begun(u64),
    /// A request has left.
    Over(u64),
}

impl RouteNews {
    /// As bytes: a kind, the number of a request in little endian (0: of none), names.
    pub fn written(&self) -> Vec<u8> {
        let (kind, number, names) = match self {
            RouteNews::Holds(names) => (1, 0, Some(names)),
            RouteNews::Asked { number, request } => (2, *number, Some(request)),
            RouteNews::Begun(number) => (3, *number, None),
            RouteNews::Over(number) => (4, *number, None),
        };
        let mut out = vec![kind];
        out.extend_from_slice(&number.to_le_bytes());
        names.iter().for_each(|names| out.extend(names.written()));
        out
    }

    /// A message from bytes; none where they are none.
    pub fn read(mut bytes: &[u8]) -> Option<RouteNews> {
        let (kind, number) = (bytes.try_get_u8().ok()?, bytes.try_get_u64_le().ok()?);
        Some(match kind {
            1 => RouteNews::Holds(RequestNames::read(bytes)?),
            2 => RouteNews::Asked { number, request: RequestNames::read(bytes)? },
            3 => RouteNews::Begun(number),
            4 => RouteNews::Over(number),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::MOST_NAMES;

    #[test]
    fn news_come_back_and_what_is_cut_is_none() {
        let request = RequestNames { names: (0..3).map(|i| u128::MAX - i).collect(), bytes: 400 };
        let asked = RouteNews::Asked { number: 7, request: request.clone() };
        let all = [RouteNews::Holds(request), asked, RouteNews::Begun(7), RouteNews::Over(8)];
        for news in all {
            let bytes = news.written();
            assert_eq!(RouteNews::read(&bytes), Some(news.clone()));
            assert_eq!(RouteNews::read(&bytes[..bytes.len() - 1]), None, "{news:?}");
        }
        assert_eq!((RouteNews::read(&[]), RouteNews::read(&[9, 1])), (None, None));
        let long = |count: usize| RequestNames { names: vec![1; count], bytes: 1 << 20 };
        assert_eq!(RequestNames::read(&long(MOST_NAMES + 5).written()), Some(long(MOST_NAMES)));
    }
}

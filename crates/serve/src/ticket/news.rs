//! What a replica tells each of its gateways of what the others ask of it, so that all of them choose by the same knowledge.

use crate::router::{MOST_NAMES, RequestNames};
use bytes::Buf;

/// A message to a gateway. Numbers of requests are the replica's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteNews {
    /// The replica has computed these names, the youngest first.
    Holds(Vec<u128>),
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
    /// As bytes: a kind, then integers in little endian.
    pub fn written(&self) -> Vec<u8> {
        let kind = match self {
            RouteNews::Holds(_) => 1,
            RouteNews::Asked { .. } => 2,
            RouteNews::Begun(_) => 3,
            RouteNews::Over(_) => 4,
        };
        let mut out = vec![kind];
        match self {
            RouteNews::Holds(names) => write_names(&mut out, names),
            RouteNews::Asked { number, request } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&(request.bytes as u64).to_le_bytes());
                write_names(&mut out, &request.names);
            }
            RouteNews::Begun(number) | RouteNews::Over(number) => {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out
    }

    /// A message from bytes; none where they are none.
    pub fn read(mut bytes: &[u8]) -> Option<RouteNews> {
        Some(match bytes.try_get_u8().ok()? {
            1 => RouteNews::Holds(read_names(bytes)?),
            2 => {
                let number = bytes.try_get_u64_le().ok()?;
                let length = usize::try_from(bytes.try_get_u64_le().ok()?).ok()?;
                RouteNews::Asked {
                    number,
                    request: RequestNames { bytes: length, names: read_names(bytes)? },
                }
            }
            3 => RouteNews::Begun(bytes.try_get_u64_le().ok()?),
            4 => RouteNews::Over(bytes.try_get_u64_le().ok()?),
            _ => return None,
        })
    }
}

fn write_names(out: &mut Vec<u8>, names: &[u128]) {
    names.iter().take(MOST_NAMES).for_each(|name| out.extend_from_slice(&name.to_le_bytes()));
}

fn read_names(bytes: &[u8]) -> Option<Vec<u128>> {
    let (names, rest) = bytes.as_chunks::<16>();
    (rest.is_empty() && names.len() <= MOST_NAMES)
        .then(|| names.iter().map(|name| u128::from_le_bytes(*name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_come_back_and_what_is_cut_is_none() {
        let names: Vec<u128> = (0..3).map(|i| u128::MAX - i).collect();
        let request = RequestNames { names: names.clone(), bytes: 400 };
        let all = [
            RouteNews::Holds(names),
            RouteNews::Asked { number: 7, request },
            RouteNews::Begun(7),
            RouteNews::Over(8),
        ];
        for news in all {
            let bytes = news.written();
            assert_eq!(RouteNews::read(&bytes), Some(news.clone()));
            assert_eq!(RouteNews::read(&bytes[..bytes.len() - 1]), None, "{news:?}");
        }
        assert_eq!((RouteNews::read(&[]), RouteNews::read(&[9, 1])), (None, None));
        let long = RouteNews::Holds(vec![1; MOST_NAMES + 5]);
        assert_eq!(RouteNews::read(&long.written()), Some(RouteNews::Holds(vec![1; MOST_NAMES])));
    }
}

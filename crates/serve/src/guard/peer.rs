//! The address that a request comes from.

use crate::options::Network;
use http::HeaderMap;
use std::net::{IpAddr, SocketAddr};

/// The client's address: that of the connection, or what a trusted proxy says.
pub fn client_address(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[Network]) -> Option<IpAddr> {
    let is_trusted = |ip: &IpAddr| trusted.iter().any(|net| net.contains(*ip));
    // A proxy in front of a Unix socket has no address; who can open the socket is trusted by its permissions.
    if trusted.is_empty() || peer.is_some_and(|ip| !is_trusted(&ip)) {
        return peer;
    }
    let forwarded = headers.get_all("x-forwarded-for").iter().rev();
    let hops = forwarded.flat_map(|v| v.to_str().unwrap_or("?").rsplit(',').map(hop));
    // From the right: the first that is no proxy of ours. What stands left of it anybody can have written, and so can
    // all that stands left of an entry that is no address.
    let mut nearest = peer;
    for hop in hops {
        let Some(address) = hop else { break };
        nearest = Some(address);
        if !is_trusted(&address) {
            break;
        }
    }
    nearest
}

/// The address of an entry, which may have a port.
fn hop(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|a: IpAddr| a.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "6.6.6.6, 7.7.7.7, 10.0.0.2".parse().unwrap());
        let net = ["10.0.0.0/8".parse().unwrap()];
        let seen = |peer: &str, trusted: &[Network]| {
            client_address(peer.parse().ok(), &headers, trusted).unwrap().to_string()
        };
        assert_eq!(seen("10.0.0.1", &net), "7.7.7.7");
        assert_eq!(seen("9.9.9.9", &net), "9.9.9.9");
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn an_entry_that_is_no_address_ends_what_is_believed() {
        let net: [Network; 1] = ["10.0.0.0/8".parse().unwrap()];
        let seen = |lists: &[&str]| {
            let mut headers = HeaderMap::new();
            lists.iter().for_each(|list| _ = headers.append("x-forwarded-for", list.parse().unwrap()));
            client_address("10.0.0.1".parse().ok(), &headers, &net).unwrap().to_string()
        };
        assert_eq!(seen(&["6.6.6.6, unknown, 7.7.7.7, 10.0.0.2"]), "7.7.7.7");
        assert_eq!(seen(&["6.6.6.6, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(seen(&["6.6.6.6, \u{e9}"]), "10.0.0.1");
        assert_eq!(seen(&["6.6.6.6", "7.7.7.7:4711, 10.0.0.2"]), "7.7.7.7");
        assert_eq!(seen(&["[2001:db8::1]:80"]), "2001:db8::1");
        assert_eq!(seen(&[]), "10.0.0.1");
    }
}

//! The address that a request comes from.

use crate::options::Network;
use http::HeaderMap;
use std::net::IpAddr;

/// The client's address: that of the connection, or what a trusted proxy says.
pub fn client_address(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[Network]) -> Option<IpAddr> {
    let is_trusted = |ip: &IpAddr| trusted.iter().any(|net| net.contains(*ip));
    // A proxy in front of a Unix socket has no address; who can open the socket is trusted by its permissions.
    if trusted.is_empty() || peer.is_some_and(|ip| !is_trusted(&ip)) {
        return peer;
    }
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|v| v.to_str().ok());
    let hops: Vec<IpAddr> =
        forwarded.flat_map(|v| v.split(',')).map_while(|hop| hop.trim().parse().ok()).collect();
    // From the right: the first that is no proxy of ours. What stands left of it anybody can have written.
    hops.iter().rev().find(|ip| !is_trusted(ip)).copied().or(peer)
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
}

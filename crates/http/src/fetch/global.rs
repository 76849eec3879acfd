//! Addresses of the open internet, told from those that lead into networks of this machine's neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of version 4 that are somebody's own, or no hosts at all (the registry of special purposes of IANA).
const OWN_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    // Groups, what is reserved, and everybody.
    ([224, 0, 0, 0], 3),
];

/// The same of version 6, inside of what is given out to hosts at all: protocols and tunnels, examples.
const OWN_V6: &[([u16; 2], u32)] = &[([0x2001, 0], 23), ([0x2001, 0xdb8], 32), ([0x3fff, 0], 20)];

/// Whether an address is a host of the open internet. One of version 4 inside of one of version 6 (mapped, 6to4, NAT64) counts
/// by itself.
pub fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_global_v4(v4),
        IpAddr::V6(v6) => inner(v6).map_or_else(|| is_global_v6(v6), is_global_v4),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let number = address.to_bits();
    let within = |(net, bits): &([u8; 4], u32)| (number ^ u32::from_be_bytes(*net)) >> (32 - bits) == 0;
    !OWN_V4.iter().any(within)
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let head = |[a, b]: [u16; 2]| u32::from(a) << 16 | u32::from(b);
    let within = |net: [u16; 2], bits: u32| (head([a, b]) ^ head(net)) >> (32 - bits) == 0;
    within([0x2000, 0], 3) && !OWN_V6.iter().any(|&(net, bits)| within(net, bits))
}

/// The address of version 4 that one of version 6 stands for.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let at = |i: usize| Ipv4Addr::from_bits(u32::from(segments[i]) << 16 | u32::from(segments[i + 1]));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(6)),
        [0x2002, ..] => Some(at(1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_the_internet_are_told_from_others() {
        let global = |text: &str| is_global(text.parse().expect(text));
        for own in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!global(own), "{own}");
            assert!(!global(&format!("::ffff:{own}")), "mapped {own}");
            assert!(!global(&format!("64:ff9b::{own}")), "NAT64 of {own}");
            let Ok(IpAddr::V4(v4)) = own.parse() else { panic!("{own}") };
            let [a, b, c, d] = v4.octets();
            assert!(!global(&format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1")), "6to4 of {own}");
        }
        for own in [
            "::",
            "::1",
            "::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!global(own), "{own}");
        }
        for open in [
            "1.1.1.1",
            "9.9.9.9",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:200::1",
            "2606:4700::1111",
            "2a00:1450::1",
            "3fff:1000::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            assert!(global(open), "{open}");
        }
    }
}

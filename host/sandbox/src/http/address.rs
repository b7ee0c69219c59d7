//! Decides which addresses a request may be sent to, and resolves names once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::lookup::Lookups;

/// How host names are resolved.
#[derive(Debug, Clone, Default)]
pub enum Resolver {
    /// By the machine's resolver.
    #[default]
    System,
    /// From this table of lower-case names only: for tests, and for hosts that pin their servers.
    Static(BTreeMap<String, Vec<IpAddr>>),
}

impl Resolver {
    /// Returns the addresses of a normalised host, in the resolver's order; a literal address
    /// resolves to itself.
    ///
    /// # Errors
    /// The resolver's message, for the operator.
    pub(super) async fn resolve(
        &self,
        host: &str,
        lookups: &Lookups,
    ) -> Result<Vec<IpAddr>, String> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        match self {
            Resolver::System => lookups.system(host.to_owned()).await,
            Resolver::Static(names) => {
                names.get(host).cloned().ok_or_else(|| "unknown host name".to_owned())
            }
        }
    }
}

/// Who can be behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// The public internet.
    Public,
    /// This machine or its neighbours: allowed only if the operator names the address or
    /// `localhost`.
    Private,
    /// Addresses that are never a legitimate target.
    Special,
}

/// Classifies an address by the IANA special-purpose registries (RFC 6890 and its updates). An IPv6
/// form that embeds a non-public IPv4 address is not public either, since a translator on the way
/// may unwrap it.
pub fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        // RFC 1918, loopback, carrier-grade NAT (RFC 6598), and link-local with the cloud metadata
        // services.
        [10 | 127, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [169, 254, ..] => AddressClass::Private,
        // Azure's host agent: a public address that every virtual machine there finds on its own
        // hypervisor.
        [168, 63, 129, 16] => AddressClass::Private,
        // "This network", protocol assignments, documentation (three), 6to4 relays, benchmarks,
        // multicast, reserved and broadcast.
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [224..=255, ..] => AddressClass::Special,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    let embedded = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    let embedded_class = |v4: Ipv4Addr| match classify_v4(v4) {
        AddressClass::Public => AddressClass::Public,
        AddressClass::Private | AddressClass::Special => AddressClass::Special,
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Private,
        // IPv4-mapped: sockets treat it as the IPv4 address itself.
        [0, 0, 0, 0, 0, 0xffff, high, low] => classify_v4(embedded(high, low)),
        // NAT64 (RFC 6052) and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded_class(embedded(high, low)),
        [0x2002, high, low, ..] => embedded_class(embedded(high, low)),
        // Unique-local, with AWS's metadata service at fd00:ec2::254; link-local.
        [0xfc00..=0xfdff, ..] | [0xfe80..=0xfebf, ..] => AddressClass::Private,
        // Protocol assignments with Teredo (2001::/32) and ORCHID, and the two ranges for
        // documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            AddressClass::Special
        }
        // ISATAP (RFC 5214) embeds an IPv4 address in the interface identifier.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, high, low] => {
            embedded_class(embedded(high, low))
        }
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        // Everything else is not global unicast: unspecified, IPv4-compatible, local NAT64,
        // discard, site-local, multicast, unassigned.
        _ => AddressClass::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn special_ranges_are_refused_at_both_ends() {
        let private = [
            "10.0.0.0 10.255.255.255 127.0.0.0 127.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255",
            "100.64.0.0 100.127.255.255 169.254.0.0 169.254.169.254 169.254.255.255 168.63.129.16",
            "::1 fc00:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fd00:ec2::254 fe80::1 febf::1 ::ffff:127.0.0.1 ::ffff:10.1.2.3",
        ];
        let never = [
            "0.0.0.0 0.255.255.255 192.0.0.0 192.0.0.192 192.0.2.1 198.51.100.7 203.0.113.9 192.88.99.1 198.18.0.0 198.19.255.255",
            "224.0.0.1 239.255.255.255 240.0.0.0 255.255.255.255 ::ffff:0.0.0.0 ::ffff:224.0.0.1",
            ":: ::2 ::127.0.0.1 ::8.8.8.8 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::8.8.8.8 100::1",
            "2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1ff::1 2001:db8::1 3fff::1 3fff:fff::1 2002:7f00:1::1 2002:a9fe:a9fe::",
            "2a00:1:2:3:0:5efe:a00:1 2a00:1:2:3:200:5efe:c0a8:1 fec0::1 feff::1 ff02::1 ff0e::1 4000::1 5f00::1 fe00::1",
        ];
        let public = [
            "1.1.1.1 9.255.255.255 11.0.0.0 126.255.255.255 128.0.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0",
            "100.63.255.255 100.128.0.0 169.253.255.255 169.255.0.0 192.0.1.0 198.17.255.255 198.20.0.0 223.255.255.255",
            "2606:4700::1111 2001:200::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 3ffe::1",
        ];
        for (rows, expected) in [
            (&private[..], AddressClass::Private),
            (&never, AddressClass::Special),
            (&public, AddressClass::Public),
        ] {
            for text in rows.iter().flat_map(|row| row.split(' ')) {
                assert_eq!(classify(text.parse().unwrap()), expected, "{text}");
            }
        }
    }

    fn not_public() -> impl Strategy<Value = Ipv4Addr> {
        let bases = [
            ([0, 0, 0, 0], 8),
            ([10, 0, 0, 0], 8),
            ([127, 0, 0, 0], 8),
            ([100, 64, 0, 0], 10),
            ([169, 254, 0, 0], 16),
            ([172, 16, 0, 0], 12),
            ([192, 0, 0, 0], 24),
            ([192, 0, 2, 0], 24),
            ([192, 168, 0, 0], 16),
            ([198, 18, 0, 0], 15),
            ([198, 51, 100, 0], 24),
            ([203, 0, 113, 0], 24),
            ([224, 0, 0, 0], 4),
            ([240, 0, 0, 0], 4),
        ];
        (proptest::sample::select(bases.to_vec()), any::<u32>()).prop_map(|((base, bits), low)| {
            Ipv4Addr::from(u32::from_be_bytes(base) | (low & (u32::MAX >> bits)))
        })
    }

    proptest! {
        #[test]
        fn ipv6_forms_of_non_public_ipv4_addresses_are_refused(v4 in not_public(), high in any::<[u16; 4]>()) {
            let [a, b, c, d] = v4.octets();
            let (h, l) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let forms = [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, h, l),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, h, l),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, h, l),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, h, l),
                Ipv6Addr::new(0x64, 0xff9b, 1, high[0], high[1], high[2], h, l),
                Ipv6Addr::new(0x2002, h, l, high[0], high[1], high[2], high[3], 1),
                Ipv6Addr::new(0x2001, 0, high[0], high[1], high[2], high[3], !h, !l),
                Ipv6Addr::new(0x2001, 0, h, l, high[0], high[1], high[2], high[3]),
                Ipv6Addr::new(0x2a00, high[0], high[1], high[2], 0x200, 0x5efe, h, l),
                Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x5efe, h, l),
            ];
            prop_assert_ne!(classify(IpAddr::V4(v4)), AddressClass::Public);
            for form in forms {
                prop_assert_ne!(classify(IpAddr::V6(form)), AddressClass::Public, "{}", form);
            }
        }

        #[test]
        fn ipv4_mapped_addresses_are_treated_as_ipv4(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from(bits);
            prop_assert_eq!(classify(IpAddr::V6(v4.to_ipv6_mapped())), classify(IpAddr::V4(v4)));
        }
    }

    #[tokio::test]
    async fn static_resolvers_know_only_their_names_and_ip_literals() {
        let lookups = Lookups::new();
        let resolver =
            Resolver::Static([("a.test".to_owned(), vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])].into());
        assert_eq!(
            resolver.resolve("a.test", &lookups).await,
            Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        );
        assert_eq!(
            resolver.resolve("::1", &lookups).await,
            Ok(vec![IpAddr::V6(Ipv6Addr::LOCALHOST)])
        );
        assert!(resolver.resolve("b.test", &lookups).await.is_err());
    }
}

//! Sockets and name resolution, in both versions of WASI.

use crate::bindings::new::wasi::sockets as new;
use crate::bindings::old::wasi::sockets as old;
use crate::report::Report;

/// Uses TCP and UDP with addresses of the host. Argument: a port of 127.0.0.1 that the tests listen
/// on.
pub(crate) async fn sockets(args: &[String]) -> Report {
    let port = args.first().and_then(|port| port.parse().ok()).unwrap_or(80);
    let mut report = Report::default();
    for address in
        [(127, 0, 0, 1), (0, 0, 0, 0), (169, 254, 169, 254), (192, 168, 0, 1), (1, 1, 1, 1)]
    {
        let what = format!("{address:?}");
        tcp(&mut report, &what, new::types::IpAddressFamily::Ipv4, v4(address, port)).await;
        udp(&mut report, &what, new::types::IpAddressFamily::Ipv4, v4(address, port)).await;
        old_tcp(&mut report, &what, address, port);
        old_udp(&mut report, &what, address, port);
    }
    for address in [(0, 0, 0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0xffff, 0x7f00, 1)] {
        let what = format!("{address:?}");
        let to = || {
            new::types::IpSocketAddress::Ipv6(new::types::Ipv6SocketAddress {
                port,
                flow_info: 0,
                address,
                scope_id: 0,
            })
        };
        tcp(&mut report, &what, new::types::IpAddressFamily::Ipv6, to()).await;
        udp(&mut report, &what, new::types::IpAddressFamily::Ipv6, to()).await;
    }
    report
}

fn v4(address: (u8, u8, u8, u8), port: u16) -> new::types::IpSocketAddress {
    new::types::IpSocketAddress::Ipv4(new::types::Ipv4SocketAddress { port, address })
}

async fn tcp(
    report: &mut Report,
    what: &str,
    family: new::types::IpAddressFamily,
    to: new::types::IpSocketAddress,
) {
    let Some(socket) = made(report, new::types::TcpSocket::create(family)) else { return };
    report.must_fail(format!("tcp connect {what}"), socket.connect(to).await);
    let Some(socket) = made(report, new::types::TcpSocket::create(family)) else { return };
    report.must_fail(format!("tcp bind {what}"), socket.bind(to));
    report.must_fail(format!("tcp listen {what}"), socket.listen().map(drop));
}

async fn udp(
    report: &mut Report,
    what: &str,
    family: new::types::IpAddressFamily,
    to: new::types::IpSocketAddress,
) {
    let Some(socket) = made(report, new::types::UdpSocket::create(family)) else { return };
    report.must_fail(
        format!("udp send {what}"),
        socket.send(b"out of the sandbox".to_vec(), Some(to)).await,
    );
    report.must_fail(format!("udp connect {what}"), socket.connect(to));
    report.must_fail(format!("udp bind {what}"), socket.bind(to));
}

/// Records whether a socket could be created. A socket alone reaches nothing, so both results are
/// accepted.
fn made<T, E: std::fmt::Debug>(report: &mut Report, socket: Result<T, E>) -> Option<T> {
    socket.map_err(|error| report.must_fail("create", Err::<(), _>(error))).ok()
}

fn old_tcp(report: &mut Report, what: &str, address: (u8, u8, u8, u8), port: u16) {
    let network = old::instance_network::instance_network();
    let to =
        || old::network::IpSocketAddress::Ipv4(old::network::Ipv4SocketAddress { port, address });
    let family = old::network::IpAddressFamily::Ipv4;
    let Some(socket) = made(report, old::tcp_create_socket::create_tcp_socket(family)) else {
        return;
    };
    report.must_fail(format!("0.2 tcp connect {what}"), socket.start_connect(&network, to()));
    let Some(socket) = made(report, old::tcp_create_socket::create_tcp_socket(family)) else {
        return;
    };
    report.must_fail(format!("0.2 tcp bind {what}"), socket.start_bind(&network, to()));
    report.must_fail(format!("0.2 tcp listen {what}"), socket.start_listen());
}

fn old_udp(report: &mut Report, what: &str, address: (u8, u8, u8, u8), port: u16) {
    let network = old::instance_network::instance_network();
    let to =
        || old::network::IpSocketAddress::Ipv4(old::network::Ipv4SocketAddress { port, address });
    let Some(socket) = made(
        report,
        old::udp_create_socket::create_udp_socket(old::network::IpAddressFamily::Ipv4),
    ) else {
        return;
    };
    report.must_fail(format!("0.2 udp bind {what}"), socket.start_bind(&network, to()));
    report.must_fail(format!("0.2 udp stream {what}"), socket.stream(Some(to())).map(drop));
}

/// Resolves names, which alone could leak secrets.
pub(crate) async fn dns(_: &[String]) -> Report {
    let mut report = Report::default();
    for name in
        ["localhost", "example.com", "c2VjcmV0.example.com", "127.0.0.1", "::1", "xn--nxasmq6b", ""]
    {
        report.must_fail(
            format!("0.3 {name:?}"),
            new::ip_name_lookup::resolve_addresses(name.to_owned()).await,
        );
        let network = old::instance_network::instance_network();
        let looked_up = old::ip_name_lookup::resolve_addresses(&network, name).and_then(|stream| {
            // The result may come later: wait for it.
            stream.subscribe().block();
            stream.resolve_next_address()
        });
        report.must_fail(format!("0.2 {name:?}"), looked_up);
    }
    report
}

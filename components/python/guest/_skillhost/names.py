"""Names and addresses in `socket`. A sandbox does not resolve names, and the constants are those of Linux."""

import socket as stdlib

PORTS = {"http": 80, "https": 443}


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    """Returns the name itself as the address: the host resolves it when a request is sent."""
    if isinstance(host, bytes):
        host = host.decode("idna")
    if isinstance(port, (str, bytes)):
        port = port.decode() if isinstance(port, bytes) else port
        if not port.isdigit() and port not in PORTS:
            raise stdlib.gaierror(getattr(stdlib, "EAI_SERVICE", -8), "Servname not supported for ai_socktype")
        port = int(port) if port.isdigit() else PORTS[port]
    return [(stdlib.AF_INET, stdlib.SOCK_STREAM, 6, "", (host or "127.0.0.1", port or 0))]


def no_lookup(*args):
    raise stdlib.gaierror(stdlib.EAI_NONAME, "a sandbox does not resolve names: the host does, when a request is sent")


# Linux's constants that libc lacks.
NUMBERS = {
    "AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "SOCK_STREAM": 1, "SOCK_DGRAM": 2, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17, "IPPROTO_IPV6": 41,
    "SOL_SOCKET": 1, "SO_REUSEADDR": 2, "SO_TYPE": 3, "SO_ERROR": 4, "SO_BROADCAST": 6, "SO_SNDBUF": 7, "SO_RCVBUF": 8, "SO_KEEPALIVE": 9,
    "SO_LINGER": 13, "SO_REUSEPORT": 15, "TCP_NODELAY": 1, "TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6, "IPV6_V6ONLY": 26,
    "AI_PASSIVE": 1, "AI_CANONNAME": 2, "AI_NUMERICHOST": 4, "AI_ADDRCONFIG": 32, "EAI_NONAME": -2, "EAI_AGAIN": -3, "EAI_FAMILY": -6,
    "EAI_SERVICE": -8, "NI_NUMERICHOST": 1, "NI_NUMERICSERV": 2, "SHUT_RD": 0, "SHUT_WR": 1, "SHUT_RDWR": 2, "INADDR_ANY": 0,
    "SOMAXCONN": 4096,
}  # fmt: skip

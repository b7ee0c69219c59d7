"""Replaces `ssl`, which needs OpenSSL. The host does TLS: it connects, and always verifies the certificate.

Wrapping a socket only sets its scheme to https. Settings of a context for verification are stored but not used: a script cannot make the
host trust more than it does.
"""

import base64 as _base64
import enum as _enum
import os as _os
import textwrap as _textwrap
from socket import AF_INET, SOCK_STREAM, SO_TYPE, SOL_SOCKET, create_connection, socket  # noqa: F401


class SSLError(OSError):
    library = reason = None


class SSLZeroReturnError(SSLError):
    pass


class SSLWantReadError(SSLError):
    pass


class SSLWantWriteError(SSLError):
    pass


class SSLSyscallError(SSLError):
    pass


class SSLEOFError(SSLError):
    pass


class SSLCertVerificationError(SSLError, ValueError):
    verify_code, verify_message = 1, "not trusted by the host"


CertificateError = SSLCertVerificationError
socket_error = OSError

VerifyMode = _enum.IntEnum("VerifyMode", {"CERT_NONE": 0, "CERT_OPTIONAL": 1, "CERT_REQUIRED": 2})
TLSVersion = _enum.IntEnum(
    "TLSVersion",
    {"MINIMUM_SUPPORTED": -2, "SSLv3": 768, "TLSv1": 769, "TLSv1_1": 770, "TLSv1_2": 771, "TLSv1_3": 772, "MAXIMUM_SUPPORTED": -1},
)
_SSLMethod = _enum.IntEnum(
    "_SSLMethod",
    {
        "PROTOCOL_TLS": 2, "PROTOCOL_SSLv23": 2, "PROTOCOL_TLSv1": 3, "PROTOCOL_TLSv1_1": 4, "PROTOCOL_TLSv1_2": 5,
        "PROTOCOL_TLS_CLIENT": 16, "PROTOCOL_TLS_SERVER": 17,
    },
)  # fmt: skip
Options = _enum.IntFlag(
    "Options",
    {
        "OP_ALL": 0x80000050, "OP_NO_SSLv2": 0, "OP_NO_SSLv3": 0x2000000, "OP_NO_TLSv1": 0x4000000, "OP_NO_TLSv1_1": 0x10000000,
        "OP_NO_TLSv1_2": 0x8000000, "OP_NO_TLSv1_3": 0x20000000, "OP_NO_COMPRESSION": 0x20000, "OP_NO_TICKET": 0x4000,
        "OP_NO_RENEGOTIATION": 0x40000000, "OP_ENABLE_MIDDLEBOX_COMPAT": 0x100000, "OP_IGNORE_UNEXPECTED_EOF": 0x80,
        "OP_SINGLE_DH_USE": 0, "OP_SINGLE_ECDH_USE": 0, "OP_CIPHER_SERVER_PREFERENCE": 0x400000, "OP_LEGACY_SERVER_CONNECT": 4,
    },
)  # fmt: skip
VerifyFlags = _enum.IntFlag(
    "VerifyFlags",
    {
        "VERIFY_DEFAULT": 0, "VERIFY_CRL_CHECK_LEAF": 4, "VERIFY_CRL_CHECK_CHAIN": 12, "VERIFY_X509_STRICT": 0x20,
        "VERIFY_X509_TRUSTED_FIRST": 0x8000, "VERIFY_X509_PARTIAL_CHAIN": 0x80000,
    },
)  # fmt: skip
for _numbers in (VerifyMode, _SSLMethod, Options, VerifyFlags):
    globals().update(_numbers.__members__)


class Purpose(_enum.Enum):
    SERVER_AUTH = "1.3.6.1.5.5.7.3.1"
    CLIENT_AUTH = "1.3.6.1.5.5.7.3.2"


HAS_SNI = HAS_ALPN = HAS_TLSv1_2 = HAS_TLSv1_3 = HAS_NEVER_CHECK_COMMON_NAME = True
HAS_SSLv2 = HAS_SSLv3 = HAS_TLSv1 = HAS_TLSv1_1 = HAS_NPN = HAS_ECDH = HAS_PSK = False
OPENSSL_VERSION, OPENSSL_VERSION_NUMBER, OPENSSL_VERSION_INFO = "OpenSSL 3.0.0 (none: TLS is the host's)", 0x30000000, (3, 0, 0, 0, 0)
CHANNEL_BINDING_TYPES = []
PEM_HEADER, PEM_FOOTER = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
SSL_ERROR_SSL, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_SYSCALL, SSL_ERROR_ZERO_RETURN, SSL_ERROR_EOF = 1, 2, 3, 5, 6, 8


class SSLSocket(socket):
    """Only for `isinstance`: wrapping does not change the class of a socket."""


class SSLObject:
    pass


class SSLSession:
    pass


class MemoryBIO:
    def __init__(self):
        raise NotImplementedError("TLS in memory: only the host has TLS")


class SSLContext:
    sslsocket_class, sslobject_class = SSLSocket, SSLObject

    def __new__(cls, protocol=None, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, protocol=_SSLMethod.PROTOCOL_TLS):
        self.protocol = protocol
        self._client = protocol == _SSLMethod.PROTOCOL_TLS_CLIENT
        self._verify_mode = VerifyMode.CERT_REQUIRED if self._client else VerifyMode.CERT_NONE
        self._check_hostname = self._client
        self.options, self.verify_flags = Options.OP_ALL, VerifyFlags.VERIFY_X509_TRUSTED_FIRST
        self.minimum_version, self.maximum_version = TLSVersion.TLSv1_2, TLSVersion.MAXIMUM_SUPPORTED
        self.post_handshake_auth, self.hostname_checks_common_name, self.security_level = False, False, 2
        self.keylog_filename = self.sni_callback = None

    @property
    def verify_mode(self):
        return self._verify_mode

    @verify_mode.setter
    def verify_mode(self, mode):
        if mode == VerifyMode.CERT_NONE and self._check_hostname:
            raise ValueError("Cannot set verify_mode to CERT_NONE when check_hostname is enabled.")
        self._verify_mode = VerifyMode(mode)

    @property
    def check_hostname(self):
        return self._check_hostname

    @check_hostname.setter
    def check_hostname(self, check):
        if check and self._verify_mode == VerifyMode.CERT_NONE:
            self._verify_mode = VerifyMode.CERT_REQUIRED
        self._check_hostname = bool(check)

    def load_verify_locations(self, cafile=None, capath=None, cadata=None):
        if cafile is None and capath is None and cadata is None:
            raise TypeError("cafile, capath and cadata cannot be all omitted")
        for path in (cafile, capath):
            if path is not None:
                _os.stat(path)

    def load_cert_chain(self, certfile, keyfile=None, password=None):
        raise SSLError(1, "a sandbox has no client certificates: the host makes the connection")

    def load_default_certs(self, purpose=Purpose.SERVER_AUTH):
        pass

    def set_default_verify_paths(self):
        pass

    def set_alpn_protocols(self, protocols):
        pass

    def set_ciphers(self, ciphers):
        pass

    def set_ecdh_curve(self, curve):
        pass

    def get_ca_certs(self, binary_form=False):
        return []

    def get_ciphers(self):
        return []

    def cert_store_stats(self):
        return {"x509": 0, "crl": 0, "x509_ca": 0}

    def session_stats(self):
        return {}

    def wrap_socket(
        self, sock, server_side=False, do_handshake_on_connect=True, suppress_ragged_eofs=True, server_hostname=None, session=None
    ):
        if server_side:
            raise SSLError(1, "a sandbox has no listening sockets")
        if self._check_hostname and not server_hostname:
            raise ValueError("check_hostname requires server_hostname")
        return sock._start_tls(server_hostname)

    def wrap_bio(self, incoming, outgoing, server_side=False, server_hostname=None, session=None):
        raise NotImplementedError("TLS in memory: only the host has TLS")


def create_default_context(purpose=Purpose.SERVER_AUTH, *, cafile=None, capath=None, cadata=None):
    context = SSLContext(_SSLMethod.PROTOCOL_TLS_CLIENT if purpose == Purpose.SERVER_AUTH else _SSLMethod.PROTOCOL_TLS_SERVER)
    if cafile or capath or cadata:
        context.load_verify_locations(cafile, capath, cadata)
    return context


def _create_unverified_context(
    protocol=None, *, cert_reqs=VerifyMode.CERT_NONE, check_hostname=False, purpose=Purpose.SERVER_AUTH,
    certfile=None, keyfile=None, cafile=None, capath=None, cadata=None,
):  # fmt: skip
    context = SSLContext(_SSLMethod.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    context.verify_mode = cert_reqs
    if certfile:
        context.load_cert_chain(certfile, keyfile)
    return context


_create_default_https_context = create_default_context
_create_stdlib_context = _create_unverified_context


class DefaultVerifyPaths:
    cafile = capath = openssl_cafile = openssl_capath = None
    openssl_cafile_env, openssl_capath_env = "SSL_CERT_FILE", "SSL_CERT_DIR"


def get_default_verify_paths():
    return DefaultVerifyPaths()


def get_server_certificate(addr, ssl_version=None, ca_certs=None, timeout=None):
    raise SSLError(1, "a sandbox does not see certificates: the host makes the connection")


def get_protocol_name(protocol_code):
    return _SSLMethod(protocol_code).name


def RAND_bytes(count):
    return _os.urandom(count)


def RAND_status():
    return True


def RAND_add(data, entropy):
    pass


def cert_time_to_seconds(cert_time):
    import calendar
    import time

    return calendar.timegm(time.strptime(cert_time, "%b %d %H:%M:%S %Y GMT"))


def DER_cert_to_PEM_cert(der):
    return "\n".join([PEM_HEADER, *_textwrap.wrap(_base64.b64encode(der).decode(), 64), PEM_FOOTER, ""])


def PEM_cert_to_DER_cert(pem):
    return _base64.b64decode(pem.strip().removeprefix(PEM_HEADER).removesuffix(PEM_FOOTER))

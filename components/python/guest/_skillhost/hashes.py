"""The functions of hashlib that otherwise come only from OpenSSL."""

import hashlib
import hmac
import operator

from _skillhost import _native


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """Implements RFC 8018, section 5.2."""
    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    keyed = hmac.new(password, None, hash_name)
    length = keyed.digest_size if dklen is None else dklen
    if length < 1:
        raise ValueError("key length must be greater than 0.")
    derived = b""
    for block in range(1, -(-length // keyed.digest_size) + 1):
        turn = digest(keyed, salt + block.to_bytes(4, "big"))
        mixed = int.from_bytes(turn, "big")
        for _ in range(iterations - 1):
            turn = digest(keyed, turn)
            mixed ^= int.from_bytes(turn, "big")
        derived += mixed.to_bytes(keyed.digest_size, "big")
    return derived[:length]


def digest(keyed, message):
    copy = keyed.copy()
    copy.update(message)
    return copy.digest()


# OpenSSL's default for the memory of scrypt.
SCRYPT_MEMORY = 32 << 20
INT_MAX = (1 << 31) - 1


def scrypt(password, *, salt, n, r, p, maxmem=0, dklen=64):
    """Implements RFC 7914, with the checks of OpenSSL."""
    n, r, p = operator.index(n), operator.index(r), operator.index(p)
    if n < 2 or n & (n - 1):
        raise ValueError("n must be a power of 2.")
    if not 0 <= maxmem <= INT_MAX:
        raise ValueError(f"maxmem must be positive and smaller than {INT_MAX}")
    if not 1 <= dklen <= INT_MAX:
        raise ValueError(f"dklen must be greater than 0 and smaller than {INT_MAX}")
    if r < 1 or p < 1 or p > ((1 << 30) - 1) // r or n >= 1 << 16 * r:
        raise ValueError("Invalid parameter combination for n, r, p, maxmem.")
    if 128 * r * (p + n + 2) > (maxmem or SCRYPT_MEMORY):
        raise ValueError("[digital envelope routines] memory limit exceeded")
    size = 128 * r
    blocks = pbkdf2_hmac("sha256", password, salt, 1, p * size)
    mixed = b"".join(_native.scrypt_mix(blocks[at : at + size], n, r) for at in range(0, len(blocks), size))
    return pbkdf2_hmac("sha256", password, mixed, 1, dklen)


def install():
    hashlib.scrypt = scrypt
    if not hasattr(hashlib, "pbkdf2_hmac"):
        hashlib.pbkdf2_hmac = pbkdf2_hmac

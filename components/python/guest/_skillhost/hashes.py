"""The functions of hashlib that otherwise come only from OpenSSL."""

import hashlib
import hmac


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


def install():
    if not hasattr(hashlib, "pbkdf2_hmac"):
        hashlib.pbkdf2_hmac = pbkdf2_hmac

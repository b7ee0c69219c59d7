"""The binary format, as far as sections, names and numbers go."""

CORE = b"\0asm\1\0\0\0"


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def done(self):
        return self.at >= len(self.data)

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self):
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result

    def signed(self):
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result - (1 << shift) if byte & 0x40 else result

    def name(self):
        length = self.unsigned()
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def skip(self, count):
        self.at += count

    def skip_numbers(self, count):
        for _ in range(count):
            self.unsigned()


def unsigned(number):
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def signed(number):
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        if (number == 0 and not byte & 0x40) or (number == -1 and byte & 0x40):
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def name(text):
    encoded = text.encode()
    return unsigned(len(encoded)) + encoded


def vector(items):
    items = list(items)
    return unsigned(len(items)) + b"".join(items)


def sections(binary):
    """Yields (id, content) of a module or a component."""
    reader = Reader(binary, 8)
    while not reader.done():
        kind = reader.byte()
        size = reader.unsigned()
        yield kind, binary[reader.at : reader.at + size]
        reader.skip(size)


def join(header, parts):
    return header + b"".join(bytes([kind]) + unsigned(len(content)) + content for kind, content in parts)


def without_custom(module):
    return join(CORE, [(kind, content) for kind, content in sections(module) if kind != 0])

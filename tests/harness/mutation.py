"""Damaged input: what becomes of valid samples when pieces of them are changed, lost, repeated and mixed. One seed, one series."""

import random
import re

LARGEST_BYTES = 48 << 10
"""Of one damaged input: it fits into a socket's buffer, so that nobody has to read it while it is sent."""
NUMBER = re.compile(rb"\d+")
NUMBERS = (b"0", b"-1", b"+1", b"1_0", b"0x10", b"1e9", b"255", b"256", b"65536", b"2147483648", b"9223372036854775808",
           b"9" * 25, b"9" * 4301, b"\xb2", "٣".encode())  # fmt: skip
PIECES = (b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b"%", b"%00", b"%2f", b"..", b"\xff", b"\x80", b"\xc3\x28", b"\xed\xa0\x80",
          b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u0000", b"\\ud800", b"null", b"true", b"NaN", b"*", b"&a ", b"!!", b"<<: ", b"\r\n\r\n",
          b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00")  # fmt: skip


def mutated(seed, samples, count):
    """Yield `count` damaged inputs made of `samples`."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            data = chance.choice(WAYS)(chance, data, samples)
        yield bytes(data[:LARGEST_BYTES])


def part(chance, data):
    """Return where a random piece begins and ends."""
    begin = chance.randrange(len(data) + 1)
    return begin, min(len(data), begin + chance.choice((1, 2, 4, 16, 200)))


def flip(chance, data, _samples):
    """Change one bit."""
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def overwrite(chance, data, _samples):
    """Change one byte to any other."""
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)
    return data


def cut(chance, data, _samples):
    """Lose a piece."""
    begin, end = part(chance, data)
    return data[:begin] + data[end:]


def end_early(chance, data, _samples):
    """Lose the end."""
    return data[: chance.randrange(len(data) + 1)]


def repeat(chance, data, _samples):
    """Say a piece again, once or often."""
    begin, end = part(chance, data)
    return data[:end] + data[begin:end] * chance.choice((1, 2, 50)) + data[end:]


def insert(chance, data, _samples):
    """Put in something that means something somewhere."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(PIECES) + data[at:]


def insert_noise(chance, data, _samples):
    """Put in what means nothing."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.choice((1, 4, 30))) + data[at:]


def splice(chance, data, samples):
    """Go on as another sample does."""
    other = chance.choice(samples)
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def renumber(chance, data, _samples):
    """Put another number where one stands."""
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    one = chance.choice(found)
    return data[: one.start()] + chance.choice(NUMBERS) + data[one.end() :]


WAYS = (flip, overwrite, cut, end_early, repeat, insert, insert_noise, splice, renumber, renumber)

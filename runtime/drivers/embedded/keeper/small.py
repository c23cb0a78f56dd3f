"""Small files read and written by system calls alone: Python's own files cost every keeper some 200 KB of memory."""

import os


def read(path: str) -> bytes:
    """Return the content of a small file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = chunk = os.read(fd, 4096)
        while chunk:
            chunk = os.read(fd, 4096)
            data += chunk
    finally:
        os.close(fd)
    return data


def write(path: str, text: bytes) -> None:
    """Write a file of the kernel's that is there. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)

"""The syntax of Kubernetes names."""

import ipaddress
import re

import msgspec

LABEL_PATTERN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_PATTERN = rf"{LABEL_PATTERN}(?:\.{LABEL_PATTERN})*"
QUALIFIED_PART = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


class Rule(msgspec.Struct, frozen=True):
    """A pattern, a maximum length, and their description for users."""

    pattern: str
    longest: int
    expected: str

    def accepts(self, value: str) -> bool:
        """Return whether `value` is valid."""
        return len(value) <= self.longest and re.fullmatch(self.pattern, value, re.ASCII) is not None


LABEL = Rule(
    LABEL_PATTERN,
    63,
    "a DNS label: at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit",
)
SUBDOMAIN = Rule(
    SUBDOMAIN_PATTERN,
    253,
    "a DNS name: at most 253 lower case letters, digits, '-' and '.', each part beginning and ending with a letter or digit",
)
QUALIFIED = Rule(
    rf"(?=[^/]{{1,253}}/|[^/]*$)(?:{SUBDOMAIN_PATTERN}/)?{QUALIFIED_PART}",
    317,
    "an optional DNS name and '/', then at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
)
LABEL_VALUE = Rule(
    QUALIFIED_PART,
    63,
    "at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
)
PORT_NAME = Rule(
    r"(?=.*[a-z])(?!.*--)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?",
    15,
    "at most 15 lower case letters, digits and single '-', with a letter, beginning and ending with a letter or digit",
)
ENV_NAME = Rule(r"[ -<>-~]+", 4096, "printable ASCII characters without '='")
CONFIG_KEY = Rule(
    r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]+",
    253,
    "at most 253 letters, digits, '-', '_' and '.', not '.' and not beginning with '..'",
)
SYSCTL = Rule(
    r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:[./][a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*",
    253,
    "a sysctl such as net.core.somaxconn",
)
HTTP_TOKEN = Rule(r"[-A-Za-z0-9]+", 1024, "an HTTP header name: letters, digits and '-'")


def is_ip(text: str) -> bool:
    """Return whether a string is an IPv4 or IPv6 address in its usual form."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    # Kubernetes knows no zones.
    return "%" not in text

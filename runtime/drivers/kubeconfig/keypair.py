"""Has a key and a signing request made, by the child process `signing`."""

from runtime.drivers.kubeconfig.process import ChildAnswer, ask_child


class SignedRequest(ChildAnswer, frozen=True, kw_only=True):
    """The child's answer: key and request in PEM, and the name that follows from them."""

    key: bytes = b""
    request: bytes = b""
    name: str = ""

    def __repr__(self) -> str:
        return f"SignedRequest({self.name})"


def make_request(
    common_name: str, organization: str, usages: tuple[str, ...], deadline_s: float, *, given: bytes = b""
) -> SignedRequest:
    """Return a request for this subject, for the key `given`, or a new one where that is none. Raises an `OperatingError`."""
    words = (common_name, organization, *usages)
    return ask_child("signing", words, SignedRequest, f"key of {common_name}", deadline_s, given)

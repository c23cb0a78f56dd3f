"""What admission writes: bytes of an earlier version are read, and the same is written again."""

from actors.admission.verdict import Verdict, decoded, encoded
from actors.rules.resources.request import Claim, HostPort
from api.ids import Uid
from api.messages.admission import Allocated
from api.messages.pod import Refusal

WRITTEN = (
    b"\x81\xa8verdicts\x92\x92\xa2u1\x83\xa4name\xa9default/a\xa5claim\x85\xa9cpu_milli\xcd\x05\xdc\xacmemory_bytes\xce@\x00"
    b"\x00\x00\xafephemeral_bytes\x05\xa7scalars\x91\x92\xadhugepages-2Mi\x04\xa5ports\x91\x83\xa4portP\xa8protocol\xa3TCP\xa7"
    b"address\xa70.0.0.0\xa9allocated\x91\x83\xa9container\xa1a\xa8requests\x91\x92\xa3cpu\xa51500m\xa6limits\x91\x92\xa6"
    b"memory\xa31Gi\x92\xa2u2\x82\xa4name\xa9default/b\xa7refusal\x83\xa6reason\xa8OutOfcpu\xa7message\xa2no\xa6advice\x91\xa1x"
)
"""As the supervisor wrote it before admission was an actor of its own."""
CLAIM = Claim(
    cpu_milli=1500,
    memory_bytes=1 << 30,
    ephemeral_bytes=5,
    scalars=(("hugepages-2Mi", 4),),
    ports=(HostPort(port=80),),
)
GIVEN = Allocated(container="a", requests=(("cpu", "1500m"),), limits=(("memory", "1Gi"),))
VERDICTS = {
    Uid("u1"): Verdict(name="default/a", claim=CLAIM, allocated=(GIVEN,)),
    Uid("u2"): Verdict(name="default/b", refusal=Refusal(reason="OutOfcpu", message="no", advice=("x",))),
}


def test_what_an_earlier_version_wrote_is_read_and_written_alike():
    assert decoded(WRITTEN) == VERDICTS
    assert encoded(VERDICTS) == WRITTEN


def test_where_nothing_was_written_there_are_no_verdicts_and_other_bytes_are_none():
    assert decoded(None) == {}
    assert decoded(b"nonsense") is None

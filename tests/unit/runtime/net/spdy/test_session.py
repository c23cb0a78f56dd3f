"""SPDY sessions: two ends that talk to each other, and ends whose peer misbehaves."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.net.spdy import frame as f
from runtime.net.spdy.header import SpdyError
from runtime.net.spdy.session import (
    STREAM_LIMIT,
    WINDOW_BYTES,
    Broken,
    GoneAway,
    HalfClosed,
    Opened,
    Ponged,
    Received,
    Replied,
    Session,
)


class Peer:
    """A peer that writes frames by hand and keeps those that it gets."""

    def __init__(self, *, server=True):
        self.session = Session(server=not server)
        self.encoder, self.decoder = f.Encoder(), f.Decoder()

    def say(self, *frames):
        return self.session.receive(b"".join(self.encoder.encode(frame) for frame in frames))

    def hear(self):
        return list(self.decoder.feed(self.session.outgoing()))

    def accept(self):
        """Open a stream of the session and accept it; return its id."""
        stream = self.session.open((("streamtype", "stdin"),))
        self.hear()
        self.say(f.SynReply(stream=stream))
        return stream


def data_of(frames):
    return b"".join(frame.data for frame in frames if isinstance(frame, f.Data))


def test_a_stream_is_opened_used_and_over():
    client, server = Session(), Session(server=True)
    stream = client.open((("streamtype", "stdin"),))
    assert stream == 1
    assert server.receive(client.outgoing()) == [Opened(stream=1, headers=(("streamtype", "stdin"),))]
    server.reply(1)
    assert client.receive(server.outgoing()) == [Replied(stream=1, headers=())]
    client.send(1, b"hello")
    client.finish(1)
    assert server.receive(client.outgoing()) == [Received(stream=1, data=b"hello"), HalfClosed(stream=1)]
    # Half-closed: the other direction goes on.
    server.send(1, b"still here")
    server.finish(1)
    assert client.receive(server.outgoing()) == [Received(stream=1, data=b"still here"), HalfClosed(stream=1)]
    assert not client.is_open(1)
    client.send(1, b"to nobody")
    assert client.outgoing() == b""


def test_nothing_is_sent_on_a_stream_before_the_peer_has_accepted_it():
    peer = Peer()
    stream = peer.session.open(())
    peer.session.send(stream, b"early")
    peer.session.finish(stream)
    assert peer.hear() == [f.SynStream(stream=1)]
    assert peer.session.waiting(stream) == 5
    peer.say(f.SynReply(stream=stream))
    assert peer.hear() == [f.Data(stream=1, data=b"early", finish=True)]


def test_a_finish_without_data_is_an_empty_frame():
    peer = Peer()
    stream = peer.accept()
    peer.session.finish(stream)
    assert peer.hear() == [f.Data(stream=stream, finish=True)]
    assert peer.hear() == []


def test_a_peer_that_never_speaks_of_windows_gets_all():
    peer = Peer()
    stream = peer.accept()
    peer.session.send(stream, bytes(5 * WINDOW_BYTES))
    assert len(data_of(peer.hear())) == 5 * WINDOW_BYTES


def test_a_peers_window_is_kept_from_its_first_word():
    peer = Peer()
    stream = peer.accept()
    peer.say(f.SettingsFrame(entries=((f.INITIAL_WINDOW_SIZE, 1000),)))
    peer.session.send(stream, bytes(2500))
    peer.session.finish(stream)
    assert len(data_of(peer.hear())) == 1000
    assert peer.session.waiting(stream) == 1500
    peer.say(f.WindowUpdate(stream=stream, delta=700))
    assert len(data_of(peer.hear())) == 700
    peer.say(f.WindowUpdate(stream=stream, delta=5000))
    last = peer.hear()[-1]
    assert (len(last.data), last.finish) == (800, True)


def test_a_window_that_shrinks_is_earned_again_first():
    peer = Peer()
    stream = peer.accept()
    peer.session.send(stream, bytes(3000))
    peer.hear()
    peer.say(f.SettingsFrame(entries=((f.INITIAL_WINDOW_SIZE, 1000),)))
    peer.session.send(stream, b"x")
    assert peer.hear() == []
    peer.say(f.WindowUpdate(stream=stream, delta=2000))
    assert peer.hear() == []
    peer.say(f.WindowUpdate(stream=stream, delta=1))
    assert peer.hear() == [f.Data(stream=stream, data=b"x")]


def test_the_connections_window_holds_for_all_streams_together():
    peer = Peer()
    one, two = peer.accept(), peer.accept()
    peer.say(f.WindowUpdate(stream=0, delta=100))
    peer.session.send(one, bytes(WINDOW_BYTES))
    peer.session.send(two, bytes(WINDOW_BYTES))
    assert len(data_of(peer.hear())) == WINDOW_BYTES + 100
    peer.say(f.WindowUpdate(stream=0, delta=WINDOW_BYTES))
    assert len(data_of(peer.hear())) == WINDOW_BYTES - 100
    assert (peer.session.waiting(one), peer.session.waiting(two)) == (0, 0)


def test_what_is_consumed_is_given_back_in_large_pieces():
    peer = Peer()
    stream = peer.accept()
    peer.say(f.Data(stream=stream, data=bytes(WINDOW_BYTES // 2)))
    assert peer.hear() == []
    peer.session.consumed(stream, WINDOW_BYTES // 2 - 1)
    assert peer.hear() == []
    peer.session.consumed(stream, 1)
    half = WINDOW_BYTES // 2
    assert peer.hear() == [f.WindowUpdate(stream=stream, delta=half), f.WindowUpdate(stream=0, delta=half)]


def test_nothing_is_given_back_to_a_peer_that_keeps_no_windows():
    session, server = Session(windows=False), Session(server=True)
    stream = session.open(())
    server.receive(session.outgoing())
    server.reply(stream)
    server.send(stream, bytes(10 * WINDOW_BYTES))
    for event in session.receive(server.outgoing()):
        if isinstance(event, Received):
            session.consumed(stream, len(event.data))
    assert session.outgoing() == b""


def test_a_reset_ends_both_directions():
    peer = Peer()
    stream = peer.accept()
    peer.session.send(stream, b"waits")
    assert peer.say(f.RstStream(stream=stream, status=5)) == [Broken(stream=stream, status=5)]
    assert peer.hear() == []
    other = peer.accept()
    peer.session.reset(other)
    assert peer.hear() == [f.RstStream(stream=other, status=f.Status.CANCEL)]
    # What the peer sent before it knew is no error.
    assert peer.say(f.Data(stream=other, data=b"late")) == []
    assert peer.hear() == []


def test_data_of_a_stream_that_never_was_is_told_so():
    peer = Peer()
    assert peer.say(f.Data(stream=9, data=b"?")) == []
    assert peer.hear() == [f.RstStream(stream=9, status=f.Status.INVALID_STREAM)]


def test_data_after_the_end_resets_the_stream():
    peer = Peer()
    stream = peer.accept()
    events = peer.say(f.Data(stream=stream, finish=True), f.Data(stream=stream, data=b"more"))
    assert events == [HalfClosed(stream=stream), Broken(stream=stream, status=f.Status.STREAM_ALREADY_CLOSED)]
    assert peer.hear() == [f.RstStream(stream=stream, status=f.Status.STREAM_ALREADY_CLOSED)]


def test_a_ping_comes_back_and_ours_is_told():
    peer = Peer()
    assert peer.say(f.Ping(id=2)) == []
    assert peer.hear() == [f.Ping(id=2)]
    id_ = peer.session.ping()
    assert peer.hear() == [f.Ping(id=1)]
    assert peer.say(f.Ping(id=id_)) == [Ponged(id=id_)]
    assert peer.hear() == []


def test_a_peer_opens_streams_within_its_ids_and_its_number():
    peer = Peer(server=False)
    for stream in (2, 3, 1, 3):
        peer.say(f.SynStream(stream=stream))
    wrong = [frame.stream for frame in peer.hear() if frame.status == f.Status.PROTOCOL_ERROR]
    assert wrong == [2, 1, 3]
    many = [f.SynStream(stream=5 + 2 * n) for n in range(STREAM_LIMIT)]
    assert len(peer.say(*many)) == STREAM_LIMIT - 1
    [refused] = peer.hear()
    assert refused.status == f.Status.REFUSED_STREAM
    assert peer.say(f.GoAway(last=0)) == [GoneAway(status=0)]


@pytest.mark.parametrize(
    "frame",
    [
        f.WindowUpdate(stream=0, delta=0),
        f.WindowUpdate(stream=0, delta=(1 << 31) - 1),
        f.SettingsFrame(entries=((f.INITIAL_WINDOW_SIZE, 1 << 31),)),
    ],
)
def test_windows_that_cannot_be_end_the_connection(frame):
    with pytest.raises(SpdyError, match="window"):
        Peer().say(frame)


def test_a_streams_window_beyond_the_limit_ends_the_stream_only():
    peer = Peer()
    stream = peer.accept()
    too_much = f.WindowUpdate(stream=stream, delta=(1 << 31) - 1)
    assert peer.say(too_much) == [Broken(stream=stream, status=f.Status.FLOW_CONTROL_ERROR)]
    assert peer.hear() == [f.RstStream(stream=stream, status=f.Status.FLOW_CONTROL_ERROR)]


def _cut(data, wire):
    size = data.draw(st.integers(1, len(wire)))
    return wire[:size], wire[size:]


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=4), st.data())
def test_all_arrives_in_order_and_never_beyond_the_window(sizes, data):
    client, server = Session(), Session(server=True)
    window = data.draw(st.integers(1_000, 50_000))
    # The server's first word, before anything is sent, makes its windows count.
    first = f.Encoder()
    client.receive(first.encode(f.SettingsFrame(entries=((f.INITIAL_WINDOW_SIZE, window),))))
    bodies = {client.open(()): bytes([n + 1]) * size for n, size in enumerate(sizes)}
    for stream in bodies:
        server.receive(client.outgoing())
        server.reply(stream)
    client.receive(server.outgoing())
    got = dict.fromkeys(bodies, b"")
    held = dict.fromkeys(bodies, 0)
    ended = set()
    for stream, body in bodies.items():
        client.send(stream, body)
        client.finish(stream)
    wire = client.outgoing()
    while wire:
        piece, wire = _cut(data, wire)
        for event in server.receive(piece):
            if isinstance(event, Received):
                assert event.stream not in ended
                got[event.stream] += event.data
                held[event.stream] += len(event.data)
                assert held[event.stream] <= window
            else:
                ended.add(event.stream)
        if not wire:
            grants = [f.WindowUpdate(stream=stream, delta=size) for stream, size in held.items() if size]
            client.receive(b"".join(first.encode(grant) for grant in grants))
            held = dict.fromkeys(bodies, 0)
            wire = client.outgoing()
    assert got == bodies
    assert ended == set(bodies)

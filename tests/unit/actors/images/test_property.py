"""What holds whatever happens in whatever order."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.images import backoff
from actors.images.drop import LEASE_S
from actors.images.state import ImagesState, PullerPolicy
from api.messages.images import Credential, PullPolicy
from api.messages.kernel import ChildDied
from api.messages.pod import ImageProgress, ImageReport
from api.ports.credentials import NodeCredentials, ReadNodeCredentials
from api.ports.images import (
    ImageAuth,
    ImagePulled,
    ImageRemoved,
    ImageShown,
    ImageStatus,
    PullImage,
    RemoveImage,
)
from tests.unit.actors.images.hand import Puller, failure, row, want

IMAGES = ("r.local/a:1", "r.local/b")
IDS = {"r.local/a:1": "sha256:" + "a" * 64, "r.local/b:latest": "sha256:" + "b" * 64}
UIDS = ("u1", "u2", "u3")
RINGS = ((), (Credential(where="r.local", auth=ImageAuth(username="u", password="p")),))

wants = st.tuples(
    st.just("want"),
    st.sampled_from(UIDS),
    st.lists(
        st.tuples(
            st.sampled_from(("m", "s")),
            st.sampled_from(IMAGES),
            st.sampled_from(PullPolicy),
            st.integers(0, 2),
        ),
        max_size=2,
    ),
    st.sampled_from(RINGS),
)
steps = st.lists(
    wants
    | st.tuples(st.just("answer"), st.integers(0, 20), st.booleans())
    | st.tuples(st.just("drop"), st.sampled_from(sorted(IDS)))
    | st.tuples(st.just("wait"), st.sampled_from((0.5, 4.0, 14.0, 40.0)))
    | st.tuples(st.just("die"), st.sampled_from(UIDS)),
    max_size=40,
)


class Model(Puller):
    """The core against a runtime that holds images; it checks each call as it is made."""

    def __init__(self, policy):
        super().__init__(policy)
        self.held = set()
        self.wanted_until = {}
        """Image name with its tag -> uid -> until when it must not go."""

    def give(self, message):
        before = set(self.open)
        actions = super().give(message)
        for op in set(self.open) - before:
            call = self.open[op]
            if isinstance(call, RemoveImage):
                name = next(name for name, image_id in IDS.items() if image_id == call.image)
                holders = [u for u, until in self.wanted_until.get(name, {}).items() if self.now < until]
                assert not holders, f"{name} is removed though {holders} want it"
        pulls = Counter(
            (call.image, repr(call.auth), None if call.auth is None else call.auth.password)
            for call in self.calls(PullImage)
        )
        assert all(count == 1 for count in pulls.values()), pulls
        limit = self.state.policy.at_once
        busy = len(self.calls(PullImage)) + len(self.calls(ReadNodeCredentials))
        assert limit is None or busy <= limit
        return actions

    def hold(self, uid, images):
        """Note what a pod wants from now on; what it does not want any more is leased."""
        for holders in self.wanted_until.values():
            if holders.get(uid) == float("inf"):
                holders[uid] = self.now + LEASE_S
        for image in images:
            name = image if ":1" in image else f"{image}:latest"
            self.wanted_until.setdefault(name, {})[uid] = float("inf")

    def settle(self, op, *, well):
        call = self.open[op]
        if not well:
            self.answer(type(call), failure=failure(), op=op)
            return
        match call:
            case ImageStatus(image=image):
                name = next((n for n, i in IDS.items() if image in (n, i)), "")
                found = row(IDS[name], (name,)) if name in self.held else None
                self.answer(ImageStatus, ImageShown(image=found), op=op)
            case ReadNodeCredentials():
                self.answer(ReadNodeCredentials, NodeCredentials(), op=op)
            case PullImage(image=image):
                self.held.add(image)
                self.answer(PullImage, ImagePulled(ref=IDS[image]), op=op)
            case RemoveImage(image=image_id):
                self.held -= {name for name, held in IDS.items() if held == image_id}
                self.answer(RemoveImage, ImageRemoved(), op=op)


def play(script, policy):
    model = Model(policy)
    for one in script:
        match one:
            case ("want", uid, rows, ring):
                rows = {container: rest for container, *rest in rows}
                model.hold(uid, [image for image, _, _ in rows.values()])
                asked = [want(i, p, container=c, attempt=a) for c, (i, p, a) in rows.items()]
                model.want(*asked, uid=uid, credentials=ring)
            case ("answer", number, well):
                if model.open:
                    model.settle(sorted(model.open)[number % len(model.open)], well=well)
            case ("drop", name):
                model.drop(IDS[name], (name,))
            case ("wait", seconds):
                model.wait(seconds)
            case ("die", uid):
                model.hold(uid, [])
                model.give(ChildDied(path=f"/node/pods/{uid}", cause=""))
    return model


@settings(max_examples=150)
@given(steps, st.sampled_from((1, 2, None)))
def test_one_pull_per_key_no_wanted_image_removed_and_every_want_ends_up_ready(script, at_once):
    model = play(script, PullerPolicy(at_once=at_once, per_second=0))
    # From now on everything goes well: each want must come to its end.
    for _ in range(200):
        if model.open:
            model.settle(min(model.open), well=True)
        elif model.wake_at is not None:
            if all(
                entry.want.policy is PullPolicy.NEVER
                for entry in model.state.entries.values()
                if entry.told is None or entry.told.progress is not ImageProgress.READY
            ):
                break
            model.ring()
        else:
            break
    for (uid, container), entry in model.state.entries.items():
        told = model.report(uid, container)
        assert told == entry.told
        assert isinstance(told, ImageReport)
        if entry.want.policy is not PullPolicy.NEVER or entry.image in model.held:
            assert told.progress is ImageProgress.READY or entry.want.policy is PullPolicy.NEVER, told
    assert not model.state.pulls


@given(st.lists(st.floats(0.0, 500.0), min_size=1, max_size=12))
def test_the_back_off_never_shrinks_while_it_is_remembered_and_never_passes_its_limit(gaps):
    table, now, last = ImagesState().backoffs, 0.0, 0.0
    for gap in gaps:
        now += gap
        table = backoff.counted(table, "u", "i", "ErrImagePull", "", now)
        delay_s = backoff.RETRY.wait_s(table["u", "i"].retry.failures)
        assert last <= delay_s <= backoff.RETRY.limit_s
        assert backoff.waits(table, "u", "i", now + delay_s - 0.001) is not None
        assert backoff.waits(table, "u", "i", now + delay_s) is None
        last = delay_s

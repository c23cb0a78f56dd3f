"""Images: pulled from a real registry, refused, missing, and removed behind our back."""

import base64
import json

import pytest

from api.faults import When
from tests.harness.agent.node import container, dies, plan
from tests.harness.cri.image import make_image

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"


def waits_with(node, name, *reasons):
    """Wait until a pod's container waits for one of these reasons; return the message."""

    def told():
        word, fields = node.state(name)
        return word == "waiting" and fields.get("reason") in reasons and (fields.get("message") or " ")

    return node.until(told, f"{name} waits with {reasons}", 30.0)


@pytest.fixture
def image(tmp_path):
    """Return an image that no other test has, whose command says that it came from the registry."""
    return make_image(
        f"localhost/{tmp_path.name}:1", cmd=("sh", "-c", f"echo pulled; {FOREVER}"), size_mb=0.1
    )


def test_an_image_is_pulled_when_it_is_not_there(node, make_registry, image):
    registry = make_registry()
    name = registry.push(image, "team/app:1")
    node.put_pod("app", {"name": "main", "image": name})
    node.start()
    node.until_running("app")
    node.until(lambda: node.printed("app") == [["pulled"]], "it spoke")
    assert node.status("app")["image"] == name
    assert "@sha256:" in node.status("app")["imageID"]
    asked = registry.pulls("team/app")
    node.put_pod("twin", {"name": "main", "image": name, "imagePullPolicy": "IfNotPresent"})
    node.until_running("twin")
    assert registry.pulls("team/app") == asked
    node.drop("app")
    node.drop("twin")
    node.until_gone("app", "twin")
    node.runtime.link.remove_image(name)


def test_a_corrected_image_ends_the_wait_of_a_crash_loop(node, image):
    broken = make_image(image.name.replace(":1", ":0"), cmd=("sh", "-c", "exit 3"), size_mb=0.1)
    node.runtime.add_images(broken, image)
    metadata = {"name": "app", "uid": "11111111-2222-3333-4444-555555555555"}
    spec = {"terminationGracePeriodSeconds": 1}
    main = {"name": "main", "imagePullPolicy": "Never"}
    node.write_pod("app", metadata, spec | {"containers": [main | {"image": broken.name}]})
    node.start()
    node.until(lambda: node.row("app")["restarts"] == 2, "it was started three times", 60.0)
    assert "back-off 20s" in waits_with(node, "app", "CrashLoopBackOff")
    node.write_pod("app", metadata, spec | {"containers": [main | {"image": image.name}]})
    node.until(lambda: node.state("app")[0] == "running", "the corrected one runs long before that", 12.0)
    assert (node.status("app")["image"], node.row("app")["restarts"]) == (image.name, 3)
    node.drop("app")
    node.until_gone("app")
    for one in (broken, image):
        node.runtime.link.remove_image(one.name)


def test_an_image_that_is_not_found_is_told_with_its_name_and_pulled_when_it_comes(
    node, make_registry, image
):
    registry = make_registry()
    name = f"{registry.host}/team/late:1"
    node.put_pod("late", {"name": "main", "image": name})
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    message = waits_with(node, "late", "ErrImagePull", "ImagePullBackOff")
    assert name in message
    waits_with(node, "late", "ImagePullBackOff")
    assert node.row("late")["status"] in ("ErrImagePull", "ImagePullBackOff")
    registry.push(image, "team/late:1")
    node.until_running("late", deadline_s=60)
    assert node.row("late")["restarts"] == 0


def test_an_image_that_may_not_be_pulled_and_is_not_there_is_told_so(node):
    name = "localhost/never-here:1"
    node.put_pod("never", {"name": "main", "image": name, "imagePullPolicy": "Never"})
    node.start()
    assert name in waits_with(node, "never", "ErrImageNeverPull")


@pytest.mark.parametrize("name", ["Not A Reference", "registry.test/UPPER:1", "a" * 300])
def test_an_image_name_that_does_not_parse_is_told_in_one_line(node, name):
    node.put_pod("bad", {"name": "main", "image": name})
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    node.until(
        lambda: node.row("bad")["status"] == "InvalidImageName" or node.source("bad.yaml")["problems"],
        "the name is refused",
    )
    assert "Traceback" not in node.stderr()


def test_an_image_removed_behind_our_back_is_pulled_again_for_the_next_start(node, make_registry, image):
    registry = make_registry()
    name = registry.push(image, "team/gone:1")
    node.put_pod("app", {"name": "main", "image": name, "imagePullPolicy": "IfNotPresent"})
    node.start()
    node.until_running("app")
    [(pid, start)] = node.mains("app").values()
    asked = registry.pulls("team/gone")
    node.runtime.link.remove_image(name)
    node.until(lambda: image.id not in node.runtime.link.images(), "the image is gone")
    node.runtime.ctr("tasks", "kill", "-s", "SIGKILL", node.status("app")["containerID"].rpartition("/")[2])
    node.until(
        lambda: (now := node.mains("app")) and (pid, start) not in now.values(), "its successor runs", 40
    )
    assert registry.pulls("team/gone") > asked
    assert node.row("app")["restarts"] == 1


def test_a_registry_that_wants_a_login_is_given_the_nodes_own(node, make_registry, image, monkeypatch):
    registry = make_registry(users={"puller": "se:cret"})
    name = registry.push(image, "team/locked:1")
    node.put_pod("locked", {"name": "main", "image": name})
    node.start()
    message = waits_with(node, "locked", "ErrImagePull", "ImagePullBackOff")
    assert name in message
    node.kill9()
    token = base64.b64encode(b"puller:se:cret").decode()
    node.root.mkdir(parents=True, exist_ok=True)
    (node.root / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": token}}}))
    node.start()
    node.until_running("locked", deadline_s=60)
    for text in (node.stderr(), json.dumps(node.pod("locked")), json.dumps(node.explain("locked"))):
        assert "se:cret" not in text
        assert token not in text


def test_two_pods_that_want_one_image_pull_it_once(node, make_registry, image):
    registry = make_registry()
    name = registry.push(image, "team/shared:1")
    for pod in ("one", "two", "three"):
        node.put_pod(pod, container("main", FOREVER, image=name))
    node.start()
    node.until_running("one", "two", "three")
    lines = registry.log.read_text(errors="replace").splitlines()
    assert sum('"GET /v2/team/shared/blobs/' in line for line in lines) <= 2, lines


@pytest.mark.parametrize("side", [When.BEFORE, When.AFTER])
def test_an_agent_killed_at_a_pull_starts_its_pod_once_when_it_is_back(node, make_registry, image, side):
    registry = make_registry()
    name = registry.push(image, "team/app:1")
    node.put_pod("app", {"name": "main", "image": name})
    node.start(env=plan(node, call="PullImage", when=side), ready=False)
    dies(node)
    node.start()
    node.until_running("app")
    node.until(lambda: node.printed("app") == [["pulled"]], "it spoke once")
    assert node.row("app")["restarts"] == 0
    assert len(node.runtime.link.containers()) == 1

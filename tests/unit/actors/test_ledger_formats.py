"""What the ledger holds outlives the agent: each section's entries as an earlier version wrote them, byte by byte.

They are read as what was meant, and the same is written again. Where a format must change, the new one must still read
these bytes: keep them, and say beside them what is written now. The section ``admission`` is in
``tests/unit/actors/admission/test_verdict.py``.
"""

import re
from pathlib import Path as File

import msgspec
import pytest

from actors.admission import verdict
from actors.events import core as events
from actors.events.state import SECTION as EVENTS
from actors.events.state import PodEvents, SeenEvent
from actors.pod.hookrecord import HookKind, HookRecord
from actors.pod.life.stage import remember
from actors.pod.outcome import decoded
from actors.pod.state import MEMO_SECTION, STATUS_SECTION, Kill, PodMemo, PodSettings, PodState
from actors.rules.container.backoff import Backoff
from actors.sources.api import checkpoint as apipods
from actors.sources.api.state import SECTION as APIPODS
from actors.sources.api.state import entry_key
from actors.sources.file import core as files
from actors.sources.file.state import SECTION as MANIFESTS
from actors.sources.file.state import memo_key
from actors.status import ledger as status
from actors.status.state import PodStatusVersion, SinkProgress
from api.ids import OpId, Path, Uid
from api.kube.objects.container import Container, ResourceClaim, ResourceRequirements
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import (
    ContainerExtendedResourceRequest,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ContainerUser,
    HostIP,
    ImageVolumeStatus,
    LinuxContainerUser,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodIP,
    PodResourceClaimStatus,
    PodStatus,
    PodVolumeHealth,
    ResourceHealth,
    ResourceStatus,
    VolumeHealthCondition,
    VolumeMountStatus,
    VolumeStatus,
)
from api.kube.objects.strmap import StrMap
from api.lifecycle import Start
from api.messages.kernel import Outcome
from api.messages.pod import KillCause
from api.ports.ledger import RecalledAll, Remember
from api.ports.manifests import ManifestFile, ManifestListing, ReadManifests

UID = Uid("u1")
AT = "2024-05-06T07:08:09Z"
WALL = 1_700_000_000_000_000_001

MEMO = PodMemo(
    name="web",
    namespace="default",
    log_directory="/var/log/pods/default_web_u1",
    kill=Kill(
        cause=KillCause.EVICTED,
        grace_s=7,
        asked_at=WALL,
        stop_by=WALL + 7,
        own=True,
        asked_by=Path("/node/eviction"),
        deleted=True,
        evict=True,
        disruption=True,
        reason="Evicted",
        message="low on memory",
    ),
    terminated=True,
    cgroup_parent="/kubepods/podu1",
    backoffs=(Backoff(container="a", delay_s=20.0, updated_at=WALL, for_attempt=3, key="0123456789abcdef"),),
    restarting=True,
    used=(("a", 2),),
    hooks=(
        HookRecord(
            kind=HookKind.PRE_STOP,
            container="a",
            attempt=3,
            begun_at=WALL,
            grace_s=5,
            why="Stopping container a",
            pause=True,
            again=True,
            ended=True,
            failure="exit code 1",
        ),
    ),
    volumes=True,
    renewed=("c1",),
    outdated=AT,
)

RESOURCES = ResourceRequirements(
    claims=(ResourceClaim(name="gpu", request="one"),),
    limits=StrMap({"memory": "64Mi"}),
    requests=StrMap({"cpu": "250m"}),
)
CONTAINER = ContainerStatus(
    allocated_resources=StrMap({"cpu": "250m"}),
    allocated_resources_status=(
        ResourceStatus(
            name="claim:gpu", resources=(ResourceHealth(health="Healthy", message="fine", resource_id="g0"),)
        ),
    ),
    container_id="containerd://c2",
    image="busybox:1",
    image_id="sha256:1",
    last_state=ContainerState(
        terminated=ContainerStateTerminated(
            container_id="containerd://c1",
            exit_code=137,
            finished_at=AT,
            message="killed",
            reason="OOMKilled",
            signal=9,
            started_at=AT,
        )
    ),
    name="a",
    ready=True,
    resources=RESOURCES,
    restart_count=2,
    started=True,
    state=ContainerState(running=ContainerStateRunning(started_at=AT)),
    stop_signal="SIGTERM",
    user=ContainerUser(linux=LinuxContainerUser(gid=1, supplemental_groups=(2,), uid=3)),
    volume_mounts=(
        VolumeMountStatus(
            mount_path="/data",
            name="v",
            read_only=True,
            recursive_read_only="Enabled",
            volume_status=VolumeStatus(image=ImageVolumeStatus(image_ref="sha256:2")),
        ),
    ),
)
WAITING = ContainerStatus(
    name="b",
    state=ContainerState(waiting=ContainerStateWaiting(message="no such image", reason="ErrImagePull")),
)
STATUS = PodStatus(
    allocated_resources=StrMap({"cpu": "250m"}),
    conditions=(
        PodCondition(
            last_probe_time=AT,
            last_transition_time=AT,
            message="not yet",
            observed_generation=4,
            reason="ContainersNotReady",
            status="False",
            type="Ready",
        ),
    ),
    container_statuses=(CONTAINER, WAITING),
    ephemeral_container_statuses=(WAITING,),
    extended_resource_claim_status=PodExtendedResourceClaimStatus(
        request_mappings=(
            ContainerExtendedResourceRequest(container_name="a", request_name="r", resource_name="x.y/gpu"),
        ),
        resource_claim_name="claim",
    ),
    host_ip="10.0.0.1",
    host_ips=(HostIP(ip="10.0.0.1"),),
    init_container_statuses=(WAITING,),
    message="hello",
    node_allocatable_resource_claim_statuses=(
        NodeAllocatableResourceClaimStatus(
            containers=("a",),
            mapping=(NodeAllocatableMappedResources(name="cpu", quantity="1"),),
            overhead=(NodeAllocatableOverheadResources(name="memory", per_container="1Mi", per_pod="2Mi"),),
            resource_claim_name="claim",
        ),
    ),
    nominated_node_name="n2",
    observed_generation=5,
    phase="Running",
    pod_ip="10.1.0.1",
    pod_ips=(PodIP(ip="10.1.0.1"),),
    qos_class="Burstable",
    reason="Because",
    resize="Deferred",
    resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name="claim"),),
    resources=RESOURCES,
    start_time=AT,
    volume_health=(
        PodVolumeHealth(
            health_conditions=(VolumeHealthCondition(message="slow", reason="Degraded", status="True"),),
            last_transition_time=AT,
            name="v",
        ),
    ),
)

RECORD = PodEvents(
    namespace="default",
    pod="web",
    events=(
        SeenEvent(
            first_at=WALL,
            at=WALL + 1,
            type="Warning",
            reason="BackOff",
            message="waits",
            field_path="spec.containers{a}",
            count=3,
        ),
    ),
    gone_at=WALL + 2,
)

MANIFEST = "/etc/manifests/web.yaml"
DIGEST = "sha256:3"
DOCUMENT = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"i"}]}}'

WRITTEN_MEMO = (
    b"\x8d\xa4name\xa3web\xa9namespace\xa7default\xadlog_directory\xbc/var/log/pods/default_web_u1\xa4"
    b"kill\x8b\xa5cause\xa7evicted\xa7grace_s\x07\xa8asked_at\xcf\x17\x97\x9c\xfe6*\x00\x01\xa7stop_by"
    b"\xcf\x17\x97\x9c\xfe6*\x00\x08\xa3own\xc3\xa8asked_by\xae/node/eviction\xa7deleted\xc3\xa5evict"
    b"\xc3\xaadisruption\xc3\xa6reason\xa7Evicted\xa7message\xadlow on memory\xaaterminated\xc3\xadcgr"
    b"oup_parent\xaf/kubepods/podu1\xa8backoffs\x91\x85\xa9container\xa1a\xa7delay_s\xcb@4\x00\x00\x00"
    b"\x00\x00\x00\xaaupdated_at\xcf\x17\x97\x9c\xfe6*\x00\x01\xabfor_attempt\x03\xa3key\xb00123456789"
    b"abcdef\xaarestarting\xc3\xa4used\x91\x92\xa1a\x02\xa5hooks\x91\x8a\xa4kind\xa7preStop\xa9contain"
    b"er\xa1a\xa7attempt\x03\xa8begun_at\xcf\x17\x97\x9c\xfe6*\x00\x01\xa7grace_s\x05\xa3why\xb4Stoppi"
    b"ng container a\xa5pause\xc3\xa5again\xc3\xa5ended\xc3\xa7failure\xabexit code 1\xa7volumes\xc3"
    b"\xa7renewed\x91\xa2c1\xa8outdated\xb42024-05-06T07:08:09Z"
)
WRITTEN_STATUS = (
    b"\xde\x00\x16\xb2allocatedResources\x81\xa3cpu\xa4250m\xaaconditions\x91\x87\xadlastProbeTime\xb4"
    b"2024-05-06T07:08:09Z\xb2lastTransitionTime\xb42024-05-06T07:08:09Z\xa7message\xa7not yet\xb2obse"
    b"rvedGeneration\x04\xa6reason\xb2ContainersNotReady\xa6status\xa5False\xa4type\xa5Ready\xb1contai"
    b"nerStatuses\x92\x8f\xb2allocatedResources\x81\xa3cpu\xa4250m\xb8allocatedResourcesStatus\x91\x82"
    b"\xa4name\xa9claim:gpu\xa9resources\x91\x83\xa6health\xa7Healthy\xa7message\xa4fine\xaaresourceID"
    b"\xa2g0\xabcontainerID\xafcontainerd://c2\xa5image\xa9busybox:1\xa7imageID\xa8sha256:1\xa9lastSta"
    b"te\x81\xaaterminated\x87\xabcontainerID\xafcontainerd://c1\xa8exitCode\xcc\x89\xaafinishedAt\xb4"
    b"2024-05-06T07:08:09Z\xa7message\xa6killed\xa6reason\xa9OOMKilled\xa6signal\t\xa9startedAt\xb4202"
    b"4-05-06T07:08:09Z\xa4name\xa1a\xa5ready\xc3\xa9resources\x83\xa6claims\x91\x82\xa4name\xa3gpu"
    b"\xa7request\xa3one\xa6limits\x81\xa6memory\xa464Mi\xa8requests\x81\xa3cpu\xa4250m\xacrestartCoun"
    b"t\x02\xa7started\xc3\xa5state\x81\xa7running\x81\xa9startedAt\xb42024-05-06T07:08:09Z\xaastopSig"
    b"nal\xa7SIGTERM\xa4user\x81\xa5linux\x83\xa3gid\x01\xb2supplementalGroups\x91\x02\xa3uid\x03\xacv"
    b"olumeMounts\x91\x85\xa9mountPath\xa5/data\xa4name\xa1v\xa8readOnly\xc3\xb1recursiveReadOnly\xa7E"
    b"nabled\xacvolumeStatus\x81\xa5image\x81\xa8imageRef\xa8sha256:2\x86\xa5image\xa0\xa7imageID\xa0"
    b"\xa4name\xa1b\xa5ready\xc2\xacrestartCount\x00\xa5state\x81\xa7waiting\x82\xa7message\xadno such"
    b" image\xa6reason\xacErrImagePull\xbaephemeralContainerStatuses\x91\x86\xa5image\xa0\xa7imageID"
    b"\xa0\xa4name\xa1b\xa5ready\xc2\xacrestartCount\x00\xa5state\x81\xa7waiting\x82\xa7message\xadno "
    b"such image\xa6reason\xacErrImagePull\xbbextendedResourceClaimStatus\x82\xafrequestMappings\x91"
    b"\x83\xadcontainerName\xa1a\xabrequestName\xa1r\xacresourceName\xa7x.y/gpu\xb1resourceClaimName"
    b"\xa5claim\xa6hostIP\xa810.0.0.1\xa7hostIPs\x91\x81\xa2ip\xa810.0.0.1\xb5initContainerStatuses"
    b"\x91\x86\xa5image\xa0\xa7imageID\xa0\xa4name\xa1b\xa5ready\xc2\xacrestartCount\x00\xa5state\x81"
    b"\xa7waiting\x82\xa7message\xadno such image\xa6reason\xacErrImagePull\xa7message\xa5hello\xd9$no"
    b"deAllocatableResourceClaimStatuses\x91\x84\xaacontainers\x91\xa1a\xa7mapping\x91\x82\xa4name\xa3"
    b"cpu\xa8quantity\xa11\xa8overhead\x91\x83\xa4name\xa6memory\xacperContainer\xa31Mi\xa6perPod\xa32"
    b"Mi\xb1resourceClaimName\xa5claim\xb1nominatedNodeName\xa2n2\xb2observedGeneration\x05\xa5phase"
    b"\xa7Running\xa5podIP\xa810.1.0.1\xa6podIPs\x91\x81\xa2ip\xa810.1.0.1\xa8qosClass\xa9Burstable"
    b"\xa6reason\xa7Because\xa6resize\xa8Deferred\xb5resourceClaimStatuses\x91\x82\xa4name\xa3gpu\xb1r"
    b"esourceClaimName\xa5claim\xa9resources\x83\xa6claims\x91\x82\xa4name\xa3gpu\xa7request\xa3one"
    b"\xa6limits\x81\xa6memory\xa464Mi\xa8requests\x81\xa3cpu\xa4250m\xa9startTime\xb42024-05-06T07:08"
    b":09Z\xacvolumeHealth\x91\x83\xb0healthConditions\x91\x83\xa7message\xa4slow\xa6reason\xa8Degrade"
    b"d\xa6status\xa4True\xb2lastTransitionTime\xb42024-05-06T07:08:09Z\xa4name\xa1v"
)
WRITTEN_EVENTS = (
    b"\x84\xa9namespace\xa7default\xa3pod\xa3web\xa6events\x91\x87\xa8first_at\xcf\x17\x97\x9c\xfe6*"
    b"\x00\x01\xa2at\xcf\x17\x97\x9c\xfe6*\x00\x02\xa4type\xa7Warning\xa6reason\xa7BackOff\xa7message"
    b"\xa5waits\xaafield_path\xb2spec.containers{a}\xa5count\x03\xa7gone_at\xcf\x17\x97\x9c\xfe6*\x00"
    b"\x03"
)
WRITTEN_MANIFEST = (
    b'{"path":"/etc/manifests/web.yaml","digest":"sha256:3","document":"eyJhcGlWZXJzaW9uIjoidjEiLCJraW'
    b"5kIjoiUG9kIiwibWV0YWRhdGEiOnsibmFtZSI6IndlYiJ9LCJzcGVjIjp7ImNvbnRhaW5lcnMiOlt7Im5hbWUiOiJhIiwiaW"
    b'1hZ2UiOiJpIn1dfX0=","holds":true}'
)

API_POD = Pod(
    metadata=ObjectMeta(
        name="web",
        namespace="default",
        uid="u1",
        annotations=StrMap({"kubernetes.io/config.source": "api"}),
        deletion_timestamp=AT,
        deletion_grace_period_seconds=30,
        generation=3,
        finalizers=("example.com/wait",),
    ),
    spec=PodSpec(containers=(Container(name="a", image="i"),), node_name="n", restart_policy="Never"),
    status=PodStatus(
        phase="Failed",
        reason="Evicted",
        start_time=AT,
        conditions=(PodCondition(type="example.com/gate", status="True"),),
    ),
)
WRITTEN_API_POD = (
    b'{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"kubernetes.io/config.source":"api"},'
    b'"deletionGracePeriodSeconds":30,"deletionTimestamp":"2024-05-06T07:08:09Z","finalizers":["example.com/wait"],'
    b'"generation":3,"name":"web","namespace":"default","uid":"u1"},"spec":{"containers":[{"image":"i","name":"a"}],'
    b'"nodeName":"n","restartPolicy":"Never"},"status":{"conditions":[{"status":"True","type":"example.com/gate"}],'
    b'"phase":"Failed","reason":"Evicted","startTime":"2024-05-06T07:08:09Z"}}'
)


def written_memo():
    [call] = remember(
        PodState(uid=UID, settings=PodSettings(log_root="/var/log/pods")), MEMO, "because"
    ).calls
    return call.call.data


def written_status():
    return status.call_of(PodStatusVersion(uid=UID, status=STATUS), SinkProgress()).data


def written_events():
    return events.write(UID, RECORD).data


def file_source(entries, listing):
    """Let a file source recall these entries and read this listing; return its state and what it writes."""
    decision = files.begin("/etc/manifests", "n", Path("/node/config"), 0.0, lambda: OpId(1))
    for number, result in enumerate((RecalledAll(entries=entries), listing), start=2):
        [asked] = [one for one in decision.actions if isinstance(one, Start)]
        outcome = Outcome(op=asked.op, call="x", result=result, failure=None, started_at=0.0, ended_at=0.0)
        decision = files.decide(decision.state, outcome, 0.0, lambda number=number: OpId(number))
    calls = [one.call for one in decision.actions if isinstance(one, Start)]
    return decision.state, [call for call in calls if not isinstance(call, ReadManifests)]


def written_manifest():
    whole = ManifestFile(path=MANIFEST, digest=DIGEST, document=DOCUMENT)
    _, [call] = file_source((), ManifestListing(files=(whole,), place="here"))
    assert isinstance(call, Remember)
    assert (call.section, call.key) == (MANIFESTS, memo_key(MANIFEST))
    return call.data


def unset(value, where=""):
    """Yield the fields that say nothing, in what `value` holds too."""
    if isinstance(value, tuple):
        for one in value:
            yield from unset(one, where)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if not held:
                yield f"{where}.{name}"
            yield from unset(held, f"{where}.{name}")


@pytest.mark.parametrize("value", [MEMO, RECORD, CONTAINER, STATUS])
def test_each_value_has_every_field_set(value):
    # A container has one state, and the others of a pod have not all.
    assert [one for one in unset(value) if not re.search(r"state\.|container_statuses\.", one)] == []


def test_a_page_of_a_pod_is_read_and_written_alike():
    assert decoded(WRITTEN_MEMO, PodMemo) == MEMO
    assert written_memo() == WRITTEN_MEMO


def test_a_status_is_read_and_written_alike():
    assert decoded(WRITTEN_STATUS, PodStatus) == STATUS
    assert written_status() == WRITTEN_STATUS


def test_a_record_of_events_is_read_and_written_alike():
    assert events.decoded(WRITTEN_EVENTS) == RECORD
    assert written_events() == WRITTEN_EVENTS


def test_the_content_of_a_file_is_read_and_written_alike():
    broken = ManifestFile(path=MANIFEST, digest="sha256:4")
    state, writes = file_source(((memo_key(MANIFEST), WRITTEN_MANIFEST),), ManifestListing(files=(broken,)))
    [entry] = state.files
    assert entry.good is not None
    assert (entry.good.digest, entry.good.document, entry.held) == (DIGEST, DOCUMENT, "web-n_default")
    assert writes == [], "the ledger holds that already"
    assert written_manifest() == WRITTEN_MANIFEST


def test_a_pod_of_the_api_server_is_read_and_written_alike():
    assert apipods.decoded_entry(entry_key(UID), WRITTEN_API_POD) == API_POD
    assert apipods.encoded_entry(API_POD) == WRITTEN_API_POD


def test_no_section_is_without_its_bytes():
    """A new section needs a test here, or beside its owner."""
    constant = re.compile(r'^\w*SECTION = "(\w+)"', re.MULTILINE)
    found = {
        name
        for file in File(verdict.__file__).parents[1].rglob("*.py")
        for name in constant.findall(file.read_text())
    }
    assert found == {APIPODS, MEMO_SECTION, STATUS_SECTION, EVENTS, MANIFESTS, verdict.SECTION}

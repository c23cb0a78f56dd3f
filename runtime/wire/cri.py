"""The calls of the container runtime interface, ``runtime.v1``."""

from typing import TypeVar

from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.rpc import Rpc, Wired

Q = TypeVar("Q", bound=Wired)
R = TypeVar("R")


def _runtime(name: str, request: type[Q], reply: type[R], *, streams: bool = False) -> Rpc[Q, R]:
    return Rpc(path=f"/runtime.v1.RuntimeService/{name}", request=request, reply=reply, streams=streams)


def _image(name: str, request: type[Q], reply: type[R]) -> Rpc[Q, R]:
    return Rpc(path=f"/runtime.v1.ImageService/{name}", request=request, reply=reply)


VERSION = _runtime("Version", pb.VersionRequest, pb.VersionResponse)
STATUS = _runtime("Status", pb.StatusRequest, pb.StatusResponse)
RUNTIME_CONFIG = _runtime("RuntimeConfig", pb.RuntimeConfigRequest, pb.RuntimeConfigResponse)
RUN_SANDBOX = _runtime("RunPodSandbox", pb.RunPodSandboxRequest, pb.RunPodSandboxResponse)
STOP_SANDBOX = _runtime("StopPodSandbox", pb.StopPodSandboxRequest, pb.StopPodSandboxResponse)
REMOVE_SANDBOX = _runtime("RemovePodSandbox", pb.RemovePodSandboxRequest, pb.RemovePodSandboxResponse)
SANDBOX_STATUS = _runtime("PodSandboxStatus", pb.PodSandboxStatusRequest, pb.PodSandboxStatusResponse)
LIST_SANDBOXES = _runtime("ListPodSandbox", pb.ListPodSandboxRequest, pb.ListPodSandboxResponse)
CREATE = _runtime("CreateContainer", pb.CreateContainerRequest, pb.CreateContainerResponse)
START = _runtime("StartContainer", pb.StartContainerRequest, pb.StartContainerResponse)
STOP = _runtime("StopContainer", pb.StopContainerRequest, pb.StopContainerResponse)
REMOVE = _runtime("RemoveContainer", pb.RemoveContainerRequest, pb.RemoveContainerResponse)
LIST_CONTAINERS = _runtime("ListContainers", pb.ListContainersRequest, pb.ListContainersResponse)
CONTAINER_STATUS = _runtime("ContainerStatus", pb.ContainerStatusRequest, pb.ContainerStatusResponse)
UPDATE = _runtime(
    "UpdateContainerResources", pb.UpdateContainerResourcesRequest, pb.UpdateContainerResourcesResponse
)
UPDATE_CONFIG = _runtime("UpdateRuntimeConfig", pb.UpdateRuntimeConfigRequest, pb.UpdateRuntimeConfigResponse)
REOPEN_LOG = _runtime("ReopenContainerLog", pb.ReopenContainerLogRequest, pb.ReopenContainerLogResponse)
LIST_STATS = _runtime("ListContainerStats", pb.ListContainerStatsRequest, pb.ListContainerStatsResponse)
EXEC_SYNC = _runtime("ExecSync", pb.ExecSyncRequest, pb.ExecSyncResponse)
EXEC = _runtime("Exec", pb.ExecRequest, pb.ExecResponse)
EVENTS = _runtime("GetContainerEvents", pb.GetEventsRequest, pb.ContainerEventResponse, streams=True)

LIST_IMAGES = _image("ListImages", pb.ListImagesRequest, pb.ListImagesResponse)
IMAGE_STATUS = _image("ImageStatus", pb.ImageStatusRequest, pb.ImageStatusResponse)
PULL_IMAGE = _image("PullImage", pb.PullImageRequest, pb.PullImageResponse)
REMOVE_IMAGE = _image("RemoveImage", pb.RemoveImageRequest, pb.RemoveImageResponse)
IMAGE_FS = _image("ImageFsInfo", pb.ImageFsInfoRequest, pb.ImageFsInfoResponse)

"""The actors of a node of a cluster, started only where there is an API server.

```text
/node/certificates   /node/apievents   /node/nodestatus   /node/lease   /node/apistatus   /node/mirrors   /node/api
```
"""

from collections.abc import Callable

import msgspec

from actors.apievents.actor import ApiEventWriter
from actors.apievents.state import ApiEventSettings, ApiEventState
from actors.apistatus.actor import ApiStatusWriter
from actors.certificates.actor import CertificateManager
from actors.certificates.core import BOOTSTRAP, CERTIFICATES
from actors.certificates.state import CertificateSettings, CertificatesState
from actors.lease.actor import LeaseManager
from actors.lease.state import LeaseSettings, LeaseState
from actors.mirrors.actor import MirrorManager
from actors.mirrors.state import MirrorsState
from actors.nodestatus.actor import NodeStatusManager
from actors.nodestatus.state import NodeStatusSettings, NodeStatusState
from actors.rules.desiredsources import DesiredSources
from actors.sources.api.actor import ApiSource
from actors.sources.api.state import API
from api import paths
from api.config.settings import Settings
from api.errors import Failure
from api.ports.kube import NODE
from api.ports.port import BlockingPort, Port, Stream
from runtime.kernel.actor import Restart
from runtime.kernel.system import System
from runtime.net.loop import OnBug

KUBE, IMAGES = "kube", "images"


class ClusterParts(msgspec.Struct, frozen=True, kw_only=True):
    """The drivers of one API server."""

    server: str
    """What it is called in rows and log lines: the kubeconfig that says where it is."""
    kube: Port | BlockingPort
    pods: Stream
    node: Stream
    certificates: Port | BlockingPort | None = None
    """The node's own client certificate; None where the identity is not the agent's to keep, as in a simulation."""
    bootstrap: Port | BlockingPort | None = None
    """The same API server, as the identity of the bootstrap kubeconfig reaches it; needed with one."""


def connect(
    settings: Settings,
    on_bug: OnBug,
    problem: Callable[[str], None],
    renewed: Callable[[Failure | None], None],
    undo: list[Callable[[], None]],
) -> ClusterParts:
    """Return the drivers of the API server that the settings name; what closes them is added to `undo`."""
    from runtime.drivers.kube.driver import KubeDriver  # noqa: PLC0415  # an agent on its own need not spend the memory
    from runtime.drivers.kubeconfig.driver import CertificateDriver  # noqa: PLC0415

    cluster = settings.cluster
    certificates = CertificateDriver(
        settings.node_name,
        cluster.kubeconfig,
        cluster.cert_dir,
        bootstrap=cluster.bootstrap_kubeconfig,
        rotates=cluster.rotate_certificates,
    )
    driver = KubeDriver(
        settings.node_name,
        certificates.access,
        qps=cluster.api_qps,
        burst=cluster.api_burst,
        on_bug=on_bug,
        problem=problem,
        renewed=renewed,
    )
    undo.append(driver.close)
    bootstrap = None
    if cluster.bootstrap_kubeconfig:
        bootstrap = KubeDriver(settings.node_name, certificates.bootstrap_access, on_bug=on_bug)
        undo.append(bootstrap.close)
        certificates.bootstrapped = bootstrap.rest
    return ClusterParts(
        server=cluster.kubeconfig,
        kube=driver,
        pods=driver.pods,
        node=driver.node,
        certificates=certificates,
        bootstrap=bootstrap,
    )


def assemble_events(system: System, settings: Settings, parts: ClusterParts, restart: Restart) -> None:
    """Start what writes events, before those who record any."""
    limits = ApiEventSettings(qps=settings.cluster.event_qps, burst=settings.cluster.event_burst)
    system.spawn(
        ApiEventWriter.options(name=paths.leaf(paths.APIEVENTS), restart=restart).bind(
            ApiEventState(settings=limits), {KUBE: parts.kube}
        )
    )


def assemble_node(
    system: System, settings: Settings, parts: ClusterParts, images: Port | BlockingPort, restart: Restart
) -> None:
    """Start what keeps the Node, before those who ask for it."""
    cluster = settings.cluster
    assemble_certificates(system, settings, parts, restart)
    status = NodeStatusState(
        settings=NodeStatusSettings(
            node_name=settings.node_name,
            node_ips=cluster.node_ips,
            register=cluster.register_node,
            provider_id=cluster.provider_id,
            external_cloud=cluster.external_cloud,
            controller_attach=cluster.controller_attach,
            update_s=cluster.status_update_s,
            report_s=cluster.status_report_s,
            max_images=cluster.status_max_images,
        )
    )
    ports = {KUBE: parts.kube, IMAGES: images}
    system.spawn(
        NodeStatusManager.options(name=paths.leaf(paths.NODESTATUS), restart=restart).bind(
            status, ports, {NODE: parts.node}, (paths.APIEVENTS,)
        )
    )
    lease = LeaseState(
        settings=LeaseSettings(node_name=settings.node_name, duration_s=cluster.lease_duration_s)
    )
    system.spawn(
        LeaseManager.options(name=paths.leaf(paths.LEASE), restart=restart).bind(lease, {KUBE: parts.kube})
    )


def assemble_certificates(system: System, settings: Settings, parts: ClusterParts, restart: Restart) -> None:
    """Start what renews the client certificate, and asks for the first one."""
    if parts.certificates is None:
        return
    cluster = settings.cluster
    state = CertificatesState(
        settings=CertificateSettings(
            node_name=settings.node_name,
            kubeconfig=cluster.kubeconfig,
            bootstrap_kubeconfig=cluster.bootstrap_kubeconfig,
            rotates=cluster.rotate_certificates,
        )
    )
    ports = {CERTIFICATES: parts.certificates, KUBE: parts.kube}
    if parts.bootstrap is not None:
        ports[BOOTSTRAP] = parts.bootstrap
    system.spawn(
        CertificateManager.options(name=paths.leaf(paths.CERTIFICATES), restart=restart).bind(state, ports)
    )


def assemble_pods(
    system: System,
    settings: Settings,
    parts: ClusterParts,
    ledger: Port | BlockingPort,
    sources: tuple[str, ...],
    restart: Restart,
    mailbox: int,
) -> None:
    """Start what brings pods from the API server and reports on them there; `sources` are all that the node has."""
    system.spawn(
        ApiStatusWriter.options(name=paths.leaf(paths.APISTATUS), restart=restart, mailbox=mailbox).bind(
            {KUBE: parts.kube}
        )
    )
    static = tuple(one for one in sources if one != API)
    mirrors = MirrorsState(node_name=settings.node_name, sources=DesiredSources(expected=static))
    system.spawn(
        MirrorManager.options(name=paths.leaf(paths.MIRRORS), restart=restart, mailbox=mailbox).bind(
            mirrors, {KUBE: parts.kube}
        )
    )
    system.spawn(
        ApiSource.options(name=paths.leaf(paths.API), restart=restart).bind(
            server=parts.server, config=paths.CONFIG, pods=parts.pods, ledger=ledger
        )
    )

"""The settings of a node of a cluster, which the agent is where it has a kubeconfig."""

import msgspec

EXTERNAL = "external"
"""The cloud provider of a node that a cloud controller initializes."""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a node of a cluster: how it registers, and how it says that it is alive."""

    kubeconfig: str = ""
    """Absolute; empty: the agent is on its own, and the rest means nothing."""
    bootstrap_kubeconfig: str = ""
    """Absolute; the identity that asks for the first client certificate; empty: none."""
    cert_dir: str = ""
    """Absolute; the folder of the certificates that are requested."""
    rotate_certificates: bool = False
    register_node: bool = True
    provider_id: str = ""
    external_cloud: bool = False
    """Whether a cloud controller initializes the node."""
    node_ips: tuple[str, ...] = ()
    """One address, or one of each family; empty: the machine's own."""
    controller_attach: bool = True
    """Whether a controller attaches volumes."""
    status_update_s: float = 10.0
    status_report_s: float = 300.0
    status_max_images: int = 50
    """-1: all."""
    lease_duration_s: int = 40
    event_qps: int = 50
    """Events a second; 0: no limit."""
    event_burst: int = 100
    api_qps: int = 50
    """Requests a second, without those of heartbeats; 0: no limit."""
    api_burst: int = 100

    @property
    def primary_ip(self) -> str:
        """Return the first configured address, empty where none is, or only a family is chosen."""
        return next((ip for ip in self.node_ips if ip not in ("0.0.0.0", "::")), "")  # noqa: S104  # not bound to

"""Volumes of a pod: every source that v1 knows, also those that no node mounts any more."""

from collections.abc import Mapping

import msgspec

from api.kube.objects.meta import (
    LabelSelector,
    LocalObjectReference,
    ObjectFieldSelector,
    ObjectMeta,
    ResourceFieldSelector,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from api.kube.objects.strmap import NO_ENTRIES, freeze_maps
from api.kube.objects.wiretype import ApiObject, Quantity


class AWSElasticBlockStoreVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A disk of AWS (moved to CSI)."""

    fs_type: str = ""
    partition: int = 0
    read_only: bool = False
    volume_id: str = msgspec.field(name="volumeID", default_factory=str)


class AzureDiskVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A disk of Azure (moved to CSI)."""

    caching_mode: str = ""
    disk_name: str = msgspec.field(default_factory=str)
    disk_uri: str = msgspec.field(name="diskURI", default_factory=str)
    fs_type: str = ""
    kind: str = ""
    read_only: bool | None = None


class AzureFileVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A file share of Azure (moved to CSI)."""

    read_only: bool = False
    secret_name: str = msgspec.field(default_factory=str)
    share_name: str = msgspec.field(default_factory=str)


class CephFSVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A CephFS mount (removed from Kubernetes)."""

    monitors: tuple[str, ...] = msgspec.field(default_factory=tuple)
    path: str = ""
    read_only: bool = False
    secret_file: str = ""
    secret_ref: LocalObjectReference | None = None
    user: str = ""


class CinderVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A disk of OpenStack (moved to CSI)."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    volume_id: str = msgspec.field(name="volumeID", default_factory=str)


class KeyToPath(ApiObject, frozen=True, kw_only=True):
    """One key and the file it becomes."""

    key: str = msgspec.field(default_factory=str)
    mode: int | None = None
    path: str = msgspec.field(default_factory=str)
    user: int | None = None


class ConfigMapVolumeSource(ApiObject, frozen=True, kw_only=True):
    """The keys of a ConfigMap as files."""

    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class CSIVolumeSource(ApiObject, frozen=True, kw_only=True):
    """An ephemeral volume that a CSI driver on this node provides."""

    driver: str = msgspec.field(default_factory=str)
    fs_type: str = ""
    node_publish_secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    volume_attributes: Mapping[str, str] = NO_ENTRIES

    def __post_init__(self) -> None:
        freeze_maps(self, "volume_attributes")


class DownwardAPIVolumeFile(ApiObject, frozen=True, kw_only=True):
    """One fact about the pod and the file it becomes."""

    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str = msgspec.field(default_factory=str)
    resource_field_ref: ResourceFieldSelector | None = None
    user: int | None = None


class DownwardAPIVolumeSource(ApiObject, frozen=True, kw_only=True):
    """Facts about the pod as files."""

    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class EmptyDirVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A folder that lives as long as the pod, on disk or in memory."""

    medium: str = ""
    mode: int | None = None
    size_limit: Quantity = ""


class VolumeResourceRequirements(ApiObject, frozen=True, kw_only=True):
    """How much storage a claim asks for."""

    limits: Mapping[str, Quantity] = NO_ENTRIES
    requests: Mapping[str, Quantity] = NO_ENTRIES

    def __post_init__(self) -> None:
        freeze_maps(self, "limits", "requests")


class PersistentVolumeClaimSpec(ApiObject, frozen=True, kw_only=True):
    """What storage a claim asks for."""

    access_modes: tuple[str, ...] = ()
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str = ""
    volume_mode: str = ""
    volume_name: str = ""


class PersistentVolumeClaimTemplate(ApiObject, frozen=True, kw_only=True):
    """The claim to make for an ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A claim made for this pod and removed with it."""

    volume_claim_template: PersistentVolumeClaimTemplate = PersistentVolumeClaimTemplate()


class FCVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A Fibre Channel disk."""

    fs_type: str = ""
    lun: int | None = None
    read_only: bool = False
    target_wwns: tuple[str, ...] = msgspec.field(name="targetWWNs", default=())
    wwids: tuple[str, ...] = ()


class FlexVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A volume of an exec plugin (deprecated)."""

    driver: str = msgspec.field(default_factory=str)
    fs_type: str = ""
    options: Mapping[str, str] = NO_ENTRIES
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None

    def __post_init__(self) -> None:
        freeze_maps(self, "options")


class FlockerVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A Flocker dataset (removed from Kubernetes)."""

    dataset_name: str = ""
    dataset_uuid: str = msgspec.field(name="datasetUUID", default="")


class GCEPersistentDiskVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A disk of Google Cloud (moved to CSI)."""

    fs_type: str = ""
    partition: int = 0
    pd_name: str = msgspec.field(default_factory=str)
    read_only: bool = False


class GitRepoVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A git checkout (deprecated, off by default)."""

    directory: str = ""
    repository: str = msgspec.field(default_factory=str)
    revision: str = ""


class GlusterfsVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A GlusterFS mount (removed from Kubernetes)."""

    endpoints: str = msgspec.field(default_factory=str)
    path: str = msgspec.field(default_factory=str)
    read_only: bool = False


class HostPathVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A file or folder of the node."""

    path: str = msgspec.field(default_factory=str)
    type: str = ""


class ImageVolumeSource(ApiObject, frozen=True, kw_only=True):
    """The files of an OCI image or artifact, read only."""

    pull_policy: str = ""
    reference: str = ""


class ISCSIVolumeSource(ApiObject, frozen=True, kw_only=True):
    """An iSCSI disk."""

    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    fs_type: str = ""
    initiator_name: str = ""
    iqn: str = msgspec.field(default_factory=str)
    iscsi_interface: str = ""
    lun: int = msgspec.field(default_factory=int)
    portals: tuple[str, ...] = ()
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    target_portal: str = msgspec.field(default_factory=str)


class NFSVolumeSource(ApiObject, frozen=True, kw_only=True):
    """An NFS mount."""

    path: str = msgspec.field(default_factory=str)
    read_only: bool = False
    server: str = msgspec.field(default_factory=str)


class PersistentVolumeClaimVolumeSource(ApiObject, frozen=True, kw_only=True):
    """The volume bound to a claim."""

    claim_name: str = msgspec.field(default_factory=str)
    read_only: bool = False


class PhotonPersistentDiskVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A Photon disk (removed from Kubernetes)."""

    fs_type: str = ""
    pd_id: str = msgspec.field(name="pdID", default_factory=str)


class PortworxVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A Portworx volume (moved to CSI)."""

    fs_type: str = ""
    read_only: bool = False
    volume_id: str = msgspec.field(name="volumeID", default_factory=str)


class ClusterTrustBundleProjection(ApiObject, frozen=True, kw_only=True):
    """CA certificates as one PEM file."""

    label_selector: LabelSelector | None = None
    name: str = ""
    optional: bool | None = None
    path: str = msgspec.field(default_factory=str)
    signer_name: str = ""
    user: int | None = None


class ConfigMapProjection(ApiObject, frozen=True, kw_only=True):
    """The keys of a ConfigMap as files."""

    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class DownwardAPIProjection(ApiObject, frozen=True, kw_only=True):
    """Facts about the pod as files."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class PodCertificateProjection(ApiObject, frozen=True, kw_only=True):
    """A key and a certificate made for this pod."""

    certificate_chain_path: str = ""
    credential_bundle_path: str = ""
    key_path: str = ""
    key_type: str = msgspec.field(default_factory=str)
    max_expiration_seconds: int | None = None
    signer_name: str = msgspec.field(default_factory=str)
    user: int | None = None
    user_annotations: Mapping[str, str] = NO_ENTRIES

    def __post_init__(self) -> None:
        freeze_maps(self, "user_annotations")


class SecretProjection(ApiObject, frozen=True, kw_only=True):
    """The keys of a Secret as files."""

    items: tuple[KeyToPath, ...] = ()
    name: str = ""
    optional: bool | None = None


class ServiceAccountTokenProjection(ApiObject, frozen=True, kw_only=True):
    """A token for the pod's service account, renewed before it expires."""

    audience: str = ""
    expiration_seconds: int | None = None
    path: str = msgspec.field(default_factory=str)
    user: int | None = None


class VolumeProjection(ApiObject, frozen=True, kw_only=True):
    """One source of a projected volume: exactly one member is set."""

    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(name="downwardAPI", default=None)
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(ApiObject, frozen=True, kw_only=True):
    """Several sources in one folder."""

    default_mode: int | None = None
    default_user: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


class QuobyteVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A Quobyte mount (removed from Kubernetes)."""

    group: str = ""
    read_only: bool = False
    registry: str = msgspec.field(default_factory=str)
    tenant: str = ""
    user: str = ""
    volume: str = msgspec.field(default_factory=str)


class RBDVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A Ceph block device (removed from Kubernetes)."""

    fs_type: str = ""
    image: str = msgspec.field(default_factory=str)
    keyring: str = ""
    monitors: tuple[str, ...] = msgspec.field(default_factory=tuple)
    pool: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    user: str = ""


class ScaleIOVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A ScaleIO disk (removed from Kubernetes)."""

    fs_type: str = ""
    gateway: str = msgspec.field(default_factory=str)
    protection_domain: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference = msgspec.field(default_factory=LocalObjectReference)
    ssl_enabled: bool = False
    storage_mode: str = ""
    storage_pool: str = ""
    system: str = msgspec.field(default_factory=str)
    volume_name: str = ""


class SecretVolumeSource(ApiObject, frozen=True, kw_only=True):
    """The keys of a Secret as files, kept in memory."""

    default_mode: int | None = None
    default_user: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str = ""


class StorageOSVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A StorageOS volume (removed from Kubernetes)."""

    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None
    volume_name: str = ""
    volume_namespace: str = ""


class VsphereVirtualDiskVolumeSource(ApiObject, frozen=True, kw_only=True):
    """A vSphere disk (moved to CSI)."""

    fs_type: str = ""
    storage_policy_id: str = msgspec.field(name="storagePolicyID", default="")
    storage_policy_name: str = ""
    volume_path: str = msgspec.field(default_factory=str)


class Volume(ApiObject, frozen=True, kw_only=True):
    """A named volume with at most one source; without any it is an emptyDir."""

    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(name="downwardAPI", default=None)
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    name: str = msgspec.field(default_factory=str)
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = msgspec.field(name="scaleIO", default=None)
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None

"""Rules of volumes: a unique name, exactly one source, the fields that each source requires."""

import re
from collections import Counter

from api.kube.objects.meta import ObjectFieldSelector
from api.kube.objects.volume import (
    DownwardAPIVolumeFile,
    HostPathVolumeSource,
    KeyToPath,
    ProjectedVolumeSource,
    Volume,
    VolumeProjection,
)
from api.kube.validation import name as names
from api.kube.validation.check import Check

HOST_PATH_TYPES = (
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MEDIUM = re.compile(r"(|Memory|HugePages(-.+)?)")
FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
FIELDS_EXPECTED = f"one of {', '.join(FIELDS)}, metadata.labels['<key>'], metadata.annotations['<key>']"


def check_volume(check: Check, volume: Volume, path: str) -> None:
    """Check one volume."""
    check.matches(f"{path}.name", volume.name, names.LABEL)
    fields = zip(volume.__struct_fields__, volume.__struct_encode_fields__, strict=True)
    sources = [wire for field, wire in fields if field != "name" and getattr(volume, field) is not None]
    if len(sources) > 1:
        check.note(path, " and ".join(sources), "one volume source")
    if volume.host_path is not None:
        check_host_path(check, volume.host_path, f"{path}.hostPath")
    if volume.empty_dir is not None:
        if volume.empty_dir.size_limit:
            check.amount(f"{path}.emptyDir.sizeLimit", volume.empty_dir.size_limit)
        if not MEDIUM.fullmatch(volume.empty_dir.medium):
            check.wrong(
                f"{path}.emptyDir.medium",
                volume.empty_dir.medium,
                "unset, Memory, HugePages or HugePages-<size>",
            )
    if volume.downward_api is not None:
        check.within(f"{path}.downwardAPI.defaultMode", volume.downward_api.default_mode, 0, 0o777)
        check_facts(check, volume.downward_api.items, f"{path}.downwardAPI.items")
    if volume.projected is not None:
        check_projected(check, volume.projected, f"{path}.projected")
    check_named(check, volume, path)
    check_remote(check, volume, path)


def check_named(check: Check, volume: Volume, path: str) -> None:
    """Check the sources that name another object."""
    if volume.secret is not None:
        check.required(f"{path}.secret.secretName", volume.secret.secret_name, "the name of a secret")
        check_files(check, volume.secret.default_mode, volume.secret.items, f"{path}.secret")
    if volume.config_map is not None:
        check.required(f"{path}.configMap.name", volume.config_map.name, "the name of a config map")
        check_files(check, volume.config_map.default_mode, volume.config_map.items, f"{path}.configMap")
    if volume.persistent_volume_claim is not None:
        claim = volume.persistent_volume_claim.claim_name
        check.required(f"{path}.persistentVolumeClaim.claimName", claim, "the name of a claim")
    if volume.image is not None:
        check.required(f"{path}.image.reference", volume.image.reference, "the name of an image")
        check.one_of(f"{path}.image.pullPolicy", volume.image.pull_policy, PULL_POLICIES)


def check_remote(check: Check, volume: Volume, path: str) -> None:
    """Check network volumes."""
    if volume.csi is not None:
        check.required(f"{path}.csi.driver", volume.csi.driver, "the name of a CSI driver")
    if volume.ephemeral is not None:
        template = volume.ephemeral.volume_claim_template
        check.required(f"{path}.ephemeral.volumeClaimTemplate", template, "the claim to create")
    if volume.nfs is not None:
        check.required(f"{path}.nfs.server", volume.nfs.server, "a host name or address")
        if (
            check.required(f"{path}.nfs.path", volume.nfs.path, "an absolute path")
            and volume.nfs.path[0] != "/"
        ):
            check.wrong(f"{path}.nfs.path", volume.nfs.path, "an absolute path")
    if volume.iscsi is not None:
        check.required(
            f"{path}.iscsi.targetPortal", volume.iscsi.target_portal, "an address with an optional port"
        )
        check.required(
            f"{path}.iscsi.iqn", volume.iscsi.iqn, "a qualified name such as iqn.2001-04.com.example:disk"
        )
        check.within(f"{path}.iscsi.lun", volume.iscsi.lun, 0, 255)
    if volume.git_repo is not None:
        check.required(f"{path}.gitRepo.repository", volume.git_repo.repository, "a URL")
        check.relative(f"{path}.gitRepo.directory", volume.git_repo.directory)


def check_host_path(check: Check, source: HostPathVolumeSource, path: str) -> None:
    """Check a file or folder of the node."""
    if check.required(f"{path}.path", source.path, "an absolute path") and ".." in source.path.split("/"):
        check.wrong(f"{path}.path", source.path, 'a path without ".."')
    check.one_of(f"{path}.type", source.type, HOST_PATH_TYPES)


def check_files(check: Check, mode: int | None, items: tuple[KeyToPath, ...], path: str) -> None:
    """Check modes and the files that keys are projected to."""
    check.within(f"{path}.defaultMode", mode, 0, 0o777)
    check_items(check, items, f"{path}.items")


def check_items(check: Check, items: tuple[KeyToPath, ...], path: str) -> None:
    """Check the files that keys are projected to."""
    for index, item in enumerate(items):
        check.required(f"{path}[{index}].key", item.key, "a key")
        check_file(check, item.path, item.mode, f"{path}[{index}]")


def check_file(check: Check, file: str, mode: int | None, path: str) -> None:
    """Check the path and the mode of a file."""
    if check.required(f"{path}.path", file, "a relative path"):
        check.relative(f"{path}.path", file)
        if file.startswith("..") and not file.startswith("../") and file != "..":
            check.wrong(f"{path}.path", file, 'a path that does not begin with ".."')
    check.within(f"{path}.mode", mode, 0, 0o777)


def check_facts(check: Check, items: tuple[DownwardAPIVolumeFile, ...], path: str) -> None:
    """Check downward API files."""
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        check_file(check, item.path, item.mode, place)
        chosen = {"fieldRef": item.field_ref, "resourceFieldRef": item.resource_field_ref}
        check.exactly_one(place, chosen, "source")
        if item.field_ref is not None:
            check_field(check, item.field_ref, f"{place}.fieldRef", FIELDS, FIELDS_EXPECTED)
        if item.resource_field_ref is not None:
            resource = item.resource_field_ref
            check.required(
                f"{place}.resourceFieldRef.containerName", resource.container_name, "a container's name"
            )
            check.required(
                f"{place}.resourceFieldRef.resource", resource.resource, "a resource such as limits.cpu"
            )


def check_field(
    check: Check, field: ObjectFieldSelector, path: str, allowed: tuple[str, ...], expected: str
) -> None:
    """Check a path into the pod itself."""
    if field.api_version not in ("", "v1"):
        check.wrong(f"{path}.apiVersion", field.api_version, "v1")
    if not check.required(f"{path}.fieldPath", field.field_path, expected):
        return
    match = SUBSCRIPT.fullmatch(field.field_path)
    if match is not None:
        key = match[2] if match[1] == "metadata.labels" else match[2].lower()
        check.matches(f"{path}.fieldPath", key, names.QUALIFIED)
    elif field.field_path not in allowed:
        check.wrong(f"{path}.fieldPath", field.field_path, expected)


def check_projected(check: Check, source: ProjectedVolumeSource, path: str) -> None:
    """Check several sources in one folder, and that no two make the same file."""
    check.within(f"{path}.defaultMode", source.default_mode, 0, 0o777)
    files: list[str] = []
    for index, part in enumerate(source.sources):
        files.extend(check_projection(check, part, f"{path}.sources[{index}]"))
    for file in sorted(file for file, count in Counter(files).items() if count > 1):
        check.wrong(f"{path}.sources", file, "a different path for each file")


def check_projection(check: Check, part: VolumeProjection, path: str) -> list[str]:
    """Check one source of a projected volume; return the files it makes."""
    chosen = {
        "secret": part.secret,
        "configMap": part.config_map,
        "downwardAPI": part.downward_api,
        "serviceAccountToken": part.service_account_token,
        "clusterTrustBundle": part.cluster_trust_bundle,
        "podCertificate": part.pod_certificate,
    }
    check.exactly_one(path, chosen, "source")
    files: list[str] = []
    for name, keyed in (("secret", part.secret), ("configMap", part.config_map)):
        if keyed is not None:
            check.required(f"{path}.{name}.name", keyed.name, "a name")
            check_items(check, keyed.items, f"{path}.{name}.items")
            files.extend(item.path for item in keyed.items)
    if part.downward_api is not None:
        check_facts(check, part.downward_api.items, f"{path}.downwardAPI.items")
        files.extend(item.path for item in part.downward_api.items)
    token = part.service_account_token
    if token is not None:
        check.within(f"{path}.serviceAccountToken.expirationSeconds", token.expiration_seconds, 600, 1 << 32)
        check_file(check, token.path, None, f"{path}.serviceAccountToken")
        files.append(token.path)
    return [file for file in files if file]

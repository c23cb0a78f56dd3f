"""Defaults of the volume sources that few write by hand: network disks and claims made for a pod."""

from msgspec.structs import replace

from api.kube.objects.volume import Volume


def default_legacy_source(volume: Volume) -> Volume:
    """Fill in what iSCSI, RBD, Azure disk, ScaleIO and ephemeral claims leave out."""
    if volume.iscsi is not None:
        source = replace(volume.iscsi, iscsi_interface=volume.iscsi.iscsi_interface or "default")
        volume = replace(volume, iscsi=source)
    if volume.rbd is not None:
        rbd = volume.rbd
        rbd = replace(
            rbd, pool=rbd.pool or "rbd", user=rbd.user or "admin", keyring=rbd.keyring or "/etc/ceph/keyring"
        )
        volume = replace(volume, rbd=rbd)
    if volume.azure_disk is not None:
        disk = volume.azure_disk
        disk = replace(
            disk,
            caching_mode=disk.caching_mode or "ReadWrite",
            kind=disk.kind or "Shared",
            fs_type=disk.fs_type or "ext4",
            read_only=bool(disk.read_only),
        )
        volume = replace(volume, azure_disk=disk)
    if volume.scale_io is not None:
        scale = volume.scale_io
        scale = replace(
            scale, storage_mode=scale.storage_mode or "ThinProvisioned", fs_type=scale.fs_type or "xfs"
        )
        volume = replace(volume, scale_io=scale)
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    if volume.ephemeral is not None and template is not None:
        spec = replace(template.spec, volume_mode=template.spec.volume_mode or "Filesystem")
        ephemeral = replace(volume.ephemeral, volume_claim_template=replace(template, spec=spec))
        volume = replace(volume, ephemeral=ephemeral)
    return volume

"""The kernel's table of mounts, read."""

from runtime.drivers.host.volumes.mount import mounts_below

TABLE = """\
22 1 0:21 / / rw - ext4 /dev/a rw
30 22 0:30 / /pods/u/volumes/m rw shared:7 - tmpfs tmpfs rw,size=1k
31 30 0:31 / /pods/u/volumes/m/with\\040space\\134and\\011tab rw - tmpfs tmpfs rw
32 22 0:32 / /pods/u2/volumes/m rw - tmpfs tmpfs rw
33 22 0:33 / /pods/u rw - tmpfs tmpfs rw
34 30 0:34 / /pods/u/volumes/m rw - tmpfs tmpfs rw
"""


def test_mounts_below_a_folder_are_found_the_last_first_and_no_others(tmp_path):
    path = tmp_path / "mountinfo"
    path.write_text(TABLE)
    assert mounts_below("/pods/u", str(path)) == [
        "/pods/u/volumes/m",
        "/pods/u/volumes/m/with space\\and\ttab",
        "/pods/u/volumes/m",
    ]
    assert mounts_below("/nowhere", str(path)) == []

"""The manifest reader on real files."""

import os
import socket
import threading
from pathlib import Path

import pytest

from api.errors import DeniedError, RejectedError, TimedOutError
from api.ports.manifests import MANIFEST_LIMIT_BYTES, FileSettled, ReadManifests
from api.ports.urls import FetchManifests
from runtime.drivers.host.manifests import manifest
from runtime.drivers.host.manifests.inotify import ManifestChanges
from runtime.drivers.host.manifests.manifest import FileManifests
from runtime.drivers.host.volumes import mount
from tests.harness.part import need
from tests.harness.wait import until

DEADLINE_S = 10.0


def read(path, reader=None):
    return (reader or FileManifests()).perform(ReadManifests(path=str(path)), DEADLINE_S)


def named(listing, name):
    return next(file for file in listing.files if file.path.endswith(f"/{name}"))


READ = ("X.YAML", "a.yaml", "b.yml", "c.json", "etcd.manifest", "kube-proxy")
BACKUPS = ("#x.yaml#", "4913", "sedq8Ff3K", "x.yaml.bak", "x.yaml.dpkg-old", "x.yaml.swp", "x.yaml~")


def test_every_regular_file_is_read_by_its_content_and_all_else_is_ignored_with_the_reason(tmp_path):
    for number, name in enumerate(READ):
        (tmp_path / name).write_text('{"kind": "Pod"}' if number % 2 else "kind: Pod")
    for name in (*BACKUPS, ".hidden", ".x.yaml.swp"):
        (tmp_path / name).write_text("kind: Pod")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe")
    listing = read(tmp_path)
    assert [file.path for file in listing.files] == [str(tmp_path / name) for name in READ]
    assert {file.document for file in listing.files} == {b'{"kind":"Pod"}'}
    why = {problem.where: problem.message for problem in listing.ignored}
    assert all("backup" in why.pop(name) for name in BACKUPS)
    assert "dot" in why.pop(".x.yaml.swp")
    assert "dot" in why.pop(".hidden")
    assert "folder" in why.pop("folder.yaml")
    assert "pipe" in why.pop("pipe")
    assert why == {}


def test_a_file_without_a_suffix_is_announced_and_a_backup_is_not(tmp_path):
    told = []
    close = ManifestChanges(str(tmp_path)).open(told.append, lambda _failure: None)
    try:
        (tmp_path / "web~").write_text("kind: Pod")
        (tmp_path / "web").write_text("kind: Pod")
        until(lambda: told, "the file is announced")
    finally:
        close()
    assert told == [FileSettled(path=str(tmp_path / "web"))]


def test_a_broken_file_says_line_and_reason_and_spoils_no_other(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: Pod\nkind: Pod\n")
    (tmp_path / "b.yaml").write_text("")
    (tmp_path / "c.yaml").write_text("kind: Pod")
    listing = read(tmp_path)
    assert named(listing, "a.yaml").problems[0].where == "a.yaml:2"
    assert named(listing, "b.yaml").problems
    assert named(listing, "c.yaml").document == b'{"kind":"Pod"}'


def test_a_file_that_is_named_itself_is_read_whatever_its_suffix(tmp_path):
    (tmp_path / "pod.conf").write_text("kind: Pod")
    assert [f.document for f in read(tmp_path / "pod.conf").files] == [b'{"kind":"Pod"}']


@pytest.mark.parametrize("path", ["none", "file/below"])
def test_a_missing_path_is_an_empty_listing(tmp_path, path):
    (tmp_path / "file").write_text("x")
    listing = read(tmp_path / path)
    assert (listing.missing, listing.files) == (True, ())
    assert listing.place == ("" if path == "none" else "below a path that is no folder")


def test_a_folder_is_told_by_its_kind_and_file_system(tmp_path):
    need("root")
    (tmp_path / "a.yaml").write_text("kind: Pod")
    file, folder = read(tmp_path / "a.yaml").place, read(tmp_path).place
    assert folder == file.replace("file", "folder")
    mount.attach("tmpfs", str(tmp_path), "tmpfs")
    try:
        over = read(tmp_path)
    finally:
        mount.unmount(str(tmp_path))
    assert (over.files, over.missing) == ((), False)
    assert over.place != folder
    assert read(tmp_path).place == folder


def test_a_large_file_is_refused_unread(tmp_path):
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(MANIFEST_LIMIT_BYTES + 1)
    (found,) = read(tmp_path).files
    assert found.document is None
    assert "1048577 bytes" in found.problems[0].message
    assert "1 MiB" in found.problems[0].message


def test_pipes_sockets_and_devices_are_left_out_without_being_opened(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").symlink_to("/dev/tty")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "c.yaml"))
        listing = read(tmp_path)
    assert listing.files == ()
    told = [f"{problem.where} {problem.message.split(';')[0]}" for problem in listing.ignored]
    assert told == [
        "a.yaml ignored: it is a pipe",
        "b.yaml ignored: it is a device",
        "c.yaml ignored: it is a socket",
    ]
    with pytest.raises(RejectedError):
        read(tmp_path / "a.yaml")


def test_a_pipe_that_took_the_place_of_a_file_while_the_folder_is_read_is_not_opened(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.yaml")
    monkeypatch.setattr(manifest, "candidates", lambda _path: (["a.yaml"], (), ""))
    (found,) = read(tmp_path).files
    assert found.problems[0].message == "is a pipe; a manifest is a regular file"


def test_links_to_files_are_followed_and_keep_their_own_name(tmp_path):
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "a.yaml").write_text("kind: Pod")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "b.yaml").symlink_to("nowhere")
    listing = read(tmp_path)
    assert named(listing, "a.yaml").document == b'{"kind":"Pod"}'
    assert "symbolic link to nothing" in named(listing, "b.yaml").problems[0].message


def test_an_unchanged_file_is_neither_opened_nor_parsed_again(tmp_path, monkeypatch):
    path = tmp_path / "a.yaml"
    path.write_text("kind: Pod")
    parsed, opened = [], []
    real_read, real_open = manifest.read_document, manifest.read_open
    monkeypatch.setattr(manifest, "read_document", lambda *a: parsed.append(a) or real_read(*a))
    monkeypatch.setattr(manifest, "read_open", lambda *a: opened.append(a) or real_open(*a))
    monkeypatch.setattr(manifest, "RACY_NS", 0)
    reader = FileManifests()
    first = read(tmp_path, reader)
    assert read(tmp_path, reader) == first
    assert (len(parsed), len(opened)) == (1, 1)
    path.write_text("kind: Pod")
    assert read(tmp_path, reader) == first
    assert (len(parsed), len(opened)) == (1, 2)
    path.write_text("kind: Pox")
    assert read(tmp_path, reader).files[0].document == b'{"kind":"Pox"}'
    assert (len(parsed), len(opened)) == (2, 3)


def test_a_change_that_the_times_do_not_show_is_found_while_the_file_is_young(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("kind: Pod")
    reader = FileManifests()
    read(tmp_path, reader)
    with path.open("r+") as file:
        file.write("kind: Pox")
    assert read(tmp_path, reader).files[0].document == b'{"kind":"Pox"}'


def test_a_folder_that_cannot_be_read_is_an_error_and_not_an_empty_listing(tmp_path, monkeypatch):
    # Root reads every folder, so the refusal is the system call's own, made here.
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DeniedError, match="Permission denied"):
        read(tmp_path)


def test_a_file_that_cannot_be_read_is_broken_and_not_absent(tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text("kind: Pod")

    real = os.open

    def refuse(path, flags, *args):
        if path == str(tmp_path):
            return real(path, flags, *args)
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(os, "open", refuse)
    (found,) = read(tmp_path).files
    assert "Input/output error" in found.problems[0].message


def test_a_file_that_vanishes_while_the_folder_is_read_is_absent(tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text("kind: Pod")
    monkeypatch.setattr(manifest, "candidates", lambda _path: (["a.yaml", "gone.yaml"], (), ""))
    assert [Path(f.path).name for f in read(tmp_path).files] == ["a.yaml"]


def test_the_deadline_ends_a_reading(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: Pod")
    with pytest.raises(TimedOutError):
        FileManifests().perform(ReadManifests(path=str(tmp_path)), -1.0)


def test_another_call_is_refused():
    with pytest.raises(RejectedError):
        FileManifests().perform(FetchManifests(url="http://h"), 1.0)


def test_readings_side_by_side_agree(tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.yaml").write_text(f"kind: Pod{number}")
    reader = FileManifests()
    found = []
    threads = [threading.Thread(target=lambda: found.append(read(tmp_path, reader))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 4
    assert all(listing == found[0] for listing in found)

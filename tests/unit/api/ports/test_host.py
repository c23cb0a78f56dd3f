"""How a URL may be shown."""

import pytest

from api.config.settings import Flags
from api.kube.objects.kubeletconfiguration import KubeletConfiguration
from api.ports.urls import FetchManifests, shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/pods", "https://example.com/pods"),
        ("https://u:pw@example.com:8443/pods?token=pw#pw", "https://example.com:8443/pods?..."),
        ("http://u:p@w@h/x", "http://h/x"),
        ("http://[fd00::1]:80/x", "http://[fd00::1]:80/x"),
        ("ftp://u:pw@h/x", "ftp://h/x"),
        ("u:pw@h/x", "<malformed URL>"),
        ("http:u:pw@h/x", "<malformed URL>"),
        ("http:/u:pw@h/x", "<malformed URL>"),
        ("http://u:p/w@h/x", "<malformed URL>"),
        ("http://u:p?w@h/x", "<malformed URL>"),
        ("http://u:p#w@h/x", "<malformed URL>"),
        ("http://[u:pw@h/x", "<malformed URL>"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url, shown):
    assert shown_url(url) == shown


def test_no_setting_shows_more_of_a_url():
    url = "https://s3cret:s3cret@h/x?s3cret"
    for holder in (
        Flags(manifest_url=url),
        KubeletConfiguration(static_pod_url=url),
        FetchManifests(url=url),
    ):
        assert "https://h/x?..." in repr(holder)
        assert "s3cret" not in repr(holder)

"""What links to container logs are called."""

import pytest

from actors.rules.container.loglink import link_name


def test_a_link_is_called_as_a_kubelet_calls_it():
    assert link_name("p", "n", "c", "abc") == "p_n_c-abc.log"
    assert link_name("p", "n", "c", "containerd://abc") == "p_n_c-abc.log"


@pytest.mark.parametrize("length", [1, 120, 184, 185, 186, 253])
def test_the_name_of_a_link_fits_a_file_system(length):
    name = link_name("p" * length, "n", "c", "i" * 64)
    assert len(name.encode()) == min(len("p" * length + "_n_c-.log") + 64, 255)
    assert name.endswith(".log")

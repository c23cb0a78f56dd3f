"""Limits of local storage, and resources that the node does not have, on either runtime: who runs, who goes and why."""

import pytest

from tests.harness.agent.house import FOREVER
from tests.harness.part import need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
DEADLINE_S = 90.0
PRINTED = 3_000_000


def test_local_storage_and_extended_resources_are_honoured_as_a_kubelet_does(house):
    need("root")
    data = house.place("data")
    volume = {"name": "data", "emptyDir": {}}
    prints = f"head -c {PRINTED} /dev/zero | tr '\\0' x; {FOREVER}"
    keeps = f"head -c {PRINTED} /dev/zero >{data}/file; {FOREVER}"
    limited = {"limits": {"ephemeral-storage": "1Mi"}}
    fuel = {name: {"example.com/fuel": "2", "ephemeral-storage": "8Mi"} for name in ("requests", "limits")}
    beside = house.container("beside", FOREVER, resources={"limits": {"ephemeral-storage": "8Mi"}})
    house.put("printer", house.container("main", prints, resources=limited), beside)
    mounts = [{"name": "data", "mountPath": str(data)}]
    keeper = house.container("main", keeps, resources=limited, volumeMounts=mounts)
    house.put("keeper", keeper, volumes=[volume], overhead={"ephemeral-storage": "1Mi"})
    modest = house.container("main", keeps, resources=fuel, volumeMounts=mounts)
    house.put("modest", modest, volumes=[volume], overhead={"example.com/fuel": "1"})
    house.agent.until_status("modest", "Running", 40.0)
    for name, message in (
        ("printer", 'Container main exceeded its local ephemeral storage limit "1Mi". '),
        ("keeper", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "),
    ):
        house.agent.until_status(name, "Evicted", DEADLINE_S)
        status = house.status(name)
        assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    assert house.agent.row("modest")["status"] == "Running"
    [row] = house.status("modest")["containerStatuses"]
    assert (row["restartCount"], row["allocatedResources"]) == (0, fuel["requests"])

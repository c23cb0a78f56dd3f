"""Admission on a real containerd: nothing of a refused pod reaches the runtime, and what the node allows takes effect."""

import pytest

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"


def test_a_refused_pod_never_reaches_the_runtime_and_an_allowed_parameter_takes_effect(containerd, make_node):
    node = make_node(containerd, allowedUnsafeSysctls=["kernel.msg*"])
    allowed = {"sysctls": [{"name": "kernel.msgmax", "value": "12345"}]}
    node.put("allowed", f"cat /proc/sys/kernel/msgmax; {FOREVER}", grace=1, securityContext=allowed)
    forbidden = {"sysctls": [{"name": "fs.mqueue.msg_max", "value": "20"}]}
    node.put("forbidden", FOREVER, grace=1, securityContext=forbidden)
    node.put("picky", FOREVER, grace=1, nodeSelector={"disk": "ssd"})
    node.start()
    node.until_status("forbidden", "SysctlForbidden")
    node.until_status("picky", "NodeAffinity")
    node.until_running("allowed")
    node.until(lambda: node.printed("allowed") == [["12345"]], "the parameter is as asked for")
    assert len(node.runtime.link.sandboxes()) == 1
    node.kill9()
    node.start()
    node.until_status("forbidden", "SysctlForbidden")
    node.until_running("allowed")
    assert len(node.runtime.link.sandboxes()) == 1

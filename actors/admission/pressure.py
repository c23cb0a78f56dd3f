"""Which pods are refused under node pressure (reference ``node`` section 6.11)."""

from actors.admission.placement import tolerates
from actors.rules.resources.qos import qos_class
from actors.rules.resources.ranking import is_spared
from api.eviction import Pressure
from api.kube.objects.pod import Pod
from api.messages.pod import Refusal
from api.ports.node import NodeTaint

REASON = "Evicted"
TAINT = NodeTaint(key="node.kubernetes.io/memory-pressure", value="", effect="NoSchedule")


def refused_under(pod: Pod, conditions: tuple[Pressure, ...], *, spares_static: bool) -> Refusal | None:
    """Return why a pod is not admitted now, None when it may be. A pod that is never evicted is never refused either."""
    if not conditions or is_spared(pod, spares_static=spares_static):
        return None
    if conditions == (Pressure.MEMORY,):
        tolerated = any(tolerates(one, TAINT) for one in pod.spec.tolerations)
        if qos_class(pod.spec) != "BestEffort" or tolerated:
            return None
    message = f"The node had condition: [{' '.join(conditions)}]. "
    advice = "`nodeagent explain eviction` shows what the node is short of and when the pressure ends"
    return Refusal(reason=REASON, message=message, advice=(advice,))

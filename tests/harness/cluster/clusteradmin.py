"""What an administrator does in tests, by the Kubernetes client library: the judge of what the API server really holds."""

import json

from kubernetes import client, config

from api.ports.kube import ObjectPath

MERGE = "application/strategic-merge-patch+json"
POD = {
    "terminationGracePeriodSeconds": 30,
    "automountServiceAccountToken": False,
    "containers": [{"name": "app", "image": "localhost/busybox:1"}],
}


def pod_body(name, node, **spec):
    """Return a Pod that is bound to a node already, as there is no scheduler."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**POD, "nodeName": node, **spec},
    }


class ClusterAdmin:
    """Reads and changes objects as JSON; raises `kubernetes.client.ApiException` with the server's status."""

    def __init__(self, kubeconfig) -> None:
        self._client = config.new_client_from_config(str(kubeconfig))
        self._server = self._client.configuration.host

    def close(self) -> None:
        """Drop the connections."""
        self._client.rest_client.pool_manager.clear()

    def create(self, path: ObjectPath, body: dict) -> dict:
        """Create an object in a collection."""
        return self._request("POST", path, body)

    def read(self, path: ObjectPath) -> dict | None:
        """Return an object, None when there is none."""
        try:
            return self._request("GET", path)
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def patch(self, path: ObjectPath, body: dict) -> dict:
        """Merge changes into an object or its status."""
        return self._request("PATCH", path, body, MERGE)

    def replace(self, path: ObjectPath, body: dict) -> dict:
        """Replace an object, or the part of it that a subresource is."""
        return self._request("PUT", path, body)

    def delete(self, path: ObjectPath, grace_s: int | None = None) -> dict:
        """Delete an object."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions"}
        return self._request(
            "DELETE", path, options if grace_s is None else {**options, "gracePeriodSeconds": grace_s}
        )

    def remove(self, path: ObjectPath, grace_s: int | None = None) -> None:
        """Delete an object that may be gone already."""
        try:
            self.delete(path, grace_s)
        except client.ApiException as error:
            if error.status != 404:
                raise

    def make_namespace(self, name: str) -> None:
        """Make a namespace with its default ServiceAccount, without which no pod is admitted."""
        if name != "default":
            self.create(ObjectPath(plural="namespaces"), {"metadata": {"name": name}})
        self.create(ObjectPath(plural="serviceaccounts", namespace=name), {"metadata": {"name": "default"}})

    def _request(self, method, path, body=None, content_type="application/json"):
        response = self._client.call_api(
            method,
            f"{self._server}{path.url()}",
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            _request_timeout=30.0,
        )
        response.read()
        if not 200 <= response.status <= 299:
            raise client.ApiException(http_resp=response)
        return json.loads(response.data)

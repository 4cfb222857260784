"""Runs an operator of kopf, with its defaults, and checks what it does."""

import os
import sys
import threading
import time

KUBECONFIG, NAMESPACE = sys.argv[1:]
os.environ["KUBECONFIG"] = KUBECONFIG

import kopf  # noqa: E402
from kubernetes import client, config  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402

GROUP = f"kopf.{NAMESPACE}.example.com"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"sites.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "sites", "singular": "site", "kind": "Site"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"title": {"type": "string"}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}

calls = []


@kopf.on.create(GROUP, "v1", "sites")
def created(spec, name, namespace, **_):
    calls.append(("create", spec["title"]))
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"title": spec["title"]},
    }
    kopf.adopt(child)
    core.create_namespaced_config_map(namespace, child)
    return {"child": name}


@kopf.on.update(GROUP, "v1", "sites")
def updated(spec, name, namespace, **_):
    calls.append(("update", spec["title"]))
    core.patch_namespaced_config_map(name, namespace, {"data": {"title": spec["title"]}})


@kopf.on.delete(GROUP, "v1", "sites")
def deleted(spec, **_):
    calls.append(("delete", spec["title"]))


def until(what, condition):
    """Waits until `condition` returns a value, and returns it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            value = condition()
        except ApiException as error:
            if error.status != 404:
                raise
            value = None
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"timed out waiting for {what}; calls: {calls}")


def gone(read):
    try:
        read()
    except ApiException as error:
        return error.status == 404
    return False


def check():
    sites = (GROUP, "v1", NAMESPACE, "sites")
    site = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Site",
        "metadata": {"name": "web"},
        "spec": {"title": "one"},
    }
    until("the kind", lambda: custom.create_namespaced_custom_object(*sites, site))
    read = lambda: custom.get_namespaced_custom_object(*sites, "web")  # noqa: E731
    until("the result", lambda: read().get("status", {}).get("created") == {"child": "web"})
    live = read()
    assert live["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"], live
    child = core.read_namespaced_config_map("web", NAMESPACE)
    assert child.metadata.owner_references[0].uid == live["metadata"]["uid"], child

    custom.patch_namespaced_custom_object(*sites, "web", {"spec": {"title": "two"}})
    until(
        "the update",
        lambda: core.read_namespaced_config_map("web", NAMESPACE).data["title"] == "two",
    )
    custom.delete_namespaced_custom_object(*sites, "web")
    until("the delete", lambda: gone(read))
    assert calls == [("create", "one"), ("update", "two"), ("delete", "two")], calls


api = config.new_client_from_config(KUBECONFIG)
core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
extensions = client.ApiextensionsV1Api(api)
extensions.create_custom_resource_definition(DEFINITION)
ready, stop = threading.Event(), threading.Event()
operator = threading.Thread(
    target=lambda: kopf.run(
        namespaces=[NAMESPACE],
        standalone=True,
        ready_flag=ready,
        stop_flag=stop,
    )
)
operator.start()
try:
    check()
    print("ok kopf")
finally:
    stop.set()
    operator.join()
    extensions.delete_custom_resource_definition(DEFINITION["metadata"]["name"])

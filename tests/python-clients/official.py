"""Uses a server with the official Python client, with its defaults."""

import sys
import threading

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

KUBECONFIG, NAMESPACE = sys.argv[1:]

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{NAMESPACE}.example.com"},
    "spec": {
        "group": f"{NAMESPACE}.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
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
                                "properties": {"size": {"type": "integer", "default": 3}},
                            },
                            "status": {
                                "type": "object",
                                "properties": {"ready": {"type": "boolean"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def config_map(name, **data):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "web"}), data=data
    )


def code_of(call):
    """The status code and the reason of the error that `call` raises."""
    try:
        call()
    except ApiException as error:
        return error.status, error.reason
    raise AssertionError("no error")


def core_objects(api):
    core = client.CoreV1Api(api)
    created = core.create_namespaced_config_map(NAMESPACE, config_map("a", value="1"))
    assert created.metadata.uid and created.metadata.resource_version, created
    status, reason = code_of(
        lambda: core.create_namespaced_config_map(NAMESPACE, config_map("a"))
    )
    assert (status, reason) == (409, "Conflict"), (status, reason)
    status, _ = code_of(lambda: core.read_namespaced_config_map("none", NAMESPACE))
    assert status == 404, status

    stale = core.read_namespaced_config_map("a", NAMESPACE)
    patched = core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"more": "2"}})
    assert patched.data == {"value": "1", "more": "2"}, patched.data
    status, _ = code_of(lambda: core.replace_namespaced_config_map("a", NAMESPACE, stale))
    assert status == 409, status

    for name in "bcd":
        core.create_namespaced_config_map(NAMESPACE, config_map(name))
    page = core.list_namespaced_config_map(NAMESPACE, label_selector="app=web", limit=3)
    assert [it.metadata.name for it in page.items] == ["a", "b", "c"], page
    rest = core.list_namespaced_config_map(
        NAMESPACE, label_selector="app=web", limit=3, _continue=page.metadata._continue
    )
    assert [it.metadata.name for it in rest.items] == ["d"], rest
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=web")
    left = core.list_namespaced_config_map(NAMESPACE, label_selector="app=web")
    assert not left.items, left

    secret = client.V1Secret(
        metadata=client.V1ObjectMeta(name="s"), string_data={"password": "p"}
    )
    secret = core.create_namespaced_secret(NAMESPACE, secret)
    assert secret.data == {"password": "cA=="}, secret.data


def watches(api):
    core = client.CoreV1Api(api)
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def write():
        core.create_namespaced_config_map(NAMESPACE, config_map("watched", value="1"))
        core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"value": "2"}})
        core.delete_namespaced_config_map("watched", NAMESPACE)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    events = watch.Watch()
    for event in events.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        field_selector="metadata.name=watched",
        resource_version=version,
        timeout_seconds=30,
    ):
        seen.append((event["type"], event["object"].data["value"]))
        if event["type"] == "DELETED":
            events.stop()
    writer.join()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen


def workloads(api):
    apps = client.AppsV1Api(api)
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod},
    }
    utils.create_from_dict(api, deployment)
    read = apps.read_namespaced_deployment("web", NAMESPACE)
    assert read.spec.replicas == 1, read.spec
    assert read.spec.template.spec.restart_policy == "Always", read.spec
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 4}})
    assert scale.spec.replicas == 4, scale
    read = apps.read_namespaced_deployment("web", NAMESPACE)
    assert (read.spec.replicas, read.metadata.generation) == (4, 2), read
    # A list of containers is merged by name.
    change = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, change)
    images = [it.image for it in patched.spec.template.spec.containers]
    assert images == ["web:2"], images


def custom_resources(api):
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(WIDGETS)
    try:
        events = watch.Watch()
        name = WIDGETS["metadata"]["name"]
        for event in events.stream(
            extensions.list_custom_resource_definition,
            field_selector=f"metadata.name={name}",
            timeout_seconds=30,
        ):
            conditions = event["object"].status.conditions or []
            if any(it.type == "Established" and it.status == "True" for it in conditions):
                events.stop()
        widgets = dynamic.DynamicClient(api).resources.get(
            api_version=f"{WIDGETS['spec']['group']}/v1", kind="Widget"
        )
        body = {
            "apiVersion": f"{WIDGETS['spec']['group']}/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "spec": {},
        }
        # The server stores objects of a new kind a moment after it is established.
        created = retry(lambda: widgets.create(body=body, namespace=NAMESPACE))
        assert created.spec.size == 3, created
        body["spec"] = {"size": 5}
        applied = widgets.server_side_apply(
            body=body, name="w", namespace=NAMESPACE, field_manager="python", force_conflicts=True
        )
        assert applied.spec.size == 5, applied
        managers = {it.manager for it in applied.metadata.managedFields}
        assert "python" in managers, managers
        custom = client.CustomObjectsApi(api)
        path = (WIDGETS["spec"]["group"], "v1", NAMESPACE, "widgets", "w")
        custom.patch_namespaced_custom_object_status(*path, {"status": {"ready": True}})
        assert custom.get_namespaced_custom_object(*path)["status"] == {"ready": True}
        status, _ = code_of(
            lambda: custom.patch_namespaced_custom_object(*path, {"spec": {"size": "x"}})
        )
        assert status == 422, status
    finally:
        extensions.delete_custom_resource_definition(name)


def retry(call):
    for _ in range(100):
        try:
            return call()
        except ApiException as error:
            if error.status != 404:
                raise
            threading.Event().wait(0.1)
    return call()


api = config.new_client_from_config(KUBECONFIG)
for check in (core_objects, watches, workloads, custom_resources):
    check(api)
    print(f"ok {check.__name__}")

// Uses a server with the official JavaScript client, with its defaults.

import assert from "node:assert/strict";
import {
  ADD,
  ApiException,
  AppsV1Api,
  CoreV1Api,
  DELETE,
  KubeConfig,
  KubernetesObjectApi,
  UPDATE,
  Watch,
  makeInformer,
} from "@kubernetes/client-node";

const [kubeconfig, namespace] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(CoreV1Api);

function configMap(name, data) {
  return { metadata: { name, labels: { app: "node" } }, data };
}

async function codeOf(call) {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof ApiException, error);
    return error.code;
  }
  throw new Error("no error");
}

async function coreObjects() {
  const created = await core.createNamespacedConfigMap({
    namespace,
    body: configMap("a", { value: "1" }),
  });
  assert.ok(created.metadata.uid && created.metadata.resourceVersion);
  const again = core.createNamespacedConfigMap({ namespace, body: configMap("a") });
  assert.equal(await codeOf(again), 409);
  assert.equal(await codeOf(core.readNamespacedConfigMap({ namespace, name: "none" })), 404);

  const patch = [{ op: "add", path: "/data/more", value: "2" }];
  const patched = await core.patchNamespacedConfigMap({ namespace, name: "a", body: patch });
  assert.deepEqual(patched.data, { value: "1", more: "2" });
  const stale = core.replaceNamespacedConfigMap({ namespace, name: "a", body: created });
  assert.equal(await codeOf(stale), 409);

  for (const name of ["b", "c"]) {
    await core.createNamespacedConfigMap({ namespace, body: configMap(name) });
  }
  const page = await core.listNamespacedConfigMap({
    namespace,
    labelSelector: "app=node",
    limit: 2,
  });
  assert.deepEqual(page.items.map((it) => it.metadata.name), ["a", "b"]);
  const rest = await core.listNamespacedConfigMap({
    namespace,
    labelSelector: "app=node",
    limit: 2,
    _continue: page.metadata._continue,
  });
  assert.deepEqual(rest.items.map((it) => it.metadata.name), ["c"]);
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: "app=node" });
  const left = await core.listNamespacedConfigMap({ namespace, labelSelector: "app=node" });
  assert.equal(left.items.length, 0);
}

// An object of any kind, with server-side apply as kubectl does it.
async function objects() {
  const api = KubernetesObjectApi.makeApiClient(config);
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "node", namespace },
    spec: {
      selector: { matchLabels: { app: "node" } },
      template: {
        metadata: { labels: { app: "node" } },
        spec: { containers: [{ name: "web", image: "web:1" }] },
      },
    },
  };
  const created = await api.create(deployment);
  assert.equal(created.spec.replicas, 1);
  assert.equal(created.spec.template.spec.restartPolicy, "Always");
  const change = { ...deployment, spec: { ...deployment.spec, replicas: 3 } };
  const patched = await api.patch(change);
  assert.equal(patched.spec.replicas, 3);
  const read = await config
    .makeApiClient(AppsV1Api)
    .readNamespacedDeployment({ namespace, name: "node" });
  assert.equal(read.metadata.generation, 2);
  assert.ok(read.metadata.creationTimestamp instanceof Date);
  await api.delete(deployment);
  assert.equal(await codeOf(api.read(deployment)), 404);
}

async function watches() {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const list = await core.listNamespacedConfigMap({ namespace });
  const seen = [];
  const done = withResolvers();
  const query = {
    fieldSelector: "metadata.name=watched",
    resourceVersion: list.metadata.resourceVersion,
  };
  const controller = await new Watch(config).watch(
    path,
    query,
    (type, object) => {
      seen.push(`${type} ${object.data.value}`);
      if (type === "DELETED") {
        done.resolve();
      }
    },
    (error) => error && done.reject(error),
  );
  await write("watched");
  await done.promise;
  controller.abort();
  assert.deepEqual(seen, ["ADDED 1", "MODIFIED 2", "DELETED 2"]);
}

async function informers() {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: "app=node" });
  const informer = makeInformer(config, path, list, "app=node");
  const seen = [];
  const done = withResolvers();
  for (const event of [ADD, UPDATE, DELETE]) {
    informer.on(event, (object) => {
      seen.push(`${event} ${object.data.value}`);
      if (event === DELETE) {
        done.resolve();
      }
    });
  }
  await informer.start();
  await write("informed");
  await done.promise;
  await informer.stop();
  assert.deepEqual(seen, ["add 1", "update 2", "delete 2"]);
}

async function write(name) {
  await core.createNamespacedConfigMap({ namespace, body: configMap(name, { value: "1" }) });
  const body = [{ op: "replace", path: "/data/value", value: "2" }];
  await core.patchNamespacedConfigMap({ namespace, name, body });
  await core.deleteNamespacedConfigMap({ namespace, name });
}

function withResolvers() {
  const it = {};
  it.promise = new Promise((resolve, reject) => Object.assign(it, { resolve, reject }));
  return it;
}

for (const check of [coreObjects, objects, watches, informers]) {
  await check();
  console.log(`ok ${check.name}`);
}
process.exit(0);

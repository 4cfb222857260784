// A test that starts the command `windlass-apiserver`, and uses the official client.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CoreV1Api, KubeConfig } from "@kubernetes/client-node";

// Starts a server, which stops at the end of the test.
async function startServer(t) {
  const folder = await mkdtemp(join(tmpdir(), "windlass-"));
  const path = join(folder, "kubeconfig");
  const server = spawn("windlass-apiserver", ["--kubeconfig", path, "--stop-with-stdin"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(server, "exit");
  t.after(async () => {
    server.stdin.end();
    await exited;
    await rm(folder, { recursive: true });
  });
  const [line] = await Promise.race([once(server.stdout, "data"), exited]);
  assert.match(String(line), /^ready /);
  const config = new KubeConfig();
  config.loadFromFile(path);
  return config;
}

test("objects are created and read", async (t) => {
  const core = (await startServer(t)).makeApiClient(CoreV1Api);
  const namespace = "default";
  const body = { metadata: { name: "a" }, data: { k: "v" } };
  await core.createNamespacedConfigMap({ namespace, body });
  const read = await core.readNamespacedConfigMap({ namespace, name: "a" });
  assert.deepEqual(read.data, { k: "v" });
});

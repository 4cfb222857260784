"""A test that starts the command `windlass-apiserver`, and uses the official client."""

import contextlib
import os
import subprocess
import tempfile
import unittest

import kubernetes


@contextlib.contextmanager
def start_server():
    """Yields a client of a server, which stops at the end of the `with` block."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kubeconfig")
        command = ["windlass-apiserver", "--kubeconfig", path, "--stop-with-stdin"]
        # At its end, Popen closes the standard input of the server, and waits for the server.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            line = server.stdout.readline()
            assert line.startswith(b"ready "), line
            yield kubernetes.config.new_client_from_config(path)


class StartTest(unittest.TestCase):
    def setUp(self):
        self.core = kubernetes.client.CoreV1Api(self.enterContext(start_server()))

    def test_objects_are_created_and_read(self):
        body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
        self.core.create_namespaced_config_map("default", body)
        read = self.core.read_namespaced_config_map("a", "default")
        self.assertEqual(read.data, {"k": "v"})

    def test_each_test_has_its_own_server(self):
        self.assertEqual(self.core.list_namespaced_config_map("default").items, [])


if __name__ == "__main__":
    unittest.main()

package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startServer starts a server, which stops at the end of the test.
func startServer(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	command := exec.Command("windlass-apiserver", "--kubeconfig", kubeconfig, "--stop-with-stdin")
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		t.Fatalf("the server is not ready: %q, %v", line, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func testStart(t *testing.T) {
	set, err := kubernetes.NewForConfig(startServer(t))
	if err != nil {
		t.Fatal(err)
	}
	maps := set.CoreV1().ConfigMaps("default")
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}
	if _, err := maps.Create(t.Context(), created, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	read, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || read.Data["k"] != "v" {
		t.Fatalf("%v, %v", read, err)
	}
}

// runTest runs the test without the command go, which compiles tests into a program of their own,
// and does not return.
func runTest() {
	matches := func(string, string) (bool, error) { return true, nil }
	testing.Main(matches, []testing.InternalTest{{Name: "Start", F: testStart}}, nil, nil)
}

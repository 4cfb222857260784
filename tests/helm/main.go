// Command helm is Helm, built from its Go modules, so that the tests know its version.
package main

import (
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"

	// Credentials of kubeconfigs are read as Helm reads them.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	// The manager of the fields that Helm applies; otherwise it is the name of the file.
	kube.ManagedFieldsManager = "helm"
	command, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := command.Execute(); err != nil {
		var failed cmd.CommandError
		if errors.As(err, &failed) {
			os.Exit(failed.ExitCode)
		}
		os.Exit(1)
	}
}

package main

import (
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// apiserverArg is the argument that selects the second process.
const apiserverArg = "serve-api"

// socketFD is the first file after stdin, stdout and stderr.
const socketFD = 3

// serve runs kube-apiserver on a socket that it inherits, until the process that started it
// has ended.
func serve(dir string, args []string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		// The parent, which would remove it, was killed.
		_ = os.RemoveAll(dir)
		os.Exit(0)
	}()
	if err := apiServer(args); err != nil {
		fmt.Fprintln(os.Stderr, "kube-apiserver:", err)
		os.Exit(1)
	}
}

// apiServer runs kube-apiserver like its own command, but with a socket, which a command line
// cannot pass.
//
// Source: k8s.io/kubernetes, cmd/kube-apiserver/app, NewAPIServerCommand.
func apiServer(args []string) error {
	run := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range run.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}

	listener, err := net.FileListener(os.NewFile(socketFD, "socket"))
	if err != nil {
		return err
	}
	address := listener.Addr().(*net.TCPAddr)
	run.SecureServing.Listener = listener
	run.SecureServing.BindAddress = address.IP
	run.SecureServing.BindPort = address.Port
	run.SecureServing.ExternalAddress = address.IP

	components := run.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := components.Set(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	gates := components.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(run.Logs, gates); err != nil {
		return err
	}
	ctx := genericapiserver.SetupSignalContext()
	completed, err := run.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return utilerrors.NewAggregate(errs)
	}
	gates.(featuregate.MutableFeatureGate).AddMetrics()
	components.AddMetrics()
	return app.Run(ctx, completed)
}

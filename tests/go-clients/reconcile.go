package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

type reconciler func(context.Context, ctrl.Request) (ctrl.Result, error)

func (f reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return f(ctx, request)
}

// nothing handles events by doing nothing: only that they come matters.
func nothing() handler.EventHandler { return handler.Funcs{} }

package main

import (
	"context"
	"strconv"

	"github.com/grafana/grafana-app-sdk/operator"
	"github.com/grafana/grafana-app-sdk/resource"
	"github.com/windlass-rs/windlass/bench/peers/child"
)

// offered is an informer whose objects are created in this process.
type offered struct {
	ctx     context.Context
	started chan struct{}
	told    operator.ResourceWatcher
	objects []resource.Object
}

// namespaces is the number of namespaces of the objects, as in bench/src/queue.rs.
const namespaces = 100

// startRetries starts a controller whose reconciler requests retries.
func startRetries(ctx context.Context, count int, call child.Call) (child.Queue, error) {
	informer := &offered{
		ctx:     ctx,
		started: make(chan struct{}),
		objects: make([]resource.Object, count),
	}
	for index := range informer.objects {
		informer.objects[index] = object(index, 0)
	}
	controller := operator.NewInformerController(operator.DefaultInformerControllerConfig())
	reconciler := &operator.SimpleReconciler{
		ReconcileFunc: func(_ context.Context, request operator.ReconcileRequest) (operator.ReconcileResult, error) {
			index, err := strconv.Atoi(request.Object.GetName()[len("config-"):])
			if err != nil {
				return operator.ReconcileResult{}, err
			}
			if after := call(index); after > 0 {
				return operator.ReconcileResult{RequeueAfter: &after}, nil
			}
			return operator.ReconcileResult{}, nil
		},
	}
	if err := add(controller, configMaps, informer, reconciler); err != nil {
		return nil, err
	}
	go func() { _ = controller.Run(ctx) }()
	<-informer.started
	return informer, nil
}

// OfferAll delivers an update of each object.
func (o *offered) OfferAll() {
	for index, old := range o.objects {
		// With a new generation: otherwise the default policy would not cancel the pending
		// retry.
		o.objects[index] = object(index, old.GetGeneration()+1)
		_ = o.told.Update(o.ctx, old, o.objects[index])
	}
}

// Run implements operator.Informer.
func (o *offered) Run(ctx context.Context) error {
	close(o.started)
	<-ctx.Done()
	return nil
}

// WaitForSync implements operator.Informer.
func (o *offered) WaitForSync(context.Context) error {
	return nil
}

// AddEventHandler implements operator.Informer.
func (o *offered) AddEventHandler(handler operator.ResourceWatcher) error {
	o.told = handler
	return nil
}

// object is as small as possible.
func object(index int, generation int64) resource.Object {
	object := new(configMap)
	object.Name = "config-" + strconv.Itoa(index)
	object.Namespace = "namespace-" + strconv.Itoa(index%namespaces)
	object.ResourceVersion = strconv.FormatInt(generation+1, 10)
	object.Generation = generation
	object.UID = "00000000-0000-4000-8000-000000000000"
	return object
}

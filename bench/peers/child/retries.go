package child

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Call handles the object with this index. It returns the delay of a retry, or zero for none.
type Call func(index int) time.Duration

// Queue is the queue of a contender, for objects that are in its store.
type Queue interface {
	// OfferAll queues an event for each object.
	OfferAll()
}

// Start starts a queue with this number of objects.
type Start func(ctx context.Context, count int, call Call) (Queue, error)

// again makes handlers request a retry, with a different delay for each object.
type again struct {
	after, within time.Duration
}

// handler counts its calls, as in bench/src/queue/handler.rs.
type handler struct {
	left atomic.Int64
	all  chan struct{}
	does atomic.Pointer[again]
	// due is the due time of each object's retry, or zero.
	due []atomic.Uint64
	// closed makes calls wait until it is opened.
	closed atomic.Pointer[chan struct{}]

	lock sync.Mutex
	late []uint64
}

// retries measures retries as in bench/src/queue.rs: scheduling and cancelling one, the memory of a
// pending one, and the delay after the due time.
func retries(ctx context.Context, count int, start Start) (numbers, error) {
	handler := newHandler(count)
	queue, err := start(ctx, count, handler.call)
	if err != nil {
		return nil, err
	}
	measured := numbers{}
	far := &again{
		// These retries are never due during a run.
		after:  100_000 * time.Second,
		within: 1_000 * time.Second,
	}
	before := now()
	var costs []float64
	// A warm-up round, a round without retries, a round that schedules them, and a round that
	// cancels them.
	for _, does := range []*again{nil, nil, far, nil} {
		costs = append(costs, handler.round(queue, count, does))
		if does == far {
			before.growth(count, measured, 0)
		}
	}
	measured["requeue_us"] = costs[2] + costs[3]
	measured["set_cancel_us"] = costs[2] + costs[3] - 2*costs[1]
	soon := &again{
		// Late enough that all are scheduled before, even on a busy machine.
		after:  time.Duration(costs[2]*float64(count)*5)*time.Microsecond + time.Second/2,
		within: time.Duration(20*count) * time.Microsecond,
	}
	handler.expect(2*count, soon)
	queue.OfferAll()
	<-handler.all
	handler.lateness(measured)
	keep(queue)
	return measured, nil
}

// reconciles measures empty reconciles as in bench/src/queue.rs: the cost of each, and the memory of a
// waiting key.
func reconciles(ctx context.Context, count int, start Start) (numbers, error) {
	// Enough reconciles for a stable time on a busy machine.
	const enough = 200_000
	handler := newHandler(count)
	queue, err := start(ctx, count, handler.call)
	if err != nil {
		return nil, err
	}
	idle()
	// The memory of a waiting key is measured in the first round, because later rounds reuse it.
	measured := numbers{}
	handler.waiting(queue, count, measured)
	waiting := measured["settled_bytes"]
	rounds := min(max(enough/count, 1), 10)
	var offered, drained, allocations float64
	for range rounds {
		offer, drain := handler.waiting(queue, count, measured)
		offered += offer["cpu_us"]
		drained += drain["cpu_us"]
		allocations += offer["allocations"] + drain["allocations"]
	}
	each := 1 / float64(rounds)
	measured["offer_us"] = offered * each
	measured["drain_us"] = drained * each
	measured["cpu_us"] = (offered + drained) * each
	measured["per_second"] = 1e6 / measured["cpu_us"]
	measured["allocations"] = allocations * each
	measured["settled_bytes"] = waiting
	keep(queue)
	return measured, nil
}

// waiting queues each object while calls wait, and then lets them continue. It returns the costs of
// both, and records the memory of a waiting key.
func (h *handler) waiting(queue Queue, count int, measured numbers) (offer, drain numbers) {
	offer, drain = numbers{}, numbers{}
	gate := make(chan struct{})
	h.expect(count, nil)
	h.closed.Store(&gate)
	begun := now()
	queue.OfferAll()
	idle()
	begun.cost(count, offer)
	begun.growth(count, measured, 0)
	begun = now()
	h.closed.Store(nil)
	close(gate)
	<-h.all
	begun.cost(count, drain)
	idle()
	return offer, drain
}

func newHandler(count int) *handler {
	return &handler{
		all:  make(chan struct{}, 1),
		due:  make([]atomic.Uint64, count),
		late: make([]uint64, 0, count),
	}
}

// round calls the handler of each object once, and returns the cost of one call.
func (h *handler) round(queue Queue, count int, does *again) float64 {
	h.expect(count, does)
	spent := numbers{}
	begun := now()
	queue.OfferAll()
	<-h.all
	idle()
	begun.cost(count, spent)
	return spent["cpu_us"]
}

// expect sets the number of expected calls and their result.
func (h *handler) expect(calls int, does *again) {
	h.does.Store(does)
	h.left.Store(int64(calls))
}

func (h *handler) call(index int) time.Duration {
	if gate := h.closed.Load(); gate != nil {
		<-*gate
	}
	after := h.after(index)
	if h.left.Add(-1) == 0 {
		h.all <- struct{}{}
	}
	return after
}

func (h *handler) after(index int) time.Duration {
	does := h.does.Load()
	if does == nil {
		return 0
	}
	if was := h.due[index].Swap(0); was > 0 && was <= monotonic() {
		h.lock.Lock()
		h.late = append(h.late, monotonic()-was)
		h.lock.Unlock()
		return 0
	}
	// Evenly distributed in a scrambled order, by the golden ratio.
	part := float64(uint64(index)*0x9E37_79B9_7F4A_7C15>>40) / (1 << 24)
	after := does.after + time.Duration(float64(does.within)*part)
	h.due[index].Store(monotonic() + uint64(after))
	return after
}

// lateness records the delays of retries after their due times.
func (h *handler) lateness(measured numbers) {
	h.lock.Lock()
	defer h.lock.Unlock()
	note(h.late, measured, "p50_us", "p99_us")
}

// note records the p50 and p99 of the delays.
func note(late []uint64, measured numbers, half, nearlyAll string) {
	if len(late) == 0 {
		return
	}
	slices.Sort(late)
	last := len(late) - 1
	measured[half] = float64(late[last*500/1000]) / 1e3
	measured[nearlyAll] = float64(late[last*990/1000]) / 1e3
}

// idle waits until the process is idle.
func idle() {
	const (
		// The time between two checks, and the CPU time below which the process is idle.
		while   = 20 * time.Millisecond
		nothing = 500.0
	)
	for {
		spent := numbers{}
		begun := glance()
		time.Sleep(while)
		begun.cost(1, spent)
		if spent["cpu_us"] < nothing {
			return
		}
	}
}

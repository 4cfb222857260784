package child

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Call is what a handler does for the object of this number. It returns after how long it is
// to be called again; zero if it is not.
type Call func(index int) time.Duration

// Queue is what a contender has to call handlers with, for objects that are in its store.
type Queue interface {
	// OfferAll tells of something new in each object.
	OfferAll()
}

// again is that a handler asks to be called again, after some time that is another for each
// object.
type again struct {
	after, within time.Duration
}

// handler counts its calls, as in bench/src/queue/handler.rs.
type handler struct {
	left atomic.Int64
	all  chan struct{}
	does atomic.Pointer[again]
	// due is when each object is to be called again; zero if it is not.
	due []atomic.Uint64

	lock sync.Mutex
	late []uint64
}

// retries is calls that are to be made again later, as in bench/src/queue.rs: what it costs to
// have one pending, to make it needless, and how late it is made.
func retries(
	ctx context.Context,
	count int,
	start func(context.Context, int, Call) (Queue, error),
) (numbers, error) {
	handler := &handler{
		all:  make(chan struct{}, 1),
		due:  make([]atomic.Uint64, count),
		late: make([]uint64, 0, count),
	}
	queue, err := start(ctx, count, handler.call)
	if err != nil {
		return nil, err
	}
	measured := numbers{}
	far := &again{
		// Nothing of it comes due here.
		after:  100_000 * time.Second,
		within: 1_000 * time.Second,
	}
	before := now()
	var costs []float64
	// The first round is to warm up; then reconciles that leave nothing, that set, and that
	// cancel what was set.
	for _, does := range []*again{nil, nil, far, nil} {
		costs = append(costs, handler.round(queue, count, does))
		if does == far {
			before.growth(count, measured, 0)
		}
	}
	measured["set_cancel_us"] = costs[2] + costs[3] - 2*costs[1]
	soon := &again{
		// Late enough that all have been set, also where other work takes most of the time.
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

// round calls the handler of each object once, and says what one of these costs.
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

// expect expects so many calls, to do this.
func (h *handler) expect(calls int, does *again) {
	h.does.Store(does)
	h.left.Store(int64(calls))
}

func (h *handler) call(index int) time.Duration {
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
	// Spread evenly, and in no order: by the golden ratio.
	part := float64(uint64(index)*0x9E37_79B9_7F4A_7C15>>40) / (1 << 24)
	after := does.after + time.Duration(float64(does.within)*part)
	h.due[index].Store(monotonic() + uint64(after))
	return after
}

// lateness notes how late the calls were that were made again.
func (h *handler) lateness(measured numbers) {
	h.lock.Lock()
	defer h.lock.Unlock()
	note(h.late, measured, "p50_us", "p99_us")
}

// note notes how late half were, and 99 of 100.
func note(late []uint64, measured numbers, half, nearlyAll string) {
	if len(late) == 0 {
		return
	}
	slices.Sort(late)
	last := len(late) - 1
	measured[half] = float64(late[last*500/1000]) / 1e3
	measured[nearlyAll] = float64(late[last*990/1000]) / 1e3
}

// idle waits until there is nothing to do.
func idle() {
	const (
		// Long enough to see that nothing happens, and a share of it that is nothing.
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

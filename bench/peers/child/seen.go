package child

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// firstVersion is the version of the first object, as in bench/src/objects.rs.
const firstVersion = 1_000_000_000

// sent is the annotation with the time at which an event was sent.
const sent = "bench/sent"

// Seen has the counts of the handlers of one child, as in bench/src/seen.rs.
type Seen struct {
	calls atomic.Int64
	// An object is done when it is seen with at least this version.
	wanted   atomic.Uint64
	finished []atomic.Bool
	left     atomic.Int64
	complete chan struct{}

	// apart is the disturbing object, which is not counted; hang is whether its handler never
	// returns.
	apart atomic.Int64
	hang  atomic.Bool

	lock sync.Mutex
	late []uint64
}

// Object has the fields of an object that a handler reads.
type Object interface {
	GetName() string
	GetResourceVersion() string
	GetAnnotations() map[string]string
}

func newSeen(count int) *Seen {
	seen := &Seen{
		finished: make([]atomic.Bool, count),
		complete: make(chan struct{}, 1),
		late:     make([]uint64, 0, 1<<16),
	}
	seen.left.Store(int64(count))
	seen.apart.Store(-1)
	return seen
}

// Object records a call of a handler.
func (s *Seen) Object(object Object) {
	s.calls.Add(1)
	index, known := indexOf(object.GetName())
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if !known || err != nil || index >= len(s.finished) || int64(index) == s.apart.Load() {
		return
	}
	wanted := s.wanted.Load()
	if wanted > 0 {
		// An object of the first list has no time of sending.
		if then, _ := strconv.ParseUint(object.GetAnnotations()[sent], 10, 64); then > 0 {
			late := monotonic() - then
			s.lock.Lock()
			s.late = append(s.late, late)
			s.lock.Unlock()
		}
	}
	if version >= wanted && !s.finished[index].Swap(true) && s.left.Add(-1) == 0 {
		select {
		case s.complete <- struct{}{}:
		default:
		}
	}
}

// Hangs returns whether the handler of this object must hang.
func (s *Seen) Hangs(name string) bool {
	if !s.hang.Load() {
		return false
	}
	index, known := indexOf(name)
	return known && int64(index) == s.apart.Load()
}

// All waits until every object was seen with the expected version, and returns whether it was.
func (s *Seen) All(patience time.Duration) bool {
	timeout := time.After(patience)
	for s.left.Load() > 0 {
		select {
		case <-s.complete:
		case <-timeout:
			return false
		}
	}
	return true
}

// want expects count objects with at least the version wanted.
func (s *Seen) want(wanted uint64, count int) {
	for index := range s.finished {
		s.finished[index].Store(false)
	}
	s.left.Store(int64(count))
	s.wanted.Store(wanted)
	s.calls.Store(0)
	s.lock.Lock()
	s.late = s.late[:0]
	s.lock.Unlock()
}

func (s *Seen) done(objects int) int {
	return objects - int(s.left.Load())
}

// lateness records the delays of the calls.
func (s *Seen) lateness(measured numbers, half, nearlyAll string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	note(s.late, measured, half, nearlyAll)
}

// updateVersion is the version of an update, as in bench/src/server.rs.
func updateVersion(count, event int) uint64 {
	return uint64(firstVersion + 2*count + event)
}

// indexOf returns the index of an object, from its name.
func indexOf(name string) (int, bool) {
	index, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return index, err == nil
}

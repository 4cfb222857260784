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

// sent is the annotation that says when an event was sent.
const sent = "bench/sent"

// Seen is what the handlers of one child saw, as in bench/src/seen.rs.
type Seen struct {
	calls atomic.Int64
	// An object is done once it is seen in a version from this one on.
	wanted   atomic.Uint64
	finished []atomic.Bool
	left     atomic.Int64
	complete chan struct{}

	// apart is the object that is not looked at, because it is trouble; hang is whether
	// its handler never returns.
	apart atomic.Int64
	hang  atomic.Bool

	lock sync.Mutex
	late []uint64
}

// Object is what a handler looks at.
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

// Object notes that a handler was entered with it.
func (s *Seen) Object(object Object) {
	s.calls.Add(1)
	index, known := indexOf(object.GetName())
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if !known || err != nil || index >= len(s.finished) || int64(index) == s.apart.Load() {
		return
	}
	wanted := s.wanted.Load()
	if wanted > 0 {
		// An object that was there from the start was sent at no time.
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

// Hangs is whether the handler of this object never returns.
func (s *Seen) Hangs(name string) bool {
	if !s.hang.Load() {
		return false
	}
	index, known := indexOf(name)
	return known && int64(index) == s.apart.Load()
}

// All waits until every object was seen in the version that is wanted, and says whether it was.
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

// want wants every object again, in a version from wanted on; count of them.
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

// lateness notes how late the calls were.
func (s *Seen) lateness(measured numbers, half, nearlyAll string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	note(s.late, measured, half, nearlyAll)
}

// updateVersion is the version of an update, as in bench/src/server.rs.
func updateVersion(count, event int) uint64 {
	return uint64(firstVersion + 2*count + event)
}

// indexOf is the number of an object, from its name.
func indexOf(name string) (int, bool) {
	index, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return index, err == nil
}

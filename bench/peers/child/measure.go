package child

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// numbers is what a child measured, by what it is.
type numbers map[string]float64

// moment is a moment, by all that is measured.
type moment struct {
	wall, cpu    uint64
	heap         uint64
	mallocs      uint64
	residentKept uint64
}

// now is a moment, after a collection.
func now() moment {
	runtime.GC()
	return glance()
}

// glance is a moment as it is.
func glance() moment {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return moment{
		heap:         stats.HeapAlloc,
		mallocs:      stats.Mallocs,
		residentKept: status("VmRSS:"),
		cpu:          clock(unix.CLOCK_PROCESS_CPUTIME_ID),
		wall:         monotonic(),
	}
}

// cost notes what the time since then has cost, for each of count things.
func (m moment) cost(count int, measured numbers) {
	wall, cpu := monotonic(), clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	measured["cpu_us"] = float64(cpu-m.cpu) / 1e3 / float64(count)
	measured["wall_us"] = float64(wall-m.wall) / 1e3 / float64(count)
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	measured["allocations"] = float64(stats.Mallocs-m.mallocs) / float64(count)
}

// growth notes how many bytes more there are than then, after a collection, and were at most.
func (m moment) growth(count int, measured numbers, most uint64) {
	m.residence(count, measured)
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	measured["settled_bytes"] = since(stats.HeapAlloc, m.heap) / float64(count)
	measured["peak_bytes"] = since(max(most, stats.HeapAlloc), m.heap) / float64(count)
}

// residence notes how many bytes of memory more were resident at most than then.
func (m moment) residence(count int, measured numbers) {
	measured["rss_bytes"] = since(status("VmHWM:"), m.residentKept) / float64(count)
}

func since(now, then uint64) float64 {
	return max(float64(now)-float64(then), 0)
}

// memory looks at the heap all the time: what lives, and what is not collected yet.
type memory struct {
	peak atomic.Uint64
}

func watchMemory() *memory {
	memory := new(memory)
	go func() {
		samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			metrics.Read(samples)
			heap := samples[0].Value.Uint64()
			if heap > memory.peak.Load() {
				memory.peak.Store(heap)
			}
			// Often enough to see each cycle of a heap that grows, and seldom enough not
			// to be what is measured: it takes less than a thousandth of the time.
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return memory
}

func (m *memory) most() uint64 {
	return m.peak.Load()
}

func (m *memory) forget() {
	m.peak.Store(0)
}

// keep holds on to what is measured until the end.
func keep(kept any) {
	runtime.KeepAlive(kept)
}

// monotonic is nanoseconds of the clock that all processes share.
func monotonic() uint64 {
	return clock(unix.CLOCK_MONOTONIC)
}

func clock(which int32) uint64 {
	var time unix.Timespec
	if err := unix.ClockGettime(which, &time); err != nil {
		return 0
	}
	return uint64(time.Nano())
}

// status is a line of what Linux knows about this process, in bytes; zero elsewhere.
func status(line string) uint64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), line)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	kilobytes, _ := strconv.ParseUint(words[0], 10, 64)
	return kilobytes * 1024
}

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

// numbers are the measurements of a child, by name.
type numbers map[string]float64

// moment is the state of all meters at one time.
type moment struct {
	wall, cpu    uint64
	heap         uint64
	mallocs      uint64
	residentKept uint64
}

// now reads all meters after a garbage collection.
func now() moment {
	runtime.GC()
	return glance()
}

// glance reads all meters without a garbage collection.
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

// cost records the cost since then, divided by count.
func (m moment) cost(count int, measured numbers) {
	wall, cpu := monotonic(), clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	measured["cpu_us"] = float64(cpu-m.cpu) / 1e3 / float64(count)
	measured["wall_us"] = float64(wall-m.wall) / 1e3 / float64(count)
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	measured["allocations"] = float64(stats.Mallocs-m.mallocs) / float64(count)
}

// growth records the growth of the heap since then, after a garbage collection, and its peak.
func (m moment) growth(count int, measured numbers, most uint64) {
	m.residence(count, measured)
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	measured["settled_bytes"] = since(stats.HeapAlloc, m.heap) / float64(count)
	measured["peak_bytes"] = since(max(most, stats.HeapAlloc), m.heap) / float64(count)
}

// residence records the growth of the peak of resident memory since then.
func (m moment) residence(count int, measured numbers) {
	measured["rss_bytes"] = since(status("VmHWM:"), m.residentKept) / float64(count)
}

func since(now, then uint64) float64 {
	return max(float64(now)-float64(then), 0)
}

// memory samples the size of the heap, including memory that is not collected yet.
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
			// Often enough for each cycle of a growing heap. It takes less than a
			// thousandth of the time.
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

// keep keeps the measured state alive until the end.
func keep(kept any) {
	runtime.KeepAlive(kept)
}

// monotonic returns the time of the monotonic clock, which all processes share, in nanoseconds.
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

// status returns a line of /proc/self/status in bytes, or zero on other systems.
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

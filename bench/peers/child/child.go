// Package child runs contenders in Go as child processes of the benchmark: a child gets its job as
// JSON, runs it, and prints the measurements.
//
// bench/src/child.rs defines the tasks and what is measured; this package does the same. It does
// not contain the contenders and does not import Kubernetes modules, so that each contender is built
// with the modules that it requires.
package child

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Contender is the measured program.
type Contender struct {
	// Follow lists and watches a kind in the background, and returns when the store is filled.
	Follow func(context.Context, Job, *Seen) (Following, error)
	// Queue starts the queue of the contender; nil if it is not measured.
	Queue func(ctx context.Context, count int, call Call) (Queue, error)
}

// Job is the job of a child process.
type Job struct {
	Contender string `json:"contender"`
	Task      Task   `json:"task"`
	Keeps     string `json:"keeps"`
	Kind      string `json:"kind"`
	Count     int    `json:"count"`
	Lists     string `json:"lists"`
	URL       string `json:"url"`
}

// Task is the measured task: its name, and for most tasks the number of updates, in total and per
// second.
type Task struct {
	Name   string
	Events int    `json:"events"`
	Rate   int    `json:"rate"`
	By     string `json:"by"`
}

// Following is a contender that lists and watches a kind in the background.
type Following struct {
	// Relisted returns when the next relist is complete.
	Relisted func()
	// Read reads each object by name; nil if it is not measured.
	Read func()
	// Kept keeps the state alive while memory is measured.
	Kept any
}

// quiet is enough time for pending work to finish.
const quiet = 200 * time.Millisecond

// Main runs the command line with the contender that it names.
func Main(contenders map[string]Contender) {
	if len(os.Args) != 3 || os.Args[1] != "child" {
		fmt.Fprintf(os.Stderr, "usage: %s child JOB\n", os.Args[0])
		os.Exit(2)
	}
	measured, err := run([]byte(os.Args[2]), contenders)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"numbers": measured})
}

func run(text []byte, contenders map[string]Contender) (numbers, error) {
	var job Job
	if err := json.Unmarshal(text, &job); err != nil {
		return nil, err
	}
	contender, known := contenders[job.Contender]
	if !known {
		return nil, fmt.Errorf("this program has no contender %q", job.Contender)
	}
	// It must be set before the first client is created.
	streamed := "false"
	if job.Lists == "Streamed" {
		streamed = "true"
	}
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", streamed); err != nil {
		return nil, err
	}
	ctx := context.Background()
	if contender.Queue != nil {
		switch job.Task.Name {
		case "Reconciles":
			return reconciles(ctx, job.Count, contender.Queue)
		case "Retries":
			return retries(ctx, job.Count, contender.Queue)
		}
	}
	return job.measure(ctx, contender)
}

// Handles returns whether the task uses the handlers of a controller, not a subscriber of a store.
func (j Job) Handles() bool {
	switch j.Task.Name {
	case "Start", "Handle", "Isolation", "Disturbed":
		return true
	default:
		return false
	}
}

// Listens returns whether a handler receives the events of the store.
func (j Job) Listens() bool {
	return j.Task.Name != "Sync"
}

func (j Job) measure(ctx context.Context, contender Contender) (numbers, error) {
	// One-time allocations of the first request do not count for the contender.
	if answer, err := http.Get(j.URL + "/version"); err == nil {
		_ = answer.Body.Close()
	}
	time.Sleep(quiet)

	measured := numbers{}
	seen := newSeen(j.Count)
	watcher := watchMemory()
	nothing := now()
	following, err := contender.Follow(ctx, j, seen)
	if err != nil {
		return nil, err
	}
	nothing.cost(j.Count, measured)
	time.Sleep(quiet)
	nothing.growth(j.Count, measured, watcher.most())

	switch j.Task.Name {
	case "Sync":
	case "Read":
		if following.Read == nil {
			return nil, fmt.Errorf("%s has no reads", j.Contender)
		}
		for _, name := range []string{"first_us", "second_us", "later_us"} {
			spent, begun := numbers{}, glance()
			following.Read()
			begun.cost(j.Count, spent)
			measured[name] = spent["cpu_us"]
		}
	case "Start":
		measured["calls"] = float64(seen.calls.Load())
	case "Relist":
		watcher.forget()
		seen.want(0, j.Count)
		again := now()
		if err := j.post("/bench/expire"); err != nil {
			return nil, err
		}
		following.Relisted()
		again.cost(j.Count, measured)
		time.Sleep(quiet)
		measured["calls"] = float64(seen.calls.Load())
		most := float64(watcher.most()) - float64(nothing.heap)
		measured["relist_peak_bytes"] = max(most, 0) / float64(j.Count)
	case "Stream", "Handle", "Isolation":
		if err := j.updates(seen, measured); err != nil {
			return nil, err
		}
		nothing.residence(j.Count, measured)
	case "Disturbed":
		if err := j.disturbed(seen, measured); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%s does not support the task %q", j.Contender, j.Task.Name)
	}
	keep(following.Kept)
	return measured, nil
}

// updates measures updates of the objects, one after the other.
func (j Job) updates(seen *Seen, measured numbers) error {
	events, rate := j.Task.Events, j.Task.Rate
	objects := min(events, j.Count)
	limit := 10 * time.Minute
	isolation := j.Task.Name == "Isolation"
	if isolation {
		limit = j.limit()
	}
	seen.want(updateVersion(j.Count, events-objects), objects)
	begun := now()
	if err := j.post(fmt.Sprintf("/bench/go?events=%d&rate=%d", events, rate)); err != nil {
		return err
	}
	if !seen.All(limit) && !isolation {
		return fmt.Errorf("some events did not arrive")
	}
	begun.cost(events, measured)
	measured["calls"] = float64(seen.calls.Load())
	measured["delivered"] = float64(seen.done(objects))
	seen.lateness(measured, "p50_us", "p99_us")
	return nil
}

// disturbed measures an undisturbed run, and then a run with a disturbing object.
func (j Job) disturbed(seen *Seen, measured numbers) error {
	events, rate := j.Task.Events, j.Task.Rate
	limit := j.limit()
	seen.apart.Store(int64(j.Count - 1))
	seen.want(updateVersion(j.Count, 0), events)
	if err := j.post(fmt.Sprintf("/bench/go?events=%d&rate=%d", events, rate)); err != nil {
		return err
	}
	if !seen.All(limit) {
		return fmt.Errorf("some events of the undisturbed run did not arrive")
	}
	seen.lateness(measured, "quiet_p50_us", "quiet_p99_us")

	seen.want(updateVersion(j.Count, events), events)
	seen.hang.Store(j.Task.By == "Hanging")
	hot := hotRate(j.Task.By)
	if err := j.post(fmt.Sprintf("/bench/go?events=%d&rate=%d&hot=%d", events, rate, hot)); err != nil {
		return err
	}
	_ = seen.All(limit)
	measured["delivered"] = float64(seen.done(events))
	// If more than one in a hundred never arrived, there is no p99.
	if seen.done(events)*100 < events*99 {
		return nil
	}
	seen.lateness(measured, "p50_us", "p99_us")
	if quiet := measured["quiet_p99_us"]; quiet > 0 {
		measured["slowdown"] = measured["p99_us"] / quiet
	}
	return nil
}

// limit is the time of the updates plus two seconds.
func (j Job) limit() time.Duration {
	return 2*time.Second + time.Duration(j.Task.Events/max(j.Task.Rate, 1))*time.Second
}

// hotRate is the number of updates of the disturbing object per second.
func hotRate(by string) int {
	if by == "Hot" {
		return 1000
	}
	return 1
}

func (j Job) post(path string) error {
	answer, err := http.Post(j.URL+path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return nil
}

// UnmarshalJSON reads "Sync" and {"Stream":{"events":1000,"rate":0}}.
func (t *Task) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &t.Name) == nil {
		return nil
	}
	type fields Task
	var tagged map[string]fields
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	for name, fields := range tagged {
		*t = Task(fields)
		t.Name = name
	}
	return nil
}

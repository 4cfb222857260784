// Command peers is those of Windlass' peers that are written in Go, each as a child of the
// benchmark: it is told what to do as JSON, does it in a process of its own, and prints what
// it measured.
//
// bench/src/child.rs is the other side of this: what a task is and between which two moments
// it is measured stands there, and is the same here.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// job is what a child is told to do.
type job struct {
	Contender string `json:"contender"`
	Task      task   `json:"task"`
	Keeps     string `json:"keeps"`
	Kind      string `json:"kind"`
	Count     int    `json:"count"`
	Lists     string `json:"lists"`
	URL       string `json:"url"`
}

// task is what is measured: a name, and for most of them how many updates, and how many of
// them a second.
type task struct {
	Name   string
	Events int    `json:"events"`
	Rate   int    `json:"rate"`
	By     string `json:"by"`
}

// following is a contender that follows a kind, in the background.
type following struct {
	// relisted returns when the next whole picture has been taken.
	relisted func()
	// kept is what must not be collected while memory is measured.
	kept any
}

// quiet is long enough that what was begun is done.
const quiet = 200 * time.Millisecond

func main() {
	if len(os.Args) != 3 || os.Args[1] != "child" {
		fmt.Fprintln(os.Stderr, "usage: peers child JOB")
		os.Exit(2)
	}
	measured, err := run([]byte(os.Args[2]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"numbers": measured})
}

func run(text []byte) (numbers, error) {
	var job job
	if err := json.Unmarshal(text, &job); err != nil {
		return nil, err
	}
	// It must be set before the first client is made.
	streamed := "false"
	if job.Lists == "Streamed" {
		streamed = "true"
	}
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", streamed); err != nil {
		return nil, err
	}
	ctrllog.SetLogger(logr.Discard())
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	return job.measure(context.Background())
}

func (j job) measure(ctx context.Context) (numbers, error) {
	// What is made once by the first request is not the contender's.
	if answer, err := http.Get(j.URL + "/version"); err == nil {
		_ = answer.Body.Close()
	}
	time.Sleep(quiet)

	measured := numbers{}
	seen := newSeen(j.Count)
	watcher := watchMemory()
	begun := now()
	following, err := j.follow(ctx, seen)
	if err != nil {
		return nil, err
	}
	begun.cost(j.Count, measured)
	time.Sleep(quiet)
	begun.growth(j.Count, measured, watcher.most())

	switch j.Task.Name {
	case "Sync":
	case "Start":
		measured["calls"] = float64(seen.calls.Load())
	case "Relist":
		watcher.forget()
		seen.want(0, j.Count)
		again := now()
		if err := j.post("/bench/expire"); err != nil {
			return nil, err
		}
		following.relisted()
		again.cost(j.Count, measured)
		time.Sleep(quiet)
		measured["calls"] = float64(seen.calls.Load())
		most := float64(watcher.most()) - float64(begun.heap)
		measured["relist_peak_bytes"] = max(most, 0) / float64(j.Count)
	case "Stream", "Handle":
		events := j.Task.Events
		objects := min(events, j.Count)
		seen.want(updateVersion(j.Count, events-objects), objects)
		again := now()
		if err := j.post(fmt.Sprintf("/bench/go?events=%d&rate=%d", events, j.Task.Rate)); err != nil {
			return nil, err
		}
		if !seen.all(10 * time.Minute) {
			return nil, fmt.Errorf("not every event came")
		}
		again.cost(events, measured)
		measured["calls"] = float64(seen.calls.Load())
		seen.lateness(measured, "p50_us", "p99_us")
	case "Disturbed":
		if err := j.disturbed(seen, measured); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("no peer in Go does %q", j.Task.Name)
	}
	keep(following.kept)
	return measured, nil
}

// disturbed is a quiet run, and the same beside one object that is trouble.
func (j job) disturbed(seen *seen, measured numbers) error {
	events, rate := j.Task.Events, j.Task.Rate
	patience := 2*time.Second + time.Duration(events/max(rate, 1))*time.Second
	seen.apart.Store(int64(j.Count - 1))
	seen.want(updateVersion(j.Count, 0), events)
	if err := j.post(fmt.Sprintf("/bench/go?events=%d&rate=%d", events, rate)); err != nil {
		return err
	}
	if !seen.all(patience) {
		return fmt.Errorf("not every event of the quiet run came")
	}
	seen.lateness(measured, "quiet_p50_us", "quiet_p99_us")

	seen.want(updateVersion(j.Count, events), events)
	seen.hang.Store(j.Task.By == "Hanging")
	hot := hotRate(j.Task.By)
	if err := j.post(fmt.Sprintf("/bench/go?events=%d&rate=%d&hot=%d", events, rate, hot)); err != nil {
		return err
	}
	_ = seen.all(patience)
	measured["delivered"] = float64(seen.done(events))
	// Where one of a hundred never came, there is no such number.
	if seen.done(events)*100 < events*99 {
		return nil
	}
	seen.lateness(measured, "p50_us", "p99_us")
	if quiet := measured["quiet_p99_us"]; quiet > 0 {
		measured["slowdown"] = measured["p99_us"] / quiet
	}
	return nil
}

// hotRate is how often the object that is trouble is updated.
func hotRate(by string) int {
	if by == "Hot" {
		return 1000
	}
	return 1
}

func (j job) follow(ctx context.Context, seen *seen) (following, error) {
	// As many requests a second as can be: a list of 200 pages is not what a limit is for.
	config := &rest.Config{Host: j.URL, QPS: -1}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	switch j.Contender {
	case "ClientGo":
		return j.clientGo(ctx, config, seen)
	case "ControllerRuntime":
		return j.controllerRuntime(ctx, config, seen)
	default:
		return following{}, fmt.Errorf("no peer in Go is called %q", j.Contender)
	}
}

func (j job) post(path string) error {
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
func (t *task) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &t.Name) == nil {
		return nil
	}
	type fields task
	var tagged map[string]fields
	if err := json.Unmarshal(text, &tagged); err != nil {
		return err
	}
	for name, fields := range tagged {
		*t = task(fields)
		t.Name = name
	}
	return nil
}

module github.com/windlass-rs/windlass/bench/peers/child

go 1.26.0

// The oldest that a peer asks for: it is not this that decides what a peer is built with.
require golang.org/x/sys v0.41.0

//! Fuzz targets: random changes of inputs from outside.
//!
//! Each target takes texts as a real client or server sends them, edits them at random, and
//! checks properties that hold for every input. `cargo test --test fuzz` runs each for a
//! second; `cargo xtask fuzz --minutes 5` runs each for five minutes and prints how often it
//! was executed. The inputs follow from a seed: the same seed makes the same sequence. Before them,
//! the inputs of `tests/fuzz/corpus` are checked, which failed once.
//!
//! A failing input is printed with its own seed. With that seed in `BOLERO_RANDOM_SEED` the target
//! checks this input first and shrinks it.

// What inputs are made of, a server that sends them, plain implementations to compare with, and the
// loop that checks inputs.
mod edits;
mod reference;
mod run;
mod scripted;

// From an API server to an informer.
mod decoding;
mod list_pages;
mod versions;
mod watch_lines;

// From clients to the embedded API server.
mod definitions;
mod free_patches;
mod pages;
mod patches;
mod protobuf;
mod pruning;
mod requests;
mod selectors;

// From clients to the admin server.
mod admin;

/// A test that checks random inputs of `$name`.
macro_rules! fuzz {
    ($name:ident) => {
        #[test]
        fn $name() {
            if run::is_replay() {
                bolero::check!()
                    .with_type::<$name::Input>()
                    .for_each($name::check);
            } else {
                run::run(stringify!($name), $name::check);
            }
        }
    };
}

mod targets {
    use super::{
        admin, decoding, definitions, free_patches, list_pages, pages, patches, protobuf, pruning,
        requests, run, selectors, versions, watch_lines,
    };

    fuzz!(watch_lines);
    fuzz!(list_pages);
    fuzz!(decoding);
    fuzz!(versions);
    fuzz!(requests);
    fuzz!(patches);
    fuzz!(free_patches);
    fuzz!(selectors);
    fuzz!(definitions);
    fuzz!(pruning);
    fuzz!(pages);
    fuzz!(protobuf);
    fuzz!(admin);
}

/// Runs `future` on a runtime of one thread whose clock is virtual.
fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

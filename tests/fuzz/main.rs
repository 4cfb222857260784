//! Fuzz targets: random changes of inputs from outside.
//!
//! Each target takes texts as a real client or server sends them, edits them at random, and
//! checks properties that hold for every input. `cargo test --test fuzz` runs each for a
//! second; `cargo xtask fuzz --minutes 5` runs each for five minutes and prints how often it
//! was executed. The inputs follow from a seed: the same seed makes the same sequence. Before them,
//! the texts in `tests/fuzz/corpus` are checked.
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
mod keyed;
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
    // Its inputs are not texts, so that it has no corpus.
    ($name:ident) => {
        fuzz!($name, |_| Vec::new());
    };
    ($name:ident, $kept:expr) => {
        #[test]
        fn $name() {
            if run::is_replay() {
                bolero::check!()
                    .with_type::<$name::Input>()
                    .for_each($name::check);
            } else {
                run::run(stringify!($name), $name::check, $kept);
            }
        }
    };
}

mod targets {
    use super::{
        admin, decoding, definitions, free_patches, keyed, list_pages, pages, patches, protobuf,
        pruning, requests, run, selectors, versions, watch_lines,
    };

    fuzz!(watch_lines, watch_lines::kept);
    fuzz!(list_pages, list_pages::kept);
    fuzz!(decoding, decoding::kept);
    fuzz!(versions);
    fuzz!(requests, requests::kept);
    fuzz!(patches, patches::kept);
    fuzz!(free_patches);
    fuzz!(keyed);
    fuzz!(selectors, selectors::kept);
    fuzz!(definitions, definitions::kept);
    fuzz!(pruning);
    fuzz!(pages);
    fuzz!(protobuf, protobuf::kept);
    fuzz!(admin, admin::kept);
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

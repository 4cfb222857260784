//! Fuzz targets: what arrives from outside, changed in random ways.
//!
//! Each target takes texts as a real client or server sends them, edits them at random, and
//! checks properties that hold for every input. `cargo test --test fuzz` runs each for a
//! second; `cargo xtask fuzz --minutes 5` runs each for five minutes and prints how often it
//! was executed. An input that fails is printed shrunk, with the seed that finds it again.
//! `cargo bolero test <target>` runs one with coverage guidance.

use std::sync::atomic::{AtomicU64, Ordering};

// What inputs are made of, and a server that sends them.
mod edits;
mod scripted;

// From an API server to an informer.
mod decoding;
mod list_pages;
mod versions;
mod watch_lines;

// From clients to the embedded API server.
mod definitions;
mod patches;
mod protobuf;
mod requests;
mod selectors;

// From clients to the admin server.
mod admin;

/// A test that runs `target` for inputs that are made at random.
macro_rules! fuzz {
    ($name:ident) => {
        #[test]
        fn $name() {
            let executions = AtomicU64::new(0);
            bolero::check!()
                .with_type::<$name::Input>()
                .for_each(|input| {
                    executions.fetch_add(1, Ordering::Relaxed);
                    $name::check(input);
                });
            let executions = executions.into_inner();
            println!("fuzz {}: {executions} executions", stringify!($name));
        }
    };
}

mod targets {
    use super::{
        AtomicU64, Ordering, admin, decoding, definitions, list_pages, patches, protobuf, requests,
        selectors, versions, watch_lines,
    };

    fuzz!(watch_lines);
    fuzz!(list_pages);
    fuzz!(decoding);
    fuzz!(versions);
    fuzz!(requests);
    fuzz!(patches);
    fuzz!(selectors);
    fuzz!(definitions);
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

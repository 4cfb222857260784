//! Random histories of a level-triggered `Controller`: its informers lag, its calls write, and its
//! responses are lost.
//!
//! `WINDLASS_LEVEL_HISTORIES` sets how many are played, from `WINDLASS_FIRST`, and
//! `WINDLASS_LEVEL_HISTORY` replays one, with its log.

use std::env;

use crate::replay::quiet_panics;

mod play;
mod reconciler;
mod script;
mod server;

use self::{play::play, script::LevelScript};

/// The default of `WINDLASS_LEVEL_HISTORIES`.
const HISTORIES: u64 = 1_000;

#[test]
fn random_histories_of_a_controller_keep_all_rules() {
    quiet_panics();
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    if let Some(number) = number("WINDLASS_LEVEL_HISTORY") {
        let (log, ended) = play::record(&LevelScript::random(number));
        for (number, record) in log.iter().enumerate() {
            println!("{number:>4} {record}");
        }
        println!("{ended:?}");
        check(number);
        return;
    }
    let first = number("WINDLASS_FIRST").unwrap_or(0);
    let count = number("WINDLASS_LEVEL_HISTORIES").unwrap_or(HISTORIES);
    (first..first + count).for_each(check);
    println!("{count} histories");
}

/// Plays the history with this number. A failure is shown with the smallest script found.
#[track_caller]
fn check(number: u64) {
    let script = LevelScript::random(number);
    let Err(mut failed) = play(&script) else {
        return;
    };
    let name = failed.name().to_owned();
    let mut steps = script.steps.clone();
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        let smaller = LevelScript {
            steps: fewer.clone(),
            ..script.clone()
        };
        match play(&smaller) {
            Err(same) if same.name() == name => {
                (steps, failed, at) = (fewer, same, 0);
            }
            _ => at += 1,
        }
    }
    panic!(
        "level history {number}: {failed}\n{:?} {steps:?}\nreplay: WINDLASS_LEVEL_HISTORY={number} \
         cargo test -p windlass-model --test histories level",
        script.retry,
    );
}

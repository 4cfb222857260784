//! Plays histories, and prints a command that replays each failure.
//!
//! | variable | meaning |
//! |--|--|
//! | `WINDLASS_HISTORIES` | the number of histories with scripted sources, starting with `WINDLASS_FIRST` (0) |
//! | `WINDLASS_WRAPPED_HISTORIES` | the number of histories in which each handler has a finalizer, with the same start |
//! | `WINDLASS_SERVER_HISTORIES` | the number of histories with the embedded server, with the same start |
//! | `WINDLASS_HISTORY` | plays one history, given as a number or a script, and prints its log |
//! | `WINDLASS_SURVEY` | continues after a failure, and prints one history for each broken rule |
//! | `WINDLASS_PLAIN`, `WINDLASS_ONE_HANDLER`, `WINDLASS_ONE_INFORMER` | simplify the scripts |
//! | `WINDLASS_RESTORED` | plays only histories in which the server is restored from a backup |

use std::{collections::BTreeMap, env, panic, sync::Once};

use crate::{
    handler::PLANNED,
    play::{Failed, play, play_all, record},
    random,
    script::{Script, Step},
    shrink::shrink,
};

/// The default of `WINDLASS_HISTORIES`.
const HISTORIES: u64 = 2_000;

/// The default of `WINDLASS_WRAPPED_HISTORIES`.
const WRAPPED_HISTORIES: u64 = 1_000;

/// The default of `WINDLASS_SERVER_HISTORIES`.
const SERVER_HISTORIES: u64 = 200;

/// Planned panics are not printed.
pub(crate) fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&PLANNED) {
                before(info);
            }
        }));
    });
}

fn failure(script: Script, failed: Failed, number: Option<u64>) -> String {
    let (script, failed) = shrink(script, failed);
    let number = number
        .map(|it| format!("history {it}: "))
        .unwrap_or_default();
    format!(
        "{number}{failed}\nscript: {script}\nreplay: WINDLASS_HISTORY='{script}' \
         cargo test -p windlass-model --test histories\n"
    )
}

#[test]
fn random_histories_keep_all_rules() {
    if let Ok(text) = env::var("WINDLASS_HISTORY") {
        let script = match text.parse() {
            Ok(number) => random::script(number),
            Err(_) => text.parse().unwrap_or_else(|error| panic!("{error}")),
        };
        quiet_panics();
        replay(&script);
        return;
    }
    survey(
        set("WINDLASS_HISTORIES").unwrap_or(HISTORIES),
        random::script,
    );
}

/// Each handler has a finalizer. Fixed numbers, so that each run plays the same histories.
#[test]
fn random_histories_of_wrappers_keep_all_rules() {
    if env::var("WINDLASS_HISTORY").is_err() {
        let count = set("WINDLASS_WRAPPED_HISTORIES").unwrap_or(WRAPPED_HISTORIES);
        survey(count, random::wrapped_script);
    }
}

#[test]
fn random_histories_on_the_embedded_server_keep_all_rules() {
    let count = set("WINDLASS_SERVER_HISTORIES").unwrap_or(SERVER_HISTORIES);
    if env::var("WINDLASS_HISTORY").is_err() {
        survey(count, random::server_script);
    }
}

/// The number in an environment variable.
fn set(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Plays scripts, and fails with those that break a rule.
fn survey(count: u64, script_of: impl Fn(u64) -> Script) {
    quiet_panics();
    let first = set("WINDLASS_FIRST").unwrap_or(0);
    // Plays all histories, and prints one for each broken rule.
    let survey = env::var("WINDLASS_SURVEY").is_ok();
    let restored = env::var("WINDLASS_RESTORED").is_ok();
    let mut broken: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for number in first..first + count {
        let script = restricted(script_of(number));
        if restored && !script.steps.contains(&Step::Restore) {
            continue;
        }
        if survey {
            for failed in play_all(&script) {
                let name = failed.name().to_owned();
                let shown = broken.entry(name);
                let shown =
                    shown.or_insert_with(|| (0, failure(script.clone(), failed, Some(number))));
                shown.0 += 1;
            }
        } else if let Err(failed) = play(&script) {
            panic!("{}", failure(script, failed, Some(number)));
        }
    }
    println!("{count} histories");
    for (name, (times, shown)) in &broken {
        println!("=== {name}: {times} histories\n{shown}");
    }
    assert!(broken.is_empty(), "{} rules are broken", broken.len());
}

/// Simplifies a script as the environment variables say.
fn restricted(mut script: Script) -> Script {
    let set = |name: &str| env::var(name).is_ok();
    if set("WINDLASS_ONE_INFORMER") {
        script.informers.truncate(1);
        script
            .steps
            .retain(|it| !matches!(it, Step::AddInformer(_)));
    }
    if set("WINDLASS_ONE_HANDLER") {
        script.handlers.truncate(1);
    }
    if set("WINDLASS_PLAIN") {
        script.handlers.iter_mut().for_each(|it| it.wrapped = false);
        for step in &mut script.steps {
            if let Step::AddHandler(kind) = step {
                kind.wrapped = false;
            }
        }
    }
    script
}

fn replay(script: &Script) {
    // Printed first, so that it is visible if the engine hangs.
    println!("script: {script}");
    let (log, engine) = record(script);
    for (number, record) in log.iter().enumerate() {
        println!("{number:>4} {record}");
    }
    println!("{engine:?}");
    if let Err(failed) = play(script) {
        panic!("{}", failure(script.clone(), failed, None));
    }
}

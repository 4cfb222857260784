//! Plays histories, and prints those that fail so that one command replays them.

use std::{collections::BTreeMap, env, panic, sync::Once, time::Instant};

use crate::{
    handler::PLANNED,
    play::{Failed, play, play_all, record},
    random,
    script::Script,
    shrink::shrink,
};

/// How many histories are played, unless `WINDLASS_HISTORIES` says otherwise.
const HISTORIES: u64 = 10_000;

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
    quiet_panics();
    if let Ok(text) = env::var("WINDLASS_HISTORY") {
        let script = match text.parse() {
            Ok(number) => random::script(number),
            Err(_) => text.parse().unwrap_or_else(|error| panic!("{error}")),
        };
        replay(script);
        return;
    }
    let set = |name: &str| env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let count = set("WINDLASS_HISTORIES").unwrap_or(HISTORIES);
    let first = set("WINDLASS_FIRST").unwrap_or(0);
    // Reads the whole space, and shows one history for each rule that is broken.
    let survey = env::var("WINDLASS_SURVEY").is_ok();
    let began = Instant::now();
    let mut broken: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for number in first..first + count {
        let mut script = random::script(number);
        if env::var("WINDLASS_ONE_INFORMER").is_ok() {
            script.informers.truncate(1);
            script
                .steps
                .retain(|it| !matches!(it, crate::script::Step::AddInformer(_)));
        }
        if env::var("WINDLASS_PLAIN").is_ok() {
            for it in &mut script.handlers {
                it.wrapped = false;
            }
            for it in &mut script.steps {
                if let crate::script::Step::AddHandler(it) = it {
                    it.wrapped = false;
                }
            }
        }
        if env::var("WINDLASS_NO_RESTORE").is_ok() {
            script
                .steps
                .retain(|it| *it != crate::script::Step::Restore);
        }
        if env::var("WINDLASS_ONE_HANDLER").is_ok() {
            script.handlers.truncate(1);
        }
        let start = Instant::now();
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
        if start.elapsed().as_secs() > 5 {
            println!("slow: history {number} in {:.1?}", start.elapsed());
        }
    }
    println!("{count} histories in {:.1?}", began.elapsed());
    for (name, (times, shown)) in &broken {
        println!("=== {name}: {times} histories\n{shown}");
    }
    assert!(broken.is_empty(), "{} rules are broken", broken.len());
}

fn replay(script: Script) {
    // First, so that it is known if the engine does not come back.
    println!("script: {script}");
    let (log, engine) = record(&script);
    for (number, record) in log.iter().enumerate() {
        println!("{number:>4} {record}");
    }
    println!("{engine:?}");
    if let Err(failed) = play(&script) {
        panic!("{}", failure(script, failed, None));
    }
}

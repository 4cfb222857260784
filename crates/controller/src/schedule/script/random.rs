//! Random scripts: in any order of steps the contract holds.

use std::fmt;

use proptest::prelude::*;

use super::ScriptRunner;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// [`ScriptRunner`] asserts the contract at each step; here every step is possible.
    #[test]
    fn the_contract_holds_in_any_order_of_events(
        steps in prop::collection::vec(step(), 1..60),
        coalescing: bool,
        until_successor: bool,
    ) {
        let script: Vec<_> = steps.iter().map(ToString::to_string).collect();
        let mut play = ScriptRunner::coalescing(coalescing);
        if until_successor {
            play = play.until_successor();
        }
        play.run(&script.join(", "));
        play.run_out();
    }
}

fn step() -> impl Strategy<Value = Step> {
    let object = (0..4_u8, 1..3_u8);
    let name = || 0..4_u8;
    prop_oneof![
        8 => prop::collection::vec((0..5_usize, object), 1..4).prop_map(Step::Offer),
        8 => Just(Step::Take),
        2 => name().prop_map(|name| Step::End("done", name)),
        2 => name().prop_map(|name| Step::End("drop", name)),
        1 => name().prop_map(|name| Step::End("break", name)),
        1 => (name(), 0..3_u8, 0..9_u8).prop_map(|(name, handler, after)| {
            Step::Owe("half", name, handler, after)
        }),
        3 => (name(), 0..3_u8, 0..9_u8).prop_map(|(name, handler, after)| {
            Step::Owe("fail", name, handler, after)
        }),
        3 => (name(), 0..3_u8, 0..9_u8).prop_map(|(name, handler, after)| {
            Step::Owe("again", name, handler, after)
        }),
        3 => (0..9_u8).prop_map(Step::Wait),
        1 => (0..3_u8).prop_map(Step::Cancel),
        1 => (0..3_usize, any::<bool>()).prop_map(|(kind, open)| Step::Gate(kind, open)),
        1 => (1..3_usize).prop_map(Step::Purge),
    ]
}

/// One line of a random script.
#[derive(Clone)]
enum Step {
    /// Several at once: verbs, names and uids.
    Offer(Vec<(usize, (u8, u8))>),
    Take,
    End(&'static str, u8),
    Owe(&'static str, u8, u8, u8),
    Wait(u8),
    Cancel(u8),
    /// Opens or closes a kind, or all.
    Gate(usize, bool),
    Purge(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Two objects in each of two namespaces.
        const NAMES: [&str; 4] = ["x/a", "x/b", "y/c", "y/d"];
        /// All kinds, and those of the two namespaces.
        const KINDS: [&str; 3] = ["", " x", " y"];
        let name = |at: &u8| NAMES[usize::from(*at)];
        match self {
            Self::Offer(offers) => {
                let offers = offers.iter().map(|(verb, (at, uid))| {
                    let verb = ["create", "update", "delete", "resync", "first"][*verb];
                    format!("{verb} {}#{uid}", name(at))
                });
                f.write_str(&offers.collect::<Vec<_>>().join(" "))
            }
            Self::Take => f.write_str("take"),
            Self::End(verb, at) => write!(f, "{verb} {}", name(at)),
            Self::Owe(verb, at, handler, after) => {
                write!(f, "{verb} {} {handler} {after}", name(at))
            }
            Self::Wait(seconds) => write!(f, "wait {seconds}"),
            Self::Cancel(handler) => write!(f, "cancel {handler}"),
            Self::Gate(kind, true) => write!(f, "open{}", KINDS[*kind]),
            Self::Gate(kind, false) => write!(f, "close{}", KINDS[*kind]),
            Self::Purge(kind) => write!(f, "purge{}", KINDS[*kind]),
        }
    }
}

/// A failing case is printed as a script that can be read and run again.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! What is to be done about an object that is there *(pure)*.

use super::ledger::Progress;
use crate::finalizer::Standing;

/// How an object comes to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It was not known.
    Added,
    /// It differs from what was known.
    Updated {
        /// Whether handlers want to know.
        matters: bool,
    },
    /// It has not changed.
    Resynced,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Nothing.
    Nothing,
    /// It is new: guard it, add it, hold it.
    Add,
    /// It has been added: hold it, and then ask again what is to be done.
    Hold,
    /// It was added in an earlier life of ours, or is told again.
    Resume,
    /// It has changed.
    Update,
    /// It is to go: clean up, and let it go.
    Delete,
    /// It has been cleaned up after: let it go.
    Release,
}

/// What an object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) standing: Standing,
    /// Whether it is marked for deletion.
    pub(super) dying: bool,
}

/// What is to be done about an object that was `told` of, looks like `sight`, and of which
/// `progress` is known.
pub(super) fn duty(told: Told, sight: Sight, progress: Option<Progress>) -> Duty {
    if sight.dying {
        return match (sight.standing, progress) {
            (Standing::Free, _) | (_, Some(Progress::Released)) => Duty::Nothing,
            (_, Some(Progress::Cleaned)) => Duty::Release,
            _ => Duty::Delete,
        };
    }
    let shown = match (sight.standing, progress) {
        (Standing::Held { tidy: false }, _) | (_, Some(Progress::Added { .. })) => {
            return Duty::Hold;
        }
        (Standing::Held { tidy: true }, _) => true,
        // What we were told is older than what we did.
        (_, Some(Progress::Held { .. })) => false,
        _ => return Duty::Add,
    };
    match told {
        // A call that is made again finds that another has done it.
        Told::Added if !shown => Duty::Nothing,
        Told::Added | Told::Resynced => Duty::Resume,
        Told::Updated { matters: true } => Duty::Update,
        Told::Updated { matters: false } => Duty::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATED: Told = Told::Updated { matters: true };
    const ECHO: Told = Told::Updated { matters: false };
    const HELD: Option<Progress> = Some(Progress::Held { again: false });
    const ADDED: Option<Progress> = Some(Progress::Added { again: false });

    #[test]
    fn what_is_new_is_added() {
        for told in [Told::Added, UPDATED, ECHO, Told::Resynced] {
            check(told, "free", None, Duty::Add);
            // Somebody has begun to add it, and nobody knows how it went.
            check(told, "guarded", None, Duty::Add);
        }
    }

    #[test]
    fn what_is_held_is_not_added_again() {
        check(Told::Added, "held", None, Duty::Resume);
        check(Told::Resynced, "held", None, Duty::Resume);
        check(UPDATED, "held", None, Duty::Update);
        check(ECHO, "held", None, Duty::Nothing);
    }

    #[test]
    fn the_echo_of_what_we_did_is_no_news() {
        for shown in ["free", "guarded", "held"] {
            check(ECHO, shown, HELD, Duty::Nothing);
            check(UPDATED, shown, HELD, Duty::Update);
        }
        check(Told::Added, "guarded", HELD, Duty::Nothing);
        check(Told::Resynced, "guarded", HELD, Duty::Resume);
    }

    #[test]
    fn a_finalizer_that_is_owed_comes_first() {
        for told in [Told::Added, UPDATED, ECHO, Told::Resynced] {
            check(told, "guarded", ADDED, Duty::Hold);
            check(told, "former", None, Duty::Hold);
        }
    }

    #[test]
    fn what_dies_is_cleaned_up_once_while_we_hold_it() {
        for told in [Told::Added, UPDATED, ECHO, Told::Resynced] {
            for shown in ["guarded", "held", "former"] {
                let dying = &format!("dying {shown}");
                check(told, dying, None, Duty::Delete);
                check(told, dying, HELD, Duty::Delete);
                check(told, dying, ADDED, Duty::Delete);
                check(told, dying, Some(Progress::Cleaned), Duty::Release);
                check(told, dying, Some(Progress::Released), Duty::Nothing);
            }
            for progress in [
                None,
                HELD,
                Some(Progress::Cleaned),
                Some(Progress::Released),
            ] {
                check(told, "dying free", progress, Duty::Nothing);
            }
        }
    }

    #[track_caller]
    fn check(told: Told, shown: &str, progress: Option<Progress>, expected: Duty) {
        let (dying, standing) = match shown.strip_prefix("dying ") {
            Some(standing) => (true, standing),
            None => (false, shown),
        };
        let standing = match standing {
            "free" => Standing::Free,
            "guarded" => Standing::Guarded,
            "held" => Standing::Held { tidy: true },
            "former" => Standing::Held { tidy: false },
            other => panic!("{other}"),
        };
        let sight = Sight { standing, dying };
        assert_eq!(
            duty(told, sight, progress),
            expected,
            "{told:?} {shown} {progress:?}"
        );
    }
}

//! The script of a history and its text form: a controller, its informers, and the steps.
//!
//! ```text
//! watcher, wrapped reconciler | all, label x | dequeue never, retry 1 | create a x; show 0 1
//! ```

use std::{fmt, str::FromStr};

/// A script: a controller, its informers, and the steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Script {
    pub(crate) handlers: Vec<HandlerKind>,
    pub(crate) informers: Vec<Selector>,
    pub(crate) options: Options,
    pub(crate) steps: Vec<Step>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerKind {
    pub(crate) wrapped: bool,
    /// Whether the wrapper writes the final finalizer before the first call.
    pub(crate) early: bool,
    pub(crate) reconciler: bool,
    /// Whether it has a predicate: one that accepts only objects whose value is odd, or in a wrapper
    /// `GenerationChanged`.
    pub(crate) filtered: bool,
}

/// The selector of an informer: all objects, or those with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    All,
    Label(char),
}

#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Options {
    pub(crate) dequeue: DequeueOption,
    pub(crate) retry: RetryOption,
    pub(crate) coalescing: CoalescingOption,
    pub(crate) as_received: bool,
    pub(crate) before_sync: bool,
    pub(crate) no_generation: bool,
    pub(crate) until_successor: bool,
    pub(crate) exit: ExitOption,
    /// In seconds. 0 for none.
    pub(crate) timeout: u64,
    /// 0 for the default.
    pub(crate) queue: usize,
    /// 0 for the default.
    pub(crate) concurrency: usize,
    pub(crate) seed: u64,
    /// With the embedded API server instead of scripted sources.
    pub(crate) server_object: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum DequeueOption {
    #[default]
    Always,
    Never,
    Opinionated,
    /// A random decision for each pending call.
    Coin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum RetryOption {
    #[default]
    Default,
    /// Every 4 s, without a limit.
    Constant,
    /// From 1 s, doubled each time, without a limit.
    Doubling,
    /// Two retries, each after 2 s.
    Twice,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum CoalescingOption {
    #[default]
    WhenFull,
    Always,
}

/// What wrappers do when an object leaves the selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum ExitOption {
    #[default]
    Release,
    CleanUp,
    Report,
}

/// The behaviour of a handler in its next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Succeed,
    Fail,
    FailWithState,
    FailAfter(u64),
    Requeue(u64),
    RequeueWithState(u64),
    Panic,
    Hang,
    Slow(u64),
    SlowFail(u64),
}

/// A fault of a patch of a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchFault {
    /// The patch is not applied, with response 500.
    Fails,
    /// The patch is not applied, with response 403.
    Refused,
    /// The patch is not applied, with response 409 without a real conflict.
    Conflicts,
    /// The patch is applied, with response 500.
    LosesAnswer,
    /// The patch is applied, with the response 2 s later.
    Slow,
    /// Before the patch, another client changes the spec.
    Raced,
    /// Before the patch, another client adds its finalizer, or removes it if it exists.
    Contended,
    /// Before the patch, another client removes the finalizers of all wrappers.
    Stripped,
}

/// A step. Objects are named by a letter, informers and handlers by a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create(char, char),
    Update(char),
    Touch(char),
    Label(char, char),
    Delete(char),
    Strip(char),
    Hold(char),
    Free(char),
    Show(usize, usize),
    List(usize),
    ListOld(usize),
    Bookmark(usize),
    Next(usize, Behaviour),
    /// A fault of the next request of a wrapper, a patch or a read.
    Patch(PatchFault),
    /// A fault of the next patch that releases an object.
    Release(PatchFault),
    Wait(u64),
    AddHandler(HandlerKind),
    RemoveHandler(usize),
    AddInformer(Selector),
    RemoveInformer(usize),
    /// Adds a removed informer again.
    AddAgain(usize),
    /// Restores the server from a backup.
    Restore,
    /// Adds a second controller that shares the informer.
    Share(usize),
    /// Stops the second controller.
    Unshare,
    Restart,
    Crash,
}

// === text ===

impl fmt::Display for HandlerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let early = if self.early { "early " } else { "" };
        let wrapped = match (self.wrapped, self.filtered) {
            (true, true) => "wrapped filtered ",
            (true, false) => "wrapped ",
            (false, true) => "filtered ",
            (false, false) => "",
        };
        let role = if self.reconciler {
            "reconciler"
        } else {
            "watcher"
        };
        write!(f, "{early}{wrapped}{role}")
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Label(label) => write!(f, "label {label}"),
        }
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeed => f.write_str("succeeds"),
            Self::Fail => f.write_str("fails"),
            Self::FailWithState => f.write_str("fails with state"),
            Self::FailAfter(s) => write!(f, "fails after {s}"),
            Self::Requeue(s) => write!(f, "requeues {s}"),
            Self::RequeueWithState(s) => write!(f, "requeues with state {s}"),
            Self::Panic => f.write_str("panics"),
            Self::Hang => f.write_str("hangs"),
            Self::Slow(s) => write!(f, "takes {s}"),
            Self::SlowFail(s) => write!(f, "takes and fails {s}"),
        }
    }
}

impl fmt::Display for PatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fails => "fails",
            Self::Refused => "is refused",
            Self::Conflicts => "conflicts",
            Self::LosesAnswer => "loses its answer",
            Self::Slow => "takes 2",
            Self::Raced => "is raced",
            Self::Contended => "is contended",
            Self::Stripped => "is stripped",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(it, label) => write!(f, "create {it} {label}"),
            Self::Update(it) => write!(f, "update {it}"),
            Self::Touch(it) => write!(f, "touch {it}"),
            Self::Label(it, label) => write!(f, "label {it} {label}"),
            Self::Delete(it) => write!(f, "delete {it}"),
            Self::Strip(it) => write!(f, "strip {it}"),
            Self::Hold(it) => write!(f, "hold {it}"),
            Self::Free(it) => write!(f, "free {it}"),
            Self::Show(it, n) => write!(f, "show {it} {n}"),
            Self::List(it) => write!(f, "list {it}"),
            Self::ListOld(it) => write!(f, "list old {it}"),
            Self::Bookmark(it) => write!(f, "bookmark {it}"),
            Self::Next(it, does) => write!(f, "next {it} {does}"),
            Self::Patch(fault) => write!(f, "patch {fault}"),
            Self::Release(fault) => write!(f, "release {fault}"),
            Self::Wait(s) => write!(f, "wait {s}"),
            Self::AddHandler(kind) => write!(f, "add {kind}"),
            Self::RemoveHandler(it) => write!(f, "remove handler {it}"),
            Self::AddInformer(selector) => write!(f, "add informer {selector}"),
            Self::RemoveInformer(it) => write!(f, "remove informer {it}"),
            Self::AddAgain(it) => write!(f, "add again {it}"),
            Self::Share(it) => write!(f, "share {it}"),
            Self::Restore => f.write_str("restore"),
            Self::Unshare => f.write_str("unshare"),
            Self::Restart => f.write_str("restart"),
            Self::Crash => f.write_str("crash"),
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        match self.dequeue {
            DequeueOption::Always => {}
            DequeueOption::Never => words.push("dequeue never".to_owned()),
            DequeueOption::Opinionated => words.push("dequeue opinionated".to_owned()),
            DequeueOption::Coin => words.push("dequeue coin".to_owned()),
        }
        match self.retry {
            RetryOption::Default => {}
            RetryOption::Constant => words.push("retry constant".to_owned()),
            RetryOption::Doubling => words.push("retry doubling".to_owned()),
            RetryOption::Twice => words.push("retry twice".to_owned()),
            RetryOption::Never => words.push("retry never".to_owned()),
        }
        match self.coalescing {
            CoalescingOption::WhenFull => {}
            CoalescingOption::Always => words.push("coalescing always".to_owned()),
        }
        for (set, word) in [
            (self.as_received, "as received"),
            (self.before_sync, "before sync"),
            (self.no_generation, "no generation"),
            (self.until_successor, "until successor"),
            (self.exit == ExitOption::CleanUp, "exit cleans up"),
            (self.exit == ExitOption::Report, "exit reports"),
            (self.server_object, "on a server"),
        ] {
            if set {
                words.push(word.to_owned());
            }
        }
        for (number, word) in [
            (self.timeout, "timeout"),
            (self.queue as u64, "queue"),
            (self.concurrency as u64, "concurrency"),
            (self.seed, "seed"),
        ] {
            if number > 0 {
                words.push(format!("{word} {number}"));
            }
        }
        f.write_str(&words.join(", "))
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | ", join(&self.handlers, ", "))?;
        write!(f, "{} | ", join(&self.informers, ", "))?;
        write!(f, "{} | ", self.options)?;
        f.write_str(&join(&self.steps, "; "))
    }
}

fn join<T: fmt::Display>(all: &[T], between: &str) -> String {
    let all: Vec<_> = all.iter().map(ToString::to_string).collect();
    all.join(between)
}

/// An invalid part of the text of a script.
#[derive(Debug)]
pub(crate) struct BadScript(String);

impl fmt::Display for BadScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a step or setting of a script: {:?}", self.0)
    }
}

impl FromStr for Script {
    type Err = BadScript;

    fn from_str(text: &str) -> Result<Self, BadScript> {
        let bad = |text: &str| BadScript(text.to_owned());
        let [handlers, informers, options, steps] =
            <[&str; 4]>::try_from(text.split('|').map(str::trim).collect::<Vec<_>>())
                .map_err(|_| bad(text))?;
        let mut set = Options::default();
        for option in options
            .split(',')
            .map(str::trim)
            .filter(|it| !it.is_empty())
        {
            let words: Vec<_> = option.split_whitespace().collect();
            parse_option(&mut set, &words).ok_or_else(|| bad(option))?;
        }
        Ok(Self {
            handlers: all(handlers, ',', parse_handler)?,
            informers: all(informers, ',', parse_selector)?,
            options: set,
            steps: all(steps, ';', parse_step)?,
        })
    }
}

/// Applies `parse` to the words of each part of a text.
fn all<T>(
    text: &str,
    between: char,
    parse: impl Fn(&[&str]) -> Option<T>,
) -> Result<Vec<T>, BadScript> {
    let parts = text
        .split(between)
        .map(str::trim)
        .filter(|it| !it.is_empty());
    let parse = |part: &str| {
        let words: Vec<_> = part.split_whitespace().collect();
        parse(&words).ok_or_else(|| BadScript(part.to_owned()))
    };
    parts.map(parse).collect()
}

fn parse_handler(words: &[&str]) -> Option<HandlerKind> {
    let (early, words) = match words {
        ["early", words @ ..] => (true, words),
        _ => (false, words),
    };
    let (wrapped, filtered, role) = match words {
        ["wrapped", "filtered", role] => (true, true, *role),
        ["wrapped", role] => (true, false, *role),
        ["filtered", role] => (false, true, *role),
        [role] => (false, false, *role),
        _ => return None,
    };
    let reconciler = match role {
        "reconciler" => true,
        "watcher" => false,
        _ => return None,
    };
    Some(HandlerKind {
        wrapped,
        early,
        reconciler,
        filtered,
    })
}

fn parse_selector(words: &[&str]) -> Option<Selector> {
    match words {
        ["all"] => Some(Selector::All),
        ["label", label] => Some(Selector::Label(letter(label)?)),
        _ => None,
    }
}

fn parse_option(set: &mut Options, words: &[&str]) -> Option<()> {
    match words {
        ["dequeue", which] => {
            set.dequeue = match *which {
                "always" => DequeueOption::Always,
                "never" => DequeueOption::Never,
                "opinionated" => DequeueOption::Opinionated,
                "coin" => DequeueOption::Coin,
                _ => return None,
            }
        }
        ["retry", which] => {
            set.retry = match *which {
                "default" => RetryOption::Default,
                "constant" => RetryOption::Constant,
                "doubling" => RetryOption::Doubling,
                "twice" => RetryOption::Twice,
                "never" => RetryOption::Never,
                _ => return None,
            }
        }
        ["coalescing", which] => {
            set.coalescing = match *which {
                "full" => CoalescingOption::WhenFull,
                "always" => CoalescingOption::Always,
                _ => return None,
            }
        }
        ["as", "received"] => set.as_received = true,
        ["before", "sync"] => set.before_sync = true,
        ["no", "generation"] => set.no_generation = true,
        ["until", "successor"] => set.until_successor = true,
        ["exit", "cleans", "up"] => set.exit = ExitOption::CleanUp,
        ["exit", "reports"] => set.exit = ExitOption::Report,
        ["on", "a", "server"] => set.server_object = true,
        ["timeout", n] => set.timeout = n.parse().ok()?,
        ["queue", n] => set.queue = n.parse().ok()?,
        ["concurrency", n] => set.concurrency = n.parse().ok()?,
        ["seed", n] => set.seed = n.parse().ok()?,
        _ => return None,
    }
    Some(())
}

fn parse_step(words: &[&str]) -> Option<Step> {
    Some(match words {
        ["create", it, label] => Step::Create(letter(it)?, letter(label)?),
        ["update", it] => Step::Update(letter(it)?),
        ["touch", it] => Step::Touch(letter(it)?),
        ["label", it, label] => Step::Label(letter(it)?, letter(label)?),
        ["delete", it] => Step::Delete(letter(it)?),
        ["strip", it] => Step::Strip(letter(it)?),
        ["hold", it] => Step::Hold(letter(it)?),
        ["free", it] => Step::Free(letter(it)?),
        ["show", it, n] => Step::Show(it.parse().ok()?, n.parse().ok()?),
        ["list", "old", it] => Step::ListOld(it.parse().ok()?),
        ["list", it] => Step::List(it.parse().ok()?),
        ["bookmark", it] => Step::Bookmark(it.parse().ok()?),
        ["next", it, does @ ..] => Step::Next(it.parse().ok()?, parse_behaviour(does)?),
        ["patch", fault @ ..] => Step::Patch(parse_fault(fault)?),
        ["release", fault @ ..] => Step::Release(parse_fault(fault)?),
        ["wait", s] => Step::Wait(s.parse().ok()?),
        ["add", "again", it] => Step::AddAgain(it.parse().ok()?),
        ["add", "informer", selector @ ..] => Step::AddInformer(parse_selector(selector)?),
        ["add", kind @ ..] => Step::AddHandler(parse_handler(kind)?),
        ["remove", "handler", it] => Step::RemoveHandler(it.parse().ok()?),
        ["remove", "informer", it] => Step::RemoveInformer(it.parse().ok()?),
        ["share", it] => Step::Share(it.parse().ok()?),
        ["restore"] => Step::Restore,
        ["unshare"] => Step::Unshare,
        ["restart"] => Step::Restart,
        ["crash"] => Step::Crash,
        _ => return None,
    })
}

fn parse_behaviour(words: &[&str]) -> Option<Behaviour> {
    Some(match words {
        ["succeeds"] => Behaviour::Succeed,
        ["fails"] => Behaviour::Fail,
        ["fails", "with", "state"] => Behaviour::FailWithState,
        ["fails", "after", s] => Behaviour::FailAfter(s.parse().ok()?),
        ["requeues", s] => Behaviour::Requeue(s.parse().ok()?),
        ["requeues", "with", "state", s] => Behaviour::RequeueWithState(s.parse().ok()?),
        ["panics"] => Behaviour::Panic,
        ["hangs"] => Behaviour::Hang,
        ["takes", s] => Behaviour::Slow(s.parse().ok()?),
        ["takes", "and", "fails", s] => Behaviour::SlowFail(s.parse().ok()?),
        _ => return None,
    })
}

fn parse_fault(words: &[&str]) -> Option<PatchFault> {
    Some(match words {
        ["fails"] => PatchFault::Fails,
        ["is", "refused"] => PatchFault::Refused,
        ["conflicts"] => PatchFault::Conflicts,
        ["loses", "its", "answer"] => PatchFault::LosesAnswer,
        ["takes", "2"] => PatchFault::Slow,
        ["is", "raced"] => PatchFault::Raced,
        ["is", "contended"] => PatchFault::Contended,
        ["is", "stripped"] => PatchFault::Stripped,
        _ => return None,
    })
}

fn letter(word: &str) -> Option<char> {
    let mut letters = word.chars();
    letters.next().filter(|_| letters.next().is_none())
}

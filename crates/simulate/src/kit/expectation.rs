//! An expectation of a test about one object.

use std::{fmt::Write as _, future::Future, marker::PhantomData, panic::Location, time::Duration};

use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Kit, LIMIT, matching, paths};

/// An expectation about one object. Created by [`Kit::expect`].
#[derive(Debug)]
#[must_use = "an expectation is checked by `matches` or `becomes`"]
pub struct Expectation<K> {
    kit: Kit,
    name: String,
    place: &'static Location<'static>,
    kind: PhantomData<fn() -> K>,
}

/// The time between two reads of the object.
const INTERVAL: Duration = Duration::from_millis(50);

/// The longest form of an object that a failure shows, in characters.
const LONGEST: usize = 4_000;

// === impl Kit ===

impl Kit {
    /// Expects something of an object.
    #[track_caller]
    pub fn expect<K>(&self, name: &str) -> Expectation<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        Expectation::new(self.clone(), name, Location::caller())
    }

    /// Waits until an object does not exist, for at most one minute.
    ///
    /// # Panics
    ///
    /// If it still exists then.
    #[track_caller]
    pub fn expect_gone<K>(&self, name: &str) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.expect::<K>(name).wait_until_absent()
    }

    /// Waits for `time`, and checks in this time every 50 ms that `is` returns false for an object.
    ///
    /// # Panics
    ///
    /// If it returns true.
    #[track_caller]
    pub fn expect_never<K>(
        &self,
        name: &str,
        time: Duration,
        is: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = ()>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.expect::<K>(name).never(time, is)
    }
}

// === impl Expectation ===

impl<K> Expectation<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    pub(super) fn new(kit: Kit, name: &str, place: &'static Location<'static>) -> Self {
        Self {
            kit,
            name: name.to_owned(),
            place,
            kind: PhantomData,
        }
    }

    /// Waits until the object has the members of `expected`, for at most one minute.
    ///
    /// Members that `expected` does not name are ignored, and an expected `null` is an absent member.
    /// Lists have the same length, and their items are compared in order.
    ///
    /// # Panics
    ///
    /// If the object does not match in this time, with each differing path.
    pub fn matches(self, expected: Value) -> impl Future<Output = ()> {
        self.wait(move |object| match object {
            None => Err("the object does not exist".to_owned()),
            Some(object) => match matching::differences(&expected, object).as_slice() {
                [] => Ok(()),
                found => Err(found.join("\n  ")),
            },
        })
    }

    /// Waits until `is` returns true for the object, for at most one minute.
    ///
    /// # Panics
    ///
    /// If it does not in this time, with the object.
    pub fn becomes(self, mut is: impl FnMut(&K) -> bool) -> impl Future<Output = ()> {
        self.wait(move |object| {
            let object = object.ok_or("the object does not exist")?;
            let typed = serde_json::from_value(object.clone());
            let typed = typed.map_err(|error| format!("the object does not decode: {error}"))?;
            if is(&typed) {
                Ok(())
            } else {
                Err("the condition is false".to_owned())
            }
        })
    }

    /// Waits until the object does not exist any more.
    pub(super) async fn wait_until_absent(self) {
        self.wait(|object| match object {
            None => Ok(()),
            Some(object) => Err(format!(
                "the object still exists; deletionTimestamp {}, finalizers {}",
                object["metadata"]["deletionTimestamp"], object["metadata"]["finalizers"]
            )),
        })
        .await;
    }

    /// Fails if `is` returns true for the object within `time`.
    pub(super) async fn never(self, time: Duration, mut is: impl FnMut(&K) -> bool) {
        let began = Instant::now();
        let path = self.kit.path::<K>(&self.name, self.place).await;
        while began.elapsed() < time {
            if let Some(object) = self.kit.core.user.get(&path).await
                && let Ok(typed) = serde_json::from_value(object.clone())
                && is(&typed)
            {
                let text = format!("the condition became true after {:?}", began.elapsed());
                self.fail(&text, Some(&object));
            }
            sleep(INTERVAL).await;
        }
    }

    /// Reads the object until `check` accepts it.
    async fn wait(self, mut check: impl FnMut(Option<&Value>) -> Result<(), String>) {
        let began = Instant::now();
        let path = self.kit.path::<K>(&self.name, self.place).await;
        loop {
            let object = self.kit.core.user.get(&path).await;
            let Err(text) = check(object.as_ref()) else {
                return;
            };
            if began.elapsed() >= LIMIT {
                self.fail(&format!("after {LIMIT:?}: {text}"), object.as_ref());
            }
            sleep(INTERVAL).await;
        }
    }

    fn fail(&self, text: &str, object: Option<&Value>) -> ! {
        let (kind, name) = (K::kind(&()), self.kit.object_name::<K>(&self.name));
        let mut report = format!("{}: {kind} {name}\n  {text}", self.place);
        if let Some(object) = object {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            let shown = serde_json::to_string_pretty(&object).unwrap_or_default();
            let shown: String = shown.chars().take(LONGEST).collect();
            _ = write!(report, "\nthe object: {shown}");
        }
        report += &self
            .kit
            .core
            .journal
            .history(&paths::resource::<K>(), &name);
        report += &self.kit.core.describe();
        panic!("{report}");
    }
}

//! The newest responses to the writes of one call: reads of the same call see them.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use kube::Resource;
use serde::de::DeserializeOwned;
use windlass_informer::{LazyObject, ObjectIdentity as _, ObjectKey, Stored, api_request};

use super::{WriteEffect, parse_version};

/// The responses to the writes of one call. It is dropped with the call, and nothing of it is
/// written into a store: that would bring deleted objects back, and keep objects that the selector
/// of the store does not match.
#[derive(Debug, Default)]
pub(crate) struct CallAnswers {
    newest: BTreeMap<(Arc<str>, ObjectKey), Answer>,
}

#[derive(Debug)]
struct Answer {
    uid: Arc<str>,
    effect: WriteEffect,
    /// The object. `None` if it was deleted, or the response was not the object.
    body: Option<Bytes>,
}

// === impl CallAnswers ===

impl CallAnswers {
    /// Keeps a response, unless a newer one is known.
    pub(super) fn put(
        &mut self,
        resource: Arc<str>,
        key: ObjectKey,
        uid: Arc<str>,
        effect: WriteEffect,
        body: Option<Bytes>,
    ) {
        let slot = (resource, key);
        if let Some(known) = self.newest.get(&slot)
            && let (WriteEffect::Version(known_version), WriteEffect::Version(version)) =
                (known.effect, effect)
            && (known_version > version || known_version == version && body.is_none())
        {
            return;
        }
        self.newest.insert(slot, Answer { uid, effect, body });
    }

    /// The newest state of the object with `key`: the newer one of the store and the responses.
    pub(crate) fn newest<C>(
        &self,
        resource: &str,
        key: &ObjectKey,
        stored: Option<LazyObject<C>>,
    ) -> Option<LazyObject<C>>
    where
        C: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        let slot = (Arc::from(resource), key.clone());
        match self.newest.get(&slot) {
            Some(answer) => answer.or_newer(stored),
            None => stored,
        }
    }

    /// The objects in the responses whose keys are not in `known`: those that the call created.
    pub(crate) fn created<C>(
        &self,
        resource: &str,
        known: impl Fn(&ObjectKey) -> bool,
    ) -> Vec<LazyObject<C>>
    where
        C: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        (self.newest.iter())
            .filter(|((of, key), _)| &**of == resource && !known(key))
            .filter_map(|(_, answer)| answer.or_newer(None))
            .collect()
    }
}

// === impl Answer ===

impl Answer {
    fn or_newer<C>(&self, stored: Option<LazyObject<C>>) -> Option<LazyObject<C>>
    where
        C: Resource + DeserializeOwned + Send + Sync + 'static,
        LazyObject<C>: From<Arc<C>>,
        C: Stored,
    {
        let version = match self.effect {
            WriteEffect::Gone => return stored.filter(|it| it.uid() != Some(&*self.uid)),
            WriteEffect::Version(version) => version,
        };
        let shown = (stored.as_ref()).and_then(|it| parse_version(it.resource_version()?));
        if shown.is_some_and(|shown| shown >= version) {
            return stored;
        }
        let decoded: Option<C> = (self.body.as_ref()).and_then(|it| api_request::decode(it).ok());
        decoded.map(|it| LazyObject::from(Arc::new(it))).or(stored)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(uid: &str, version: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("web".into());
        map.metadata.uid = Some(uid.into());
        map.metadata.resource_version = Some(version.into());
        map
    }

    /// What a call reads, after a response, of an object that the store has.
    #[track_caller]
    fn check(answer: (&str, WriteEffect), stored: Option<(&str, &str)>, expected: Option<&str>) {
        let (uid, effect) = answer;
        let mut answers = CallAnswers::default();
        let body = match effect {
            WriteEffect::Version(version) => {
                let map = map(uid, &version.to_string());
                Some(serde_json::to_vec(&map).expect("JSON").into())
            }
            WriteEffect::Gone => None,
        };
        let key = ObjectKey::new("web");
        answers.put("configmaps".into(), key.clone(), uid.into(), effect, body);
        let stored = stored.map(|(uid, version)| LazyObject::from(Arc::new(map(uid, version))));
        let newest = answers.newest("configmaps", &key, stored);
        let shown = newest.map(|it| {
            let version = it.resource_version().unwrap_or_default();
            format!("{}@{version}", it.uid().unwrap_or_default())
        });
        assert_eq!(shown.as_deref(), expected);
    }

    /// Rows: BO-06
    #[test]
    fn a_call_reads_the_newer_one_of_the_store_and_its_own_responses() {
        let at = WriteEffect::Version;
        check(("c", at(7)), None, Some("c@7"));
        check(("c", at(7)), Some(("c", "6")), Some("c@7"));
        check(("c", at(7)), Some(("c", "8")), Some("c@8"));
        check(("c", at(10)), Some(("c", "9")), Some("c@10"));
        check(("c", WriteEffect::Gone), Some(("c", "6")), None);
        check(("c", WriteEffect::Gone), Some(("d", "8")), Some("d@8"));
        check(("c", WriteEffect::Gone), None, None);
    }

    #[test]
    fn a_created_object_is_listed_until_the_store_has_it() {
        let mut answers = CallAnswers::default();
        let body = serde_json::to_vec(&map("c", "7")).expect("JSON");
        let (key, effect) = (ObjectKey::new("web"), WriteEffect::Version(7));
        answers.put(
            "configmaps".into(),
            key.clone(),
            "c".into(),
            effect,
            Some(body.into()),
        );
        let created = |resource, is_known| {
            let created: Vec<LazyObject<ConfigMap>> = answers.created(resource, |_| is_known);
            created.len()
        };
        assert_eq!(created("configmaps", false), 1);
        assert_eq!(created("configmaps", true), 0);
        assert_eq!(created("secrets", false), 0);
    }
}

//! The paths of objects on the server, from the names that a test uses.

use std::panic::Location;

use kube::Resource;
use serde_json::Value;

use super::Kit;

// === impl Kit ===

impl Kit {
    /// The path of the objects of a kind in a namespace.
    pub(super) async fn collection<K>(
        &self,
        namespace: Option<&str>,
        place: &Location<'_>,
    ) -> String
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = format!("{} {}", K::url_path(&(), None), K::plural(&()));
        let known = self.core.namespaced.lock().get(&resource).copied();
        let namespaced = if let Some(known) = known {
            known
        } else {
            let version = match &*K::group(&()) {
                "" => format!("/api/{}", K::version(&())),
                group => format!("/apis/{group}/{}", K::version(&())),
            };
            let plural = K::plural(&());
            let Some(found) = self.served(&version, |it| it["name"] == *plural).await else {
                panic!(
                    "{place}: the server does not serve {plural} of {version}; `install` its \
                     CustomResourceDefinition first"
                );
            };
            let namespaced = found["namespaced"] == true;
            self.core.namespaced.lock().insert(resource, namespaced);
            namespaced
        };
        K::url_path(
            &(),
            namespaced.then(|| namespace.unwrap_or(&self.core.namespace)),
        )
    }

    /// The first resource of a version for which `is` returns true, as the server describes it.
    pub(super) async fn served(&self, version: &str, is: impl Fn(&Value) -> bool) -> Option<Value> {
        let list = self.core.user.get(version).await?;
        list["resources"]
            .as_array()?
            .iter()
            .find(|it| is(it))
            .cloned()
    }

    pub(super) async fn path<K>(&self, name: &str, place: &Location<'_>) -> String
    where
        K: Resource<DynamicType = ()>,
    {
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name),
        };
        format!("{}/{name}", self.collection::<K>(namespace, place).await)
    }

    /// The name of an object as the journal has it.
    pub(super) fn object_name<K: Resource<DynamicType = ()>>(&self, name: &str) -> String {
        let resource = format!("{} {}", K::url_path(&(), None), K::plural(&()));
        let namespaced = self.core.namespaced.lock().get(&resource).copied();
        if name.contains('/') || namespaced == Some(false) {
            name.to_owned()
        } else {
            format!("{}/{name}", self.core.namespace)
        }
    }
}

/// The resource of a kind with its group, as in `deployments.apps`.
pub(super) fn resource<K: Resource<DynamicType = ()>>() -> String {
    match &*K::group(&()) {
        "" => K::plural(&()).into_owned(),
        group => format!("{}.{group}", K::plural(&())),
    }
}

//! The paths of objects on the server, from the names that a test uses.

use std::panic::Location;

use kube::Resource;

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
            {
                let version = match &*K::group(&()) {
                    "" => format!("/api/{}", K::version(&())),
                    group => format!("/apis/{group}/{}", K::version(&())),
                };
                let list = self.core.user.get(&version).await.unwrap_or_default();
                let resources = list["resources"].as_array().cloned().unwrap_or_default();
                let Some(found) = resources.iter().find(|it| it["name"] == *K::plural(&())) else {
                    panic!(
                        "{place}: the server does not serve {} of {version}; `install` its \
                         CustomResourceDefinition first",
                        K::plural(&())
                    );
                };
                let namespaced = found["namespaced"] == true;
                self.core.namespaced.lock().insert(resource, namespaced);
                namespaced
            }
        };
        K::url_path(
            &(),
            namespaced.then(|| namespace.unwrap_or(&self.core.namespace)),
        )
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

//! The settings of lists and watches.

use std::{
    collections::BTreeSet,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use clap::Args;
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize};

use super::{SettingsError, error::unused, period, unless_empty};
use crate::{ListWatch, Watch, level::Watchable};

/// Settings of the [`Watch`] or the [`ListWatch`] of the primary objects.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[command(next_help_heading = "Watch")]
#[non_exhaustive]
pub struct WatchSettings {
    /// The namespaces of the objects, separated by commas [default: all].
    #[arg(
        long,
        env = unless_empty("OPERATOR_NAMESPACES"),
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    pub namespaces: Option<Vec<String>>,

    /// The label selector of the objects [default: none].
    #[arg(long, env = unless_empty("OPERATOR_LABEL_SELECTOR"), value_name = "SELECTOR")]
    pub label_selector: Option<String>,

    /// The field selector of the objects [default: none].
    #[arg(long, env = unless_empty("OPERATOR_FIELD_SELECTOR"), value_name = "SELECTOR")]
    pub field_selector: Option<String>,

    /// The number of objects in a page of a list [default: 500].
    #[arg(long, env = unless_empty("OPERATOR_PAGE_SIZE"), value_name = "OBJECTS")]
    pub page_size: Option<NonZeroU32>,

    /// Whether lists are streamed if the server supports it [default: true].
    #[arg(long, env = unless_empty("OPERATOR_STREAMED_LISTS"), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub streamed_lists: Option<bool>,

    /// How long a watch may deliver no event or bookmark [default: 3m].
    #[arg(long, env = unless_empty("OPERATOR_WATCH_SILENCE"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub watch_silence: Option<Duration>,

    /// How long one page of a list, or a streamed list, may take [default: 5m].
    #[arg(long, env = unless_empty("OPERATOR_LIST_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub list_timeout: Option<Duration>,

    /// The longest wait that the server can demand [default: 5m].
    #[arg(long, env = unless_empty("OPERATOR_MAX_RETRY_AFTER"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub max_retry_after: Option<Duration>,

    /// The time between two lists of a kind that cannot be watched [default: 30s].
    #[arg(long, env = unless_empty("OPERATOR_POLL_INTERVAL"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub poll_interval: Option<Duration>,

    /// The largest object in bytes [default: 16 MiB].
    #[arg(long, env = unless_empty("OPERATOR_MAX_BYTES"), value_name = "BYTES")]
    pub max_bytes: Option<usize>,

    /// The size in bytes of the cache of decoded objects [default: 32 MiB].
    #[arg(long, env = unless_empty("OPERATOR_DECODE_CACHE"), value_name = "BYTES")]
    pub decode_cache: Option<usize>,

    /// Whether the store keeps all objects decoded [default: false].
    #[arg(long, env = unless_empty("OPERATOR_DECODED"), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub decoded: Option<bool>,

    /// The number of threads that decode a long list [default: those of the runtime, at most 4].
    #[arg(long, env = unless_empty("OPERATOR_DECODE_THREADS"), value_name = "THREADS")]
    pub decode_threads: Option<NonZeroUsize>,
}

// === impl WatchSettings ===

impl WatchSettings {
    /// A watch of the objects of a kind with namespaces, as these settings say.
    ///
    /// # Errors
    ///
    /// [`SettingsError::EmptyNamespace`] if a namespace has no name.
    pub fn watch<K>(&self) -> Result<Watch<K>, SettingsError>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let namespaces = self.checked_namespaces()?;
        Ok(self.apply_to_any(if namespaces.is_empty() {
            Watch::all()
        } else {
            Watch::in_namespaces(namespaces)
        }))
    }

    /// Changes a watch as these settings say, for example one of a kind without namespaces. Its namespaces
    /// are its own.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Unused`] if namespaces are set.
    pub fn apply<K: Watchable>(&self, watch: Watch<K>) -> Result<Watch<K>, SettingsError> {
        unused(
            &[("namespaces", self.namespaces.is_some())],
            "the namespaces of a `Watch`",
        )?;
        Ok(self.apply_to_any(watch))
    }

    fn apply_to_any<K: Watchable>(&self, mut watch: Watch<K>) -> Watch<K> {
        if let Some(selector) = &self.label_selector {
            watch = watch.labels(selector);
        }
        if let Some(selector) = &self.field_selector {
            watch = watch.fields(selector);
        }
        let settings = Self {
            namespaces: None,
            label_selector: None,
            field_selector: None,
            ..self.clone()
        };
        if settings == Self::default() {
            return watch;
        }
        watch.settings(move |list| settings.without_selectors(list))
    }

    /// The sources of the informers of a kind with namespaces, as these settings say: one for each
    /// namespace, in alphabetical order, or a single one for all namespaces. A controller gets one
    /// informer for each, all of one kind.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a namespace has no name, or a selector cannot be valid.
    ///
    /// # Example
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass::{Informer, InformerController, settings::Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = windlass_apiserver::ApiServer::new().client();
    /// let mut settings = Settings::default();
    /// settings.watch.namespaces = Some(vec!["shop".to_owned(), "blog".to_owned()]);
    /// let controller = InformerController::builder().build()?;
    /// let configs = controller.kind::<ConfigMap>("configs")?;
    /// for list in settings.watch.list_watches(&client)? {
    ///     controller.add_informer(&configs, &Informer::new(list))?;
    /// }
    /// let health = controller.health();
    /// assert_eq!(health.len(), 2);
    /// assert_eq!(health[0].watch.scope(), "configmaps in blog");
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_watches<K>(&self, client: &Client) -> Result<Vec<ListWatch<K>>, SettingsError>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let namespaces: BTreeSet<_> = self.checked_namespaces()?.iter().collect();
        let of_one = |namespace: &String| Api::namespaced(client.clone(), namespace);
        let apis: Vec<Api<K>> = if namespaces.is_empty() {
            vec![Api::all(client.clone())]
        } else {
            namespaces.into_iter().map(of_one).collect()
        };
        let settings = Self {
            namespaces: None,
            ..self.clone()
        };
        let lists = apis.into_iter().map(ListWatch::new);
        lists.map(|it| settings.apply_to_list_watch(it)).collect()
    }

    fn checked_namespaces(&self) -> Result<&[String], SettingsError> {
        let namespaces = self.namespaces.as_deref().unwrap_or_default();
        if namespaces.iter().any(String::is_empty) {
            return Err(SettingsError::EmptyNamespace);
        }
        Ok(namespaces)
    }

    /// Changes the source of an informer as these settings say. Its namespace is that of its `Api`;
    /// [`list_watches`](Self::list_watches) has those of the settings.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a selector cannot be valid, or namespaces are set.
    pub fn apply_to_list_watch<K: Resource>(
        &self,
        mut list: ListWatch<K>,
    ) -> Result<ListWatch<K>, SettingsError> {
        unused(
            &[("namespaces", self.namespaces.is_some())],
            "the namespace of an `Api`",
        )?;
        if let Some(selector) = &self.label_selector {
            list = list.labels(selector)?;
        }
        if let Some(selector) = &self.field_selector {
            list = list.fields(selector)?;
        }
        Ok(self.without_selectors(list))
    }

    fn without_selectors<K: Resource>(&self, mut list: ListWatch<K>) -> ListWatch<K> {
        if let Some(objects) = self.page_size {
            list = list.page_size(objects);
        }
        if let Some(streamed) = self.streamed_lists {
            list = list.streamed_lists(streamed);
        }
        if let Some(silence) = self.watch_silence {
            list = list.silence(silence);
        }
        if let Some(timeout) = self.list_timeout {
            list = list.list_timeout(timeout);
        }
        if let Some(wait) = self.max_retry_after {
            list = list.max_retry_after(wait);
        }
        if let Some(interval) = self.poll_interval {
            list = list.poll_interval(interval);
        }
        if let Some(bytes) = self.max_bytes {
            list = list.max_bytes(bytes);
        }
        if let Some(bytes) = self.decode_cache {
            list = list.decode_cache(bytes);
        }
        if self.decoded == Some(true) {
            list = list.decoded();
        }
        if let Some(threads) = self.decode_threads {
            list = list.decoders(threads);
        }
        list
    }
}

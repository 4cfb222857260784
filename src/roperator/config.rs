//! The configuration of an operator.

use std::collections::{BTreeSet, HashMap};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use windlass_composite::{ChildConfig as Config, CompositeBuildError, CompositeController};
use windlass_controller::{ControllerBuilder, MissingKind, Watch};

use super::{adapter::Adapter, handler::Handler, k8s_types::K8sType};

/// The default of [`OperatorConfig::tracking_label_name`].
pub const DEFAULT_TRACKING_LABEL_NAME: &str = "app.kubernetes.io/instance";

/// The default of [`OperatorConfig::ownership_label_name`].
pub const DEFAULT_OWNERSHIP_LABEL_NAME: &str = "app.kubernetes.io/managed-by";

/// How an existing child is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// By server-side apply: fields of other writers stay.
    Replace,
    /// It is deleted and created again.
    Recreate,
    /// It stays as it is until another client deletes it.
    OnDelete,
}

/// How the children of one kind are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildConfig {
    /// How an existing child is changed.
    pub update_strategy: UpdateStrategy,
    is_cluster_scoped: bool,
    is_adopted: bool,
    is_elsewhere: bool,
    earlier_manager: Option<&'static str>,
}

/// The kinds and the names of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorConfig {
    /// The kind of the parents.
    pub parent: &'static K8sType,
    /// The kinds of the children.
    pub child_types: HashMap<&'static K8sType, ChildConfig>,
    /// The namespace of the parents; `None` for all.
    pub namespace: Option<String>,
    /// The finalizer, the field manager, and the value of the ownership label.
    pub operator_name: String,
    /// The label of children with the uid of their parent.
    pub tracking_label_name: String,
    /// The label of children with the name of the operator.
    pub ownership_label_name: String,
    /// The port of `/health` and `/metrics`.
    pub server_port: u16,
    /// Whether `/metrics` is served.
    pub expose_metrics: bool,
    /// Whether `/health` is served.
    pub expose_health: bool,
}

// === impl ChildConfig ===

impl ChildConfig {
    /// Creates it with a strategy.
    #[must_use]
    pub const fn new(update_strategy: UpdateStrategy) -> Self {
        Self {
            update_strategy,
            is_cluster_scoped: false,
            is_adopted: false,
            is_elsewhere: false,
            earlier_manager: None,
        }
    }

    /// [`UpdateStrategy::Replace`].
    #[must_use]
    pub const fn replace() -> Self {
        Self::new(UpdateStrategy::Replace)
    }

    /// [`UpdateStrategy::Recreate`].
    #[must_use]
    pub const fn recreate() -> Self {
        Self::new(UpdateStrategy::Recreate)
    }

    /// [`UpdateStrategy::OnDelete`].
    #[must_use]
    pub const fn on_delete() -> Self {
        Self::new(UpdateStrategy::OnDelete)
    }

    /// Declares that the objects of a kind of your own have no namespace. Those of
    /// [`k8s_types`](super::k8s_types) are known.
    #[must_use]
    pub const fn cluster_scoped(mut self) -> Self {
        self.is_cluster_scoped = true;
        self
    }

    /// Takes over objects that exist already and that no other object controls. By default such an
    /// object is an error.
    #[must_use]
    pub const fn adopt(mut self) -> Self {
        self.is_adopted = true;
        self
    }

    /// Allows children in other namespaces than their parent, and cluster-scoped children of a parent
    /// with a namespace. By default such a child is an error.
    #[must_use]
    pub const fn elsewhere(mut self) -> Self {
        self.is_elsewhere = true;
        self
    }

    /// Takes over the fields of existing children that roperator has written with this `user_agent` of
    /// its `ClientConfig`. By default with the name of the operator.
    #[must_use]
    pub const fn migrate_from(mut self, user_agent: &'static str) -> Self {
        self.earlier_manager = Some(user_agent);
        self
    }
}

// === impl OperatorConfig ===

impl OperatorConfig {
    /// Creates a configuration without children, for all namespaces, with the port 8080.
    pub fn new(operator_name: impl Into<String>, parent: &'static K8sType) -> Self {
        Self {
            parent,
            child_types: HashMap::new(),
            namespace: None,
            operator_name: operator_name.into(),
            tracking_label_name: DEFAULT_TRACKING_LABEL_NAME.to_owned(),
            ownership_label_name: DEFAULT_OWNERSHIP_LABEL_NAME.to_owned(),
            server_port: 8080,
            expose_metrics: true,
            expose_health: true,
        }
    }

    /// Watches one namespace only.
    #[must_use]
    pub fn within_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Adds a kind of children.
    #[must_use]
    pub fn with_child(mut self, child_type: &'static K8sType, config: ChildConfig) -> Self {
        self.child_types.insert(child_type, config);
        self
    }

    /// Sets whether `/health` is served.
    #[must_use]
    pub const fn expose_health(mut self, expose_health: bool) -> Self {
        self.expose_health = expose_health;
        self
    }

    /// Sets whether `/metrics` is served.
    #[must_use]
    pub const fn expose_metrics(mut self, expose_metrics: bool) -> Self {
        self.expose_metrics = expose_metrics;
        self
    }

    /// Sets the port.
    #[must_use]
    pub const fn server_port(mut self, port: u16) -> Self {
        self.server_port = port;
        self
    }

    /// The controller of this configuration, for an [`Operator`](crate::Operator).
    ///
    /// # Errors
    ///
    /// [`CompositeBuildError`] if the name of the operator is no valid finalizer.
    pub fn controller(
        self,
        client: Client,
        handler: impl Handler,
    ) -> Result<CompositeController<DynamicObject>, CompositeBuildError> {
        let types = resource(self.parent);
        let api = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &types),
            None => Api::all_with(client.clone(), &types),
        };
        let parents = Watch::<DynamicObject>::from((api, types));
        let name = self.operator_name.clone();
        // Those of the children, and of the status.
        let configured = self
            .child_types
            .values()
            .filter_map(|it| it.earlier_manager);
        let earlier: BTreeSet<_> = configured.chain([&*self.operator_name]).collect();
        let builder = CompositeController::builder(client, name, parents)
            .children_with(&self.ownership_label_name)
            .with_controller(|it| {
                let it = it.missing_kind(MissingKind::Wait);
                earlier
                    .into_iter()
                    .fold(it, ControllerBuilder::migrate_status_from)
            });
        let builder = match &self.namespace {
            Some(namespace) => builder.children_in(namespace),
            None => builder,
        };
        let kinds = self.child_types.iter();
        let builder = kinds.fold(builder, |builder, (child, config)| {
            let written = match config.update_strategy {
                UpdateStrategy::Replace => Config::apply(),
                UpdateStrategy::Recreate => Config::recreate(),
                UpdateStrategy::OnDelete => Config::on_delete(),
            };
            let with = |it: bool, config: Config, set: fn(Config) -> Config| {
                if it { set(config) } else { config }
            };
            let is_cluster_scoped = config.is_cluster_scoped || child.is_cluster_scoped();
            let written = with(is_cluster_scoped, written, Config::cluster_scoped);
            let written = with(config.is_adopted, written, Config::adopt);
            let written = with(config.is_elsewhere, written, Config::elsewhere);
            let earlier = config.earlier_manager.unwrap_or(&self.operator_name);
            builder.child_kind(resource(child), written.migrate_from(earlier))
        });
        builder.build(Adapter::new(handler, &self))
    }
}

fn resource(of: &K8sType) -> ApiResource {
    let (group, version) = of.as_group_and_version();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: of.api_version.to_owned(),
        kind: of.kind.to_owned(),
        plural: of.plural_kind.to_owned(),
    }
}

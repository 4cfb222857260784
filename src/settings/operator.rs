//! The settings of the process.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use clap::{Args, ValueEnum};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};
use windlass_operator::{AdminLimits, HealthDetails, OperatorBuilder, RequestBudget};

use super::{
    SettingsError, address,
    error::{incomplete, unused},
    period, unless_empty,
};
use crate::{AdminServer, LeaderElection, Operator, source::Shard};

/// Settings of an [`Operator`]: its leader election, its admin server, and its end.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[command(next_help_heading = "Operator")]
#[non_exhaustive]
pub struct OperatorSettings {
    /// Whether only one replica runs the controllers [default: true].
    #[arg(long, env = unless_empty("OPERATOR_LEADER_ELECTION"), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_election: Option<bool>,

    /// The namespace of the lease [default: `POD_NAMESPACE`, or that of the client].
    #[arg(long, env = unless_empty("OPERATOR_LEASE_NAMESPACE"), value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// The name of the lease [default: the name of the operator].
    #[arg(long, env = unless_empty("OPERATOR_LEASE_NAME"), value_name = "NAME")]
    pub lease_name: Option<String>,

    /// The number of replicas that share the primary objects, in a `StatefulSet`. The ordinal at the end
    /// of `POD_NAME` is that of the shard and of the lease [default: no shards].
    #[arg(long, env = unless_empty("OPERATOR_SHARDS"), value_name = "REPLICAS")]
    pub shards: Option<NonZeroU32>,

    /// What this replica writes into the lease [default: `POD_NAME`, or the host name and a random
    /// number].
    #[arg(long, env = unless_empty("OPERATOR_IDENTITY"), value_name = "NAME")]
    pub identity: Option<String>,

    /// The time without a renewal after which another replica can acquire the lease [default: 15s].
    #[arg(long, env = unless_empty("OPERATOR_LEASE_DURATION"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub lease_duration: Option<Duration>,

    /// The time without a renewal after which the leader stops [default: 10s].
    #[arg(long, env = unless_empty("OPERATOR_LEASE_RENEW_DEADLINE"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub lease_renew_deadline: Option<Duration>,

    /// The time between two renewals [default: 2s].
    #[arg(long, env = unless_empty("OPERATOR_LEASE_RETRY_PERIOD"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub lease_retry_period: Option<Duration>,

    /// Where health and metrics are served, such as `:8080` for all addresses [default: nowhere].
    #[arg(long, env = unless_empty("OPERATOR_ADMIN_ADDRESS"), value_name = "ADDRESS", value_parser = address::parse)]
    #[serde(deserialize_with = "address::deserialize")]
    pub admin_address: Option<SocketAddr>,

    /// Where metrics are served, instead of the admin address [default: there].
    #[arg(long, env = unless_empty("OPERATOR_METRICS_ADDRESS"), value_name = "ADDRESS", value_parser = address::parse)]
    #[serde(deserialize_with = "address::deserialize")]
    pub metrics_address: Option<SocketAddr>,

    /// Whether clients need a token of Kubernetes that may `get` `/metrics` to read the metrics [default:
    /// false].
    #[arg(long, env = unless_empty("OPERATOR_AUTHORIZE_METRICS"), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub authorize_metrics: Option<bool>,

    /// The PEM file with the certificate chain of the metrics, which then have an address of their own
    /// [default: no TLS].
    #[cfg(feature = "tls")]
    #[arg(long, env = unless_empty("OPERATOR_TLS_CERTIFICATE"), value_name = "FILE")]
    pub tls_certificate: Option<std::path::PathBuf>,

    /// The PEM file with the private key of the certificate.
    #[cfg(feature = "tls")]
    #[arg(long, env = unless_empty("OPERATOR_TLS_KEY"), value_name = "FILE")]
    pub tls_key: Option<std::path::PathBuf>,

    /// Which clients see the reasons on health pages, and `/debug/windlass` [default: loopback].
    #[arg(long, env = unless_empty("OPERATOR_HEALTH_DETAILS"), value_name = "CLIENTS")]
    pub health_details: Option<HealthDetailsSetting>,

    /// Whether `/debug/windlass` is served [default: false].
    #[arg(long, env = unless_empty("OPERATOR_DIAGNOSTICS"), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub diagnostics: Option<bool>,

    /// The time limit of one health check [default: 500ms].
    #[arg(long, env = unless_empty("OPERATOR_CHECK_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub check_timeout: Option<Duration>,

    /// The time limit for reading a request to the admin server [default: 5s].
    #[arg(long, env = unless_empty("OPERATOR_ADMIN_READ_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub admin_read_timeout: Option<Duration>,

    /// The longest time without progress while the admin server sends a response [default: 5s].
    #[arg(long, env = unless_empty("OPERATOR_ADMIN_WRITE_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub admin_write_timeout: Option<Duration>,

    /// The longest time that a connection to the admin server is open [default: 60s].
    #[arg(long, env = unless_empty("OPERATOR_ADMIN_CONNECTION_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub admin_connection_timeout: Option<Duration>,

    /// The most connections to each port of the admin server [default: 512, and at most a quarter of
    /// the file descriptors].
    #[arg(long, env = unless_empty("OPERATOR_ADMIN_CONNECTIONS"), value_name = "NUMBER")]
    pub admin_connections: Option<NonZeroUsize>,

    /// The most connections of one address to each port of the admin server [default: 256].
    #[arg(
        long,
        env = unless_empty("OPERATOR_ADMIN_CONNECTIONS_PER_CLIENT"),
        value_name = "NUMBER"
    )]
    pub admin_connections_per_client: Option<NonZeroUsize>,

    /// The time for the controllers to end after a stop [default: 25s].
    #[arg(long, env = unless_empty("OPERATOR_DRAIN_TIMEOUT"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub drain_timeout: Option<Duration>,

    /// The time after which a blocked runtime is reported [default: 30s].
    #[arg(long, env = unless_empty("OPERATOR_REPORT_BLOCKED_AFTER"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub report_blocked_after: Option<Duration>,

    /// The time after which a replica with a blocked runtime stops to renew its lease [default: 60s].
    #[arg(long, env = unless_empty("OPERATOR_RESIGN_BLOCKED_AFTER"), value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub resign_blocked_after: Option<Duration>,

    /// The requests per second to the API server, after a burst [default: no limit].
    #[arg(long, env = unless_empty("OPERATOR_REQUESTS_PER_SECOND"), value_name = "NUMBER")]
    pub requests_per_second: Option<NonZeroU32>,

    /// The burst of requests, with `requests-per-second` [default: twice that].
    #[arg(long, env = unless_empty("OPERATOR_REQUEST_BURST"), value_name = "NUMBER")]
    pub request_burst: Option<NonZeroU32>,
}

/// The clients of [`HealthDetails`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HealthDetailsSetting {
    /// Clients on this machine.
    Loopback,
    /// All clients.
    All,
    /// No client.
    None,
}

// === impl OperatorSettings ===

impl OperatorSettings {
    /// Creates the builder of the operator `name` as these settings say: with leader election, unless it
    /// is off, and with an admin server, if it has an address.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the settings of the lease contradict each other, the shard of the pod is not
    /// known, a setting has no effect, or `config` is invalid.
    pub fn builder(&self, config: &Config, name: &str) -> Result<OperatorBuilder, SettingsError> {
        self.check()?;
        let mut builder = Operator::builder();
        if self.leader_election.unwrap_or(true) {
            builder = builder.leader_election(self.election(config, name)?);
        }
        if let Some(mut server) = self.admin_server() {
            if self.authorize_metrics == Some(true) {
                server = server.authorize_metrics(Client::try_from(config.clone())?);
            }
            builder = builder.admin_server(server);
        }
        if let Some(time) = self.drain_timeout {
            builder = builder.drain_timeout(time);
        }
        if let Some(time) = self.report_blocked_after {
            builder = builder.report_blocked_after(time);
        }
        if let Some(time) = self.resign_blocked_after {
            builder = builder.resign_blocked_after(time);
        }
        Ok(builder)
    }

    /// Creates a client for `operator`, as [`Operator::connect`] does, with the limit of requests.
    ///
    /// # Errors
    ///
    /// [`kube::Error`] if `config` is invalid.
    pub fn connect(&self, operator: &Operator, config: Config) -> Result<Client, kube::Error> {
        let client = operator.connect(config)?;
        let Some(per_second) = self.requests_per_second else {
            return Ok(client);
        };
        let twice = per_second.saturating_mul(NonZeroU32::MIN.saturating_add(1));
        let burst = self.request_burst.unwrap_or(twice);
        Ok(RequestBudget::new(per_second, burst).client(client))
    }

    /// The leader election, also if [`leader_election`](Self::leader_election) is off.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the settings of the lease contradict each other, or the shard of the pod is
    /// not known.
    pub fn election(&self, config: &Config, name: &str) -> Result<LeaderElection, SettingsError> {
        let lease = self.lease_name.as_deref().unwrap_or(name);
        let lease = match self.shard()? {
            Some(shard) => format!("{lease}-{}", shard.index()),
            None => lease.to_owned(),
        };
        let namespace = self.namespace(config);
        let mut election = LeaderElection::builder(config.clone(), namespace, lease);
        let pod_name = || variable("POD_NAME");
        if let Some(identity) = self.identity.clone().or_else(pod_name) {
            election = election.identity(identity);
        }
        if let Some(time) = self.lease_duration {
            election = election.lease_duration(time);
        }
        if let Some(time) = self.lease_renew_deadline {
            election = election.renew_deadline(time);
        }
        if let Some(time) = self.lease_retry_period {
            election = election.retry_period(time);
        }
        Ok(election.build()?)
    }

    /// The shard of this pod, if [`shards`](Self::shards) is set. Select the primary objects with it:
    /// [`Watch::shard`](crate::Watch::shard).
    ///
    /// # Errors
    ///
    /// [`SettingsError::Shard`] if the variable `POD_NAME` has no ordinal, or one that is not less than
    /// the number of shards.
    pub fn shard(&self) -> Result<Option<Shard>, SettingsError> {
        let Some(shards) = self.shards else {
            return Ok(None);
        };
        let pod = variable("POD_NAME").unwrap_or_default();
        Ok(Some(Shard::of_pod(&pod, shards.get())?))
    }

    /// The namespace of the lease: that of the settings, of the variable `POD_NAMESPACE`, or of
    /// `config`.
    #[must_use]
    pub fn namespace(&self, config: &Config) -> String {
        let namespace = self.lease_namespace.clone();
        namespace.unwrap_or_else(|| Self::pod_namespace(config))
    }

    /// The namespace of this pod: that of the variable `POD_NAMESPACE`, or of `config`. Use it for the
    /// objects of an operator of one namespace, whose lease can be in another one.
    ///
    /// # Example
    ///
    /// ```
    /// use kube::Config;
    /// use windlass::settings::{OperatorSettings, Settings};
    ///
    /// let mut config = Config::new("http://127.0.0.1:8001".parse()?);
    /// config.default_namespace = "shop".to_owned();
    /// let mut settings = Settings::default();
    /// settings.operator.lease_namespace = Some("leases".to_owned());
    /// assert_eq!(settings.operator.namespace(&config), "leases");
    /// # if std::env::var_os("POD_NAMESPACE").is_none() {
    /// assert_eq!(OperatorSettings::pod_namespace(&config), "shop");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn pod_namespace(config: &Config) -> String {
        variable("POD_NAMESPACE").unwrap_or_else(|| config.default_namespace.clone())
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.leader_election == Some(false) {
            let of_the_lease = [
                ("leaseNamespace", self.lease_namespace.is_some()),
                ("leaseName", self.lease_name.is_some()),
                ("identity", self.identity.is_some()),
                ("leaseDuration", self.lease_duration.is_some()),
                ("leaseRenewDeadline", self.lease_renew_deadline.is_some()),
                ("leaseRetryPeriod", self.lease_retry_period.is_some()),
                ("resignBlockedAfter", self.resign_blocked_after.is_some()),
            ];
            unused(&of_the_lease, "no leader election")?;
        }
        if self.requests_per_second.is_none() {
            let burst = ("requestBurst", self.request_burst.is_some());
            incomplete(&[burst], "requestsPerSecond")?;
        }
        #[cfg(feature = "tls")]
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            incomplete(
                &[("tlsCertificate", self.tls_certificate.is_some())],
                "tlsKey",
            )?;
            incomplete(&[("tlsKey", true)], "tlsCertificate")?;
        }
        if self.health_details == Some(HealthDetailsSetting::None) {
            let page = ("diagnostics", self.diagnostics == Some(true));
            unused(&[page], "`healthDetails: none`")?;
        }
        #[cfg(feature = "tls")]
        if self.tls_certificate.is_some() && self.metrics_address.is_none() {
            return Err(SettingsError::TlsOfProbes);
        }
        if self.admin_address.is_some() {
            return Ok(());
        }
        let of_server = [
            ("authorizeMetrics", self.authorize_metrics == Some(true)),
            ("metricsAddress", self.metrics_address.is_some()),
            ("healthDetails", self.health_details.is_some()),
            ("diagnostics", self.diagnostics == Some(true)),
            ("checkTimeout", self.check_timeout.is_some()),
            ("adminReadTimeout", self.admin_read_timeout.is_some()),
            ("adminWriteTimeout", self.admin_write_timeout.is_some()),
            (
                "adminConnectionTimeout",
                self.admin_connection_timeout.is_some(),
            ),
            ("adminConnections", self.admin_connections.is_some()),
            (
                "adminConnectionsPerClient",
                self.admin_connections_per_client.is_some(),
            ),
        ];
        incomplete(&of_server, "adminAddress")
    }

    /// The admin server, if it has an address. Without
    /// [`authorize_metrics`](Self::authorize_metrics), which needs a client.
    #[must_use]
    pub fn admin_server(&self) -> Option<AdminServer> {
        let default = AdminLimits::default();
        let limits = AdminLimits {
            read_timeout: self.admin_read_timeout.unwrap_or(default.read_timeout),
            write_timeout: self.admin_write_timeout.unwrap_or(default.write_timeout),
            connection_timeout: (self.admin_connection_timeout)
                .unwrap_or(default.connection_timeout),
            connections: self.admin_connections.unwrap_or(default.connections),
            connections_per_client: (self.admin_connections_per_client)
                .unwrap_or(default.connections_per_client),
            ..default
        };
        let mut server = AdminServer::new(self.admin_address?).limits(limits);
        if let Some(address) = self.metrics_address {
            server = server.metrics_on(address);
        }
        #[cfg(feature = "tls")]
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            server = server.tls(certificate, key);
        }
        if let Some(clients) = self.health_details {
            server = server.health_details(match clients {
                HealthDetailsSetting::Loopback => HealthDetails::Loopback,
                HealthDetailsSetting::All => HealthDetails::All,
                HealthDetailsSetting::None => HealthDetails::None,
            });
        }
        if self.diagnostics == Some(true) {
            server = server.diagnostics();
        }
        if let Some(limit) = self.check_timeout {
            server = server.check_timeout(limit);
        }
        Some(server)
    }
}

/// The value of an environment variable that the manifests of a pod set. `None` if it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

//! The settings of the process.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use clap::{Args, ValueEnum};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};
use windlass_operator::{
    AdminLimits, HealthDetails, InvalidElection, OperatorBuilder, RequestBudget,
};

use super::period;
use crate::{AdminServer, LeaderElection, Operator};

/// Settings of an [`Operator`]: its leader election, its admin server, and its end.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[command(next_help_heading = "Operator")]
#[non_exhaustive]
pub struct OperatorSettings {
    /// Whether only one replica runs the controllers [default: true].
    #[arg(long, env = "OPERATOR_LEADER_ELECTION", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_election: Option<bool>,

    /// The namespace of the lease [default: that of the client].
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// The name of the lease [default: the name of the operator].
    #[arg(long, env = "OPERATOR_LEASE_NAME", value_name = "NAME")]
    pub lease_name: Option<String>,

    /// What this replica writes into the lease [default: the host name and a random number].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,

    /// The time without a renewal after which another replica can acquire the lease [default: 15s].
    #[arg(long, env = "OPERATOR_LEASE_DURATION", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub lease_duration: Option<Duration>,

    /// The time without a renewal after which the leader stops [default: 10s].
    #[arg(long, env = "OPERATOR_RENEW_DEADLINE", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub renew_deadline: Option<Duration>,

    /// The time between two renewals [default: 2s].
    #[arg(long, env = "OPERATOR_RETRY_PERIOD", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub retry_period: Option<Duration>,

    /// Where health and metrics are served [default: nowhere].
    #[arg(long, env = "OPERATOR_ADMIN_ADDRESS", value_name = "ADDRESS")]
    pub admin_address: Option<SocketAddr>,

    /// Where metrics are served, instead of the admin address [default: there].
    #[arg(long, env = "OPERATOR_METRICS_ADDRESS", value_name = "ADDRESS")]
    pub metrics_address: Option<SocketAddr>,

    /// The PEM file with the certificate chain of the metrics [default: no TLS].
    #[cfg(feature = "tls")]
    #[arg(
        long,
        env = "OPERATOR_TLS_CERTIFICATE",
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub tls_certificate: Option<std::path::PathBuf>,

    /// The PEM file with the private key of the certificate.
    #[cfg(feature = "tls")]
    #[arg(
        long,
        env = "OPERATOR_TLS_KEY",
        value_name = "FILE",
        requires = "tls_certificate"
    )]
    pub tls_key: Option<std::path::PathBuf>,

    /// Which clients see the reasons on health pages [default: loopback].
    #[arg(long, env = "OPERATOR_HEALTH_DETAILS", value_name = "CLIENTS")]
    pub health_details: Option<HealthDetailsSetting>,

    /// Whether `/debug/windlass` is served [default: false].
    #[arg(long, env = "OPERATOR_DIAGNOSTICS", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub diagnostics: Option<bool>,

    /// The time limit of one health check [default: 500ms].
    #[arg(long, env = "OPERATOR_CHECK_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub check_timeout: Option<Duration>,

    /// The time limit for reading a request to the admin server [default: 5s].
    #[arg(long, env = "OPERATOR_ADMIN_READ_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub admin_read_timeout: Option<Duration>,

    /// The longest time without progress while the admin server sends a response [default: 5s].
    #[arg(long, env = "OPERATOR_ADMIN_WRITE_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub admin_write_timeout: Option<Duration>,

    /// The most connections to each port of the admin server [default: 512].
    #[arg(long, env = "OPERATOR_ADMIN_CONNECTIONS", value_name = "NUMBER")]
    pub admin_connections: Option<NonZeroUsize>,

    /// The time for the controllers to end after a stop [default: 25s].
    #[arg(long, env = "OPERATOR_DRAIN_TIMEOUT", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub drain_timeout: Option<Duration>,

    /// The time after which a blocked runtime is reported [default: 30s].
    #[arg(long, env = "OPERATOR_REPORT_BLOCKED_AFTER", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub report_blocked_after: Option<Duration>,

    /// The time after which a replica with a blocked runtime stops to renew its lease [default: 60s].
    #[arg(long, env = "OPERATOR_RESIGN_BLOCKED_AFTER", value_name = "DURATION", value_parser = period::parse)]
    #[serde(with = "period")]
    pub resign_blocked_after: Option<Duration>,

    /// The requests per second to the API server, after a burst [default: no limit].
    #[arg(long, env = "OPERATOR_REQUESTS_PER_SECOND", value_name = "NUMBER")]
    pub requests_per_second: Option<NonZeroU32>,

    /// The burst of requests, with `requests-per-second` [default: twice that].
    #[arg(long, env = "OPERATOR_REQUEST_BURST", value_name = "NUMBER")]
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
    /// [`InvalidElection`] if the settings of the lease contradict each other.
    pub fn builder(&self, config: &Config, name: &str) -> Result<OperatorBuilder, InvalidElection> {
        let mut builder = Operator::builder();
        if self.leader_election.unwrap_or(true) {
            builder = builder.leader_election(self.election(config, name)?);
        }
        if let Some(server) = self.admin_server() {
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
    /// [`InvalidElection`] if the settings of the lease contradict each other.
    pub fn election(&self, config: &Config, name: &str) -> Result<LeaderElection, InvalidElection> {
        let namespace = self.lease_namespace.as_ref();
        let namespace = namespace.unwrap_or(&config.default_namespace);
        let lease = self.lease_name.as_deref().unwrap_or(name);
        let mut election = LeaderElection::builder(config.clone(), namespace, lease);
        if let Some(identity) = &self.identity {
            election = election.identity(identity);
        }
        if let Some(time) = self.lease_duration {
            election = election.lease_duration(time);
        }
        if let Some(time) = self.renew_deadline {
            election = election.renew_deadline(time);
        }
        if let Some(time) = self.retry_period {
            election = election.retry_period(time);
        }
        election.build()
    }

    /// The admin server, if it has an address.
    #[must_use]
    pub fn admin_server(&self) -> Option<AdminServer> {
        let default = AdminLimits::default();
        let limits = AdminLimits {
            read_timeout: self.admin_read_timeout.unwrap_or(default.read_timeout),
            write_timeout: self.admin_write_timeout.unwrap_or(default.write_timeout),
            connections: self.admin_connections.unwrap_or(default.connections),
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

//! Reads and writes of the lease on the API server.

use std::{future::Future, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::timeout;

use super::{
    LeaseError, Settings,
    campaign::{Answer, LeaseRequest, Record},
};

/// A client of one lease. It keeps the lease as last read or written.
pub(super) struct LeaseApi {
    api: Api<Lease>,
    name: String,
    /// The lease, as `namespace/name`.
    full_name: String,
    last: Option<Lease>,
}

/// Why a request failed.
enum Refusal {
    Absent,
    Conflict,
    Failed(LeaseError),
}

// === impl LeaseApi ===

impl LeaseApi {
    pub(super) fn new(client: Client, settings: &Settings) -> Self {
        let Settings {
            namespace, name, ..
        } = settings;
        Self {
            api: Api::namespaced(client, namespace),
            name: name.clone(),
            full_name: format!("{namespace}/{name}"),
            last: None,
        }
    }

    /// Sends `request` with the timeout `limit`. Returns the response, and the error if it failed.
    pub(super) async fn send(
        &mut self,
        request: LeaseRequest,
        limit: Duration,
    ) -> (Answer, Option<LeaseError>) {
        let params = PostParams::default();
        let answered = match request {
            LeaseRequest::Read => self.limited("get", limit, self.api.get(&self.name)).await,
            LeaseRequest::Create(record) => {
                let mut lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.name.clone()),
                        ..ObjectMeta::default()
                    },
                    ..Lease::default()
                };
                write(&mut lease, record);
                let created = self.api.create(&params, &lease);
                let created = self.limited("create", limit, created).await;
                return self.written(created, None);
            }
            LeaseRequest::Replace(record) => {
                // The complete object, with the resourceVersion and uid that were read. So the
                // write fails if the lease has changed, and labels are preserved.
                let mut lease = self.last.clone().unwrap_or_default();
                write(&mut lease, record);
                let replaced = self.api.replace(&self.name, &params, &lease);
                let replaced = self.limited("update", limit, replaced).await;
                return self.written(replaced, lease.metadata.uid.as_deref());
            }
        };
        match answered {
            Ok(lease) => {
                let record = read(&lease);
                self.last = Some(lease);
                (Answer::Found(record), None)
            }
            Err(refusal) => refusal.into_answer(),
        }
    }

    /// Converts the response to a write of the lease with this uid.
    fn written(
        &mut self,
        answered: Result<Lease, Refusal>,
        uid: Option<&str>,
    ) -> (Answer, Option<LeaseError>) {
        match answered {
            // The lease was deleted, and our write created it again: another replica may have led
            // meanwhile.
            Ok(lease) if uid.is_some() && lease.metadata.uid.as_deref() != uid => {
                (Answer::Absent, None)
            }
            Ok(lease) => {
                let uid = lease.metadata.uid.clone();
                self.last = Some(lease);
                (Answer::Written { uid }, None)
            }
            Err(refusal) => refusal.into_answer(),
        }
    }

    async fn limited(
        &self,
        verb: &'static str,
        limit: Duration,
        request: impl Future<Output = kube::Result<Lease>>,
    ) -> Result<Lease, Refusal> {
        let lease = self.full_name.clone();
        let Ok(answered) = timeout(limit, request).await else {
            return Err(Refusal::Failed(LeaseError::Silent { verb, lease, limit }));
        };
        answered.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 409 => Refusal::Conflict,
            kube::Error::Api(status) if status.code == 404 && verb != "create" => Refusal::Absent,
            kube::Error::Api(status) => {
                let (code, message) = (status.code, shorten(&status.message));
                Refusal::Failed(match code {
                    403 => LeaseError::Forbidden {
                        verb,
                        lease,
                        message,
                    },
                    404 => LeaseError::NoNamespace {
                        verb,
                        lease,
                        message,
                    },
                    _ => LeaseError::Refused {
                        verb,
                        lease,
                        code,
                        message,
                    },
                })
            }
            source => Refusal::Failed(LeaseError::Connection {
                verb,
                lease,
                source: Box::new(source),
            }),
        })
    }
}

// === impl Refusal ===

impl Refusal {
    fn into_answer(self) -> (Answer, Option<LeaseError>) {
        match self {
            Self::Absent => (Answer::Absent, None),
            Self::Conflict => (Answer::Conflict, None),
            Self::Failed(error) => (Answer::Failed, Some(error)),
        }
    }
}

/// Reads the record of `lease`.
fn read(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        uid: lease.metadata.uid.clone(),
        holder: spec.holder_identity.unwrap_or_default(),
        seconds: spec.lease_duration_seconds.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// Writes `record` into `lease`.
fn write(lease: &mut Lease, record: Record) {
    let spec = lease.spec.get_or_insert_default();
    *spec = LeaseSpec {
        holder_identity: Some(record.holder),
        lease_duration_seconds: Some(record.seconds),
        acquire_time: record.acquired.map(MicroTime),
        renew_time: record.renewed.map(MicroTime),
        lease_transitions: Some(record.transitions),
        ..std::mem::take(spec)
    };
}

/// Shortens the message of a server to its first line and 256 characters: a proxy may respond with
/// an HTML page.
fn shorten(message: &str) -> String {
    /// Enough for the message of RBAC about a forbidden request.
    const LIMIT: usize = 256;
    let line = message.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(LIMIT).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn a_message_of_the_server_is_one_line_of_bounded_length() {
        assert_eq!(shorten("not allowed"), "not allowed");
        assert_eq!(shorten("<html>\n<body>"), "<html>…");
        assert_eq!(shorten(&"ä".repeat(5000)).chars().count(), 257);
    }
}

//! The lease on the API server: records in, records out.

use std::{future::Future, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use tokio::time::timeout;

use super::{
    LeaseError, Settings,
    campaign::{Answer, Ask, Record},
};

/// One lease, as it was when it was last read or written.
pub(super) struct Leases {
    api: Api<Lease>,
    name: String,
    /// The lease, as `namespace/name`.
    place: String,
    last: Option<Lease>,
}

/// What came of a request, where it came to nothing.
enum Refusal {
    Absent,
    Conflict,
    Failed(LeaseError),
}

// === impl Leases ===

impl Leases {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings {
            client,
            namespace,
            name,
            ..
        } = settings;
        Self {
            api: Api::namespaced(client.clone(), namespace),
            name: name.clone(),
            place: format!("{namespace}/{name}"),
            last: None,
        }
    }

    /// Asks, and says what was answered within `limit`; and why, if it is a failure.
    pub(super) async fn ask(&mut self, ask: Ask, limit: Duration) -> (Answer, Option<LeaseError>) {
        let params = PostParams::default();
        let answered = match ask {
            Ask::Read => self.limited("get", limit, self.api.get(&self.name)).await,
            Ask::Create(record) => {
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
            Ask::Replace(record) => {
                // All of it, with its resourceVersion and its uid: it is written if it is
                // still the one that was read, and whatever else stands in it stays.
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
            Err(refusal) => refusal.told(),
        }
    }

    /// What came of a write of the lease with this uid.
    fn written(
        &mut self,
        answered: Result<Lease, Refusal>,
        uid: Option<&str>,
    ) -> (Answer, Option<LeaseError>) {
        match answered {
            // It was deleted, and our write made it anew: somebody may have led in between.
            Ok(lease) if uid.is_some() && lease.metadata.uid.as_deref() != uid => {
                (Answer::Absent, None)
            }
            Ok(lease) => {
                self.last = Some(lease);
                (Answer::Written, None)
            }
            Err(refusal) => refusal.told(),
        }
    }

    async fn limited(
        &self,
        verb: &'static str,
        limit: Duration,
        request: impl Future<Output = kube::Result<Lease>>,
    ) -> Result<Lease, Refusal> {
        let lease = self.place.clone();
        let Ok(answered) = timeout(limit, request).await else {
            return Err(Refusal::Failed(LeaseError::Silent { verb, lease, limit }));
        };
        answered.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 409 => Refusal::Conflict,
            kube::Error::Api(status) if status.code == 404 && verb != "create" => Refusal::Absent,
            kube::Error::Api(status) => {
                let (code, message) = (status.code, status.message);
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
    fn told(self) -> (Answer, Option<LeaseError>) {
        match self {
            Self::Absent => (Answer::Absent, None),
            Self::Conflict => (Answer::Conflict, None),
            Self::Failed(error) => (Answer::Failed, Some(error)),
        }
    }
}

/// What `lease` says.
fn read(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        seconds: spec.lease_duration_seconds.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// Has `lease` say `record`.
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

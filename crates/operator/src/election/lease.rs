//! Reads and writes of the lease on the API server.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Client, Resource as _,
    api::{ObjectMeta, PostParams},
    core::{Request, params::GetParams, request::Error as BuildError},
};
use windlass_informer::{
    api_request::{self, NOT_FOUND, RequestError, ResponseLimits, ServerStatus},
    one_line,
};

use super::{
    LeaseError, Settings,
    campaign::{Answer, LeaseRequest, Record},
};
use crate::MAX_RESPONSE;

/// A client of one lease. It keeps the lease as last read or written.
pub(super) struct LeaseApi {
    client: Client,
    /// The URLs of leases in the namespace.
    requests: Request,
    name: String,
    /// The lease, as `namespace/name`.
    full_name: String,
    last: Option<Lease>,
}

/// Why a request failed.
enum Failure {
    Absent,
    Conflict,
    Failed {
        error: LeaseError,
        retry_after: Option<Duration>,
    },
}

// === impl LeaseApi ===

impl LeaseApi {
    pub(super) fn new(client: Client, settings: &Settings) -> Self {
        let Settings {
            namespace, name, ..
        } = settings;
        Self {
            client,
            requests: Request::new(Lease::url_path(&(), Some(namespace))),
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
            LeaseRequest::Read => {
                let request = self.requests.get(&self.name, &GetParams::default());
                self.limited("get", limit, request).await
            }
            LeaseRequest::Create(record) => {
                let mut lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.name.clone()),
                        ..ObjectMeta::default()
                    },
                    ..Lease::default()
                };
                write(&mut lease, record);
                let request = encode(&lease).and_then(|lease| self.requests.create(&params, lease));
                let created = self.limited("create", limit, request).await;
                return self.written(created, None);
            }
            LeaseRequest::Replace(record) => {
                // The complete object, with the resourceVersion and uid that were read. So the
                // write fails if the lease has changed, and labels are preserved.
                let mut lease = self.last.clone().unwrap_or_default();
                write(&mut lease, record);
                let request = encode(&lease)
                    .and_then(|lease| self.requests.replace(&self.name, &params, lease));
                let replaced = self.limited("update", limit, request).await;
                return self.written(replaced, lease.metadata.uid.as_deref());
            }
        };
        match answered {
            Ok(lease) => {
                let record = read(&lease);
                self.last = Some(lease);
                (Answer::Found(record), None)
            }
            Err(failure) => failure.into_answer(),
        }
    }

    /// Converts the response to a write of the lease with this uid.
    fn written(
        &mut self,
        answered: Result<Lease, Failure>,
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
            Err(failure) => failure.into_answer(),
        }
    }

    /// Sends `request` with the timeout `limit`, and decodes the lease in the response.
    async fn limited(
        &self,
        verb: &'static str,
        limit: Duration,
        request: Result<http::Request<Vec<u8>>, BuildError>,
    ) -> Result<Lease, Failure> {
        let lease = self.full_name.clone();
        let connection = |source| {
            Failure::of(LeaseError::Connection {
                verb,
                lease: lease.clone(),
                source: Box::new(source),
            })
        };
        let request = request.map_err(|error| connection(kube::Error::BuildRequest(error)))?;
        let limits = ResponseLimits {
            time: limit,
            bytes: MAX_RESPONSE,
        };
        match api_request::send(&self.client, request, limits).await {
            Ok(body) => api_request::decode(&body).map_err(connection),
            Err(RequestError::Status(status)) => Err(Failure::refused(verb, lease, &status)),
            Err(RequestError::Connection(error)) => Err(connection(error)),
            Err(RequestError::TimedOut) => {
                Err(Failure::of(LeaseError::Silent { verb, lease, limit }))
            }
        }
    }
}

// === impl Failure ===

impl Failure {
    fn of(error: LeaseError) -> Self {
        Self::Failed {
            error,
            retry_after: None,
        }
    }

    fn refused(verb: &'static str, lease: String, status: &ServerStatus) -> Self {
        let message = one_line(&status.message).into_owned();
        let error = match status.code {
            409 => return Self::Conflict,
            // A proxy may also respond with 404, by mistake and without this reason.
            404 if verb != "create" && status.reason == NOT_FOUND => return Self::Absent,
            403 => LeaseError::Forbidden {
                verb,
                lease,
                message,
            },
            404 if verb == "create" => LeaseError::NoNamespace {
                verb,
                lease,
                message,
            },
            code => LeaseError::Refused {
                verb,
                lease,
                code,
                // It may quote an object, or describe a crash.
                message: if code == 422 || code >= 500 {
                    String::new()
                } else {
                    message
                },
            },
        };
        Self::Failed {
            error,
            retry_after: status.retry_after,
        }
    }

    fn into_answer(self) -> (Answer, Option<LeaseError>) {
        match self {
            Self::Absent => (Answer::Absent, None),
            Self::Conflict => (Answer::Conflict, None),
            Self::Failed { error, retry_after } => {
                let answer = retry_after.map_or(Answer::Failed, Answer::RetryAfter);
                (answer, Some(error))
            }
        }
    }
}

fn encode(lease: &Lease) -> Result<Vec<u8>, BuildError> {
    serde_json::to_vec(lease).map_err(BuildError::SerializeBody)
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

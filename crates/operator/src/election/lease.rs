//! Reads and writes of the lease on the API server.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{
    Client, Resource as _,
    api::PostParams,
    core::{Request, params::GetParams, request::Error as BuildError},
};
use serde_json::{Map, Value, json};
use windlass_informer::{
    api_request::{self, NOT_FOUND, RequestError, ResponseLimits, ServerStatus},
    one_line,
};

use super::{
    LeaseError, Settings,
    campaign::{Answer, LeaseRequest},
    record::Record,
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
    last: Option<LeaseObject>,
}

/// A lease as JSON: content that no [`Lease`] can hold is read, and other fields are kept.
type LeaseObject = Map<String, Value>;

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
                let mut lease = LeaseObject::new();
                lease.insert("apiVersion".to_owned(), Lease::api_version(&()).into());
                lease.insert("kind".to_owned(), Lease::kind(&()).into());
                lease.insert("metadata".to_owned(), json!({ "name": self.name }));
                write(&mut lease, &record);
                let request = encode(&lease).and_then(|lease| self.requests.create(&params, lease));
                let created = self.limited("create", limit, request).await;
                return self.written(created, None);
            }
            LeaseRequest::Replace(record) => {
                // The complete object, with the resourceVersion and uid that were read. So the
                // write fails if the lease has changed, and labels are preserved.
                let mut lease = self.last.clone().unwrap_or_default();
                write(&mut lease, &record);
                let request = encode(&lease)
                    .and_then(|lease| self.requests.replace(&self.name, &params, lease));
                let replaced = self.limited("update", limit, request).await;
                return self.written(replaced, uid(&lease));
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
        answered: Result<LeaseObject, Failure>,
        written: Option<&str>,
    ) -> (Answer, Option<LeaseError>) {
        match answered {
            // The lease was deleted, and our write created it again: another replica may have led
            // meanwhile.
            Ok(lease) if written.is_some() && uid(&lease) != written => (Answer::Absent, None),
            Ok(lease) => {
                let uid = uid(&lease).map(str::to_owned);
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
    ) -> Result<LeaseObject, Failure> {
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

fn encode(lease: &LeaseObject) -> Result<Vec<u8>, BuildError> {
    serde_json::to_vec(lease).map_err(BuildError::SerializeBody)
}

fn uid(lease: &LeaseObject) -> Option<&str> {
    lease.get("metadata")?.get("uid")?.as_str()
}

/// Reads the record of `lease`. A field that cannot be read is like one that is absent, except that
/// its changes are seen: the server accepts times that are outside of the range of a [`Timestamp`].
fn read(lease: &LeaseObject) -> Record {
    let mut unreadable = String::new();
    let spec = lease.get("spec");
    let field = |name| spec.and_then(|spec| spec.get(name));
    let holder = field("holderIdentity").and_then(Value::as_str);
    let whole = |name| field(name).and_then(Value::as_i64).map(i32::try_from);
    let mut time = |name| {
        let value = field(name).filter(|it| !it.is_null())?;
        let time = value.as_str().and_then(|it| it.parse::<Timestamp>().ok());
        if time.is_none() {
            unreadable.push_str(&value.to_string());
        }
        time
    };
    Record {
        uid: uid(lease).map(str::to_owned),
        acquired: time("acquireTime"),
        renewed: time("renewTime"),
        holder: holder.unwrap_or_default().to_owned(),
        seconds: whole("leaseDurationSeconds").map_or(0, Result::unwrap_or_default),
        transitions: whole("leaseTransitions").map_or(0, Result::unwrap_or_default),
        unreadable,
    }
}

/// Writes `record` into `lease`.
fn write(lease: &mut LeaseObject, record: &Record) {
    let spec = lease.entry("spec").or_insert_with(|| json!({}));
    if !spec.is_object() {
        *spec = json!({});
    }
    let time = |time: Option<Timestamp>| json!(time.map(MicroTime));
    spec["holderIdentity"] = json!(record.holder);
    spec["leaseDurationSeconds"] = json!(record.seconds);
    spec["acquireTime"] = time(record.acquired);
    spec["renewTime"] = time(record.renewed);
    spec["leaseTransitions"] = json!(record.transitions);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LeaseObject, read, write};
    use crate::election::record::Record;

    fn lease(spec: serde_json::Value) -> LeaseObject {
        let metadata = json!({ "uid": "u", "labels": { "a": "b" } });
        let lease = [("metadata", metadata), ("spec", spec)];
        lease
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    #[test]
    fn a_time_that_cannot_be_read_is_absent_and_its_changes_are_seen() {
        let far = |time: &str| {
            read(&lease(
                json!({ "holderIdentity": "them", "renewTime": time }),
            ))
        };
        let one = far("9999-12-31T23:59:59.000000Z");
        assert_eq!((one.renewed, &*one.holder), (None, "them"));
        assert_eq!(one, far("9999-12-31T23:59:59.000000Z"));
        assert_ne!(one, far("9999-12-31T23:59:59.000001Z"));
    }

    #[test]
    fn any_content_is_a_record_and_is_replaced() {
        for spec in [
            json!(null),
            json!("none"),
            json!([]),
            json!({ "leaseDurationSeconds": 1e30, "holderIdentity": 7, "renewTime": {} }),
        ] {
            let mut lease = lease(spec);
            let record = read(&lease);
            assert_eq!((record.seconds, &*record.holder), (0, ""));
            let ours = Record {
                holder: "us".to_owned(),
                seconds: 15,
                renewed: Some(jiff::Timestamp::UNIX_EPOCH),
                ..Record::default()
            };
            write(&mut lease, &ours);
            let written = read(&lease);
            assert_eq!(written.uid.as_deref(), Some("u"));
            assert_eq!(
                (written.renewed, written.holder),
                (ours.renewed, ours.holder)
            );
            assert_eq!(lease["metadata"]["labels"]["a"], "b");
        }
    }
}

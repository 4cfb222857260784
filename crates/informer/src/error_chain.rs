//! An error and its sources as one line, without contents of objects.

use std::{error::Error, fmt, net::SocketAddr, sync::Arc};

use kube::core::Status;

use crate::{
    message::{one_line, one_line_of},
    panics,
};

/// The maximum length of the text of an error that is not a response. Longer than any text of ours.
const LONGEST: usize = 1000;

/// Displays an error and its sources as one line: what failed, and then why, each cause once.
///
/// Use it when you log an error.
///
/// # Contract
///
/// *Guaranteed.* A response of the API server ([`kube::Error::Api`] or a [`Status`], also in a `Box`
/// or an `Arc`, and where the text of another error includes that of its source) is shown as its
/// code, its reason, and its message cut to one line of 300 characters. The message is omitted if it
/// may quote an object or a crash: a 422 only shows the names of the fields, and a 5xx no message. A
/// response that does not decode only shows the position. A refused connection shows its address.
/// The text of any other error is cut to one line of 1,000 characters; if its `Display` panics, the
/// message of the panic is shown.
///
/// *Not guaranteed.* That other errors display no content of objects, for example errors of
/// handlers that convert a response into a text of their own.
///
/// # Example
///
/// ```
/// use std::io;
///
/// use windlass_informer::ErrorChain;
///
/// let error = kube::Error::ReadEvents(io::Error::other("the disk is full"));
/// // kube's text includes that of its source, which is not repeated.
/// let text = ErrorChain::new(&error).to_string();
/// assert_eq!(text, "Error reading events stream: the disk is full");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(&'a (dyn Error + 'static));

// === impl ErrorChain ===

impl<'a> ErrorChain<'a> {
    /// Displays `error` and its sources.
    #[must_use]
    pub fn new(error: &'a (dyn Error + 'static)) -> Self {
        Self(error)
    }
}

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = text(self.0);
        f.write_str(&last)?;
        let mut cause = source(self.0);
        while let Some(error) = cause {
            let text = text(error);
            // Many errors include the text of their source.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
                last = text;
            }
            cause = source(error);
        }
        Ok(())
    }
}

/// The source of an error, unless the source displays what [`response`] leaves out.
fn source<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match response(error) {
        Some(_) => None,
        None => panics::catch(|| error.source()).unwrap_or(None),
    }
}

/// The text of one error, without its sources. A panic of its `Display` is shown instead.
fn text(error: &(dyn Error + 'static)) -> String {
    panics::catch(|| own_text(error)).unwrap_or_else(|panic| {
        format!("an error whose text cannot be shown: it panicked: {panic}")
    })
}

fn own_text(error: &(dyn Error + 'static)) -> String {
    if let Some(shown) = response(error) {
        return shown;
    }
    let mut text = error.to_string();
    // Many errors include the text of their source, and kube's text of a response quotes all of it.
    let mut sources = std::iter::successors(error.source(), |error| (*error).source());
    // The response first: the `Display` of another source may panic.
    let quoted = |it| {
        let shown = response(it)?;
        Some((it.to_string(), shown))
    };
    if let Some((quoted, shown)) = sources.find_map(quoted) {
        text = text.replace(&quoted, &shown);
    }
    let shown = one_line_of(LONGEST, &text);
    match address(error, &text) {
        Some(address) => format!("{shown} {address}"),
        None => shown.into_owned(),
    }
}

/// The text of a response of the API server. `None` for any other error.
fn response(error: &(dyn Error + 'static)) -> Option<String> {
    match inner::<kube::Error>(error) {
        Some(kube::Error::Api(status)) => Some(refusal(status)),
        Some(kube::Error::SerdeError(error)) => Some(format!(
            "the response of the API server does not decode (line {}, column {})",
            error.line(),
            error.column()
        )),
        _ => inner::<Status>(error).map(refusal),
    }
}

/// Returns `error` as a `T`, also if it is a `Box<T>` or an `Arc<T>`: boxed sources of other errors
/// have those types.
fn inner<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let boxed = || error.downcast_ref::<Box<T>>().map(|it| &**it);
    let shared = || error.downcast_ref::<Arc<T>>().map(|it| &**it);
    error.downcast_ref().or_else(boxed).or_else(shared)
}

/// A refusal of the API server.
fn refusal(status: &Status) -> String {
    let Status {
        code,
        reason,
        message,
        ..
    } = status;
    let reason = one_line(reason);
    let mut text = format!("the API server answered {code} {reason}");
    match code {
        422 => {
            let causes = status.details.iter().flat_map(|it| &it.causes);
            let fields: Vec<_> = causes.map(|it| one_line(&it.field)).collect();
            if !fields.is_empty() {
                text = format!("{text} ({})", one_line(&fields.join(", ")));
            }
        }
        500.. => {}
        _ if message.is_empty() => {}
        _ => text = format!("{text} ({})", one_line(message)),
    }
    text
}

/// The address of a connection that was refused. Only the `Debug` of hyper's error has it.
fn address(error: &(dyn Error + 'static), text: &str) -> Option<SocketAddr> {
    if text != "tcp connect error" {
        return None;
    }
    let debug = format!("{error:?}");
    let mut words = debug.split([',', '(', ')']).map(str::trim);
    words.find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::io;

    use serde_json::json;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot publish")]
    struct Outer(#[source] kube::Error);

    /// Any form of the same response as a source.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot publish")]
    struct Wrapped<E: Error + 'static>(#[source] E);

    /// As [`Wrapped`], with the text of its source.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot publish: {0}")]
    struct Quoting<E: Error + 'static>(#[source] E);

    #[track_caller]
    fn check(status: serde_json::Value, shown: &str) {
        let status: Status = serde_json::from_value(status).expect("a status");
        let api = || kube::Error::Api(Box::new(status.clone()));
        check_error(&Outer(api()), shown);
        check_error(&Wrapped(Box::new(api())), shown);
        check_error(&Wrapped(Arc::new(api())), shown);
        check_error(&Wrapped(status.clone()), shown);
        check_error(&Wrapped(Box::new(status.clone())), shown);
        check_error(&Wrapped(Arc::new(status.clone())), shown);
        check_error(&Quoting(api()), shown);
        check_error(&Quoting(Box::new(api())), shown);
        check_error(&Quoting(status.clone()), shown);
        let twice = format!("cannot publish: {shown}");
        check_error(&Quoting(Quoting(api())), &twice);
        check_error(&Wrapped(Quoting(Box::new(api()))), &twice);
    }

    #[track_caller]
    fn check_error(error: &(dyn Error + 'static), shown: &str) {
        assert_eq!(ErrorChain::new(error).to_string(), shown, "{error:?}");
    }

    #[test]
    fn an_api_error_is_displayed_with_code_reason_and_one_line_of_its_message() {
        check(
            json!({ "code": 403, "reason": "Forbidden", "message": "pods is forbidden\nreally" }),
            "cannot publish: the API server answered 403 Forbidden (pods is forbidden really)",
        );
        let long = json!({ "code": 409, "reason": "Conflict", "message": "x".repeat(9000) });
        let shown = format!("{}…", "x".repeat(300));
        check(
            long,
            &format!("cannot publish: the API server answered 409 Conflict ({shown})"),
        );
    }

    #[test]
    fn an_error_whose_display_panics_shows_the_panic_and_its_causes() {
        #[derive(Debug)]
        struct Broken(io::Error);

        impl fmt::Display for Broken {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("no text")
            }
        }

        impl Error for Broken {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }

        let broken = || Broken(io::Error::other("the disk is full"));
        let shown = "an error whose text cannot be shown: it panicked: no text: the disk is full";
        check_error(&broken(), shown);
        check_error(&Wrapped(broken()), &format!("cannot publish: {shown}"));
        check_error(&kube::Error::Service(Box::new(broken())), shown);
    }

    #[test]
    fn messages_that_can_quote_objects_or_panics_are_omitted() {
        check(
            json!({
                "code": 422, "reason": "Invalid", "message": "data[k]: Invalid value: \"canary\"",
                "details": { "causes": [
                    { "field": "data[k]", "message": "Invalid value: \"canary\"" },
                    { "field": "spec.n", "message": "Required" },
                ] },
            }),
            "cannot publish: the API server answered 422 Invalid (data[k], spec.n)",
        );
        check(
            json!({ "code": 500, "reason": "InternalError", "message": "canary" }),
            "cannot publish: the API server answered 500 InternalError",
        );
    }

    #[test]
    fn a_decode_error_is_displayed_with_its_position() {
        let error = serde_json::from_str::<u8>("\"canary\"").expect_err("no number");
        let shown =
            "cannot publish: the response of the API server does not decode (line 1, column 8)";
        let error = Arc::new(kube::Error::SerdeError(error));
        check_error(&Quoting(Arc::clone(&error)), shown);
        check_error(&Wrapped(error), shown);
    }

    #[test]
    fn a_cause_that_its_error_contains_is_not_repeated() {
        let error = Outer(kube::Error::ReadEvents(io::Error::other("full")));
        assert_eq!(
            ErrorChain::new(&error).to_string(),
            "cannot publish: Error reading events stream: full"
        );
    }

    #[tokio::test]
    async fn a_refused_connection_names_its_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        // Nothing listens there from here on.
        drop(listener);
        let url = format!("http://{address}").parse().expect("a URL");
        let client = kube::Client::try_from(kube::Config::new(url)).expect("a client");
        let failed = client.apiserver_version().await;
        let error = Outer(failed.expect_err("nothing listens"));
        let shown = ErrorChain::new(&error).to_string();
        assert!(
            shown.contains(&format!("tcp connect error {address}")),
            "{shown}"
        );
        assert!(shown.contains("refused"), "{shown}");
    }
}

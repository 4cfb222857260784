//! Certificate signing requests. The content of their PEM blocks (ASN.1 and signatures) is not
//! checked.
//!
//! Source: `pkg/apis/certificates/validation` and `ValidateSignerName` of Kubernetes 1.36.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{At, Faults};
use crate::metadata::syntax;
use crate::status::FieldError;

/// The valid key usages, in alphabetical order.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The minimum of `expirationSeconds`.
const MIN_EXPIRATION: i64 = 600;

/// The maximum length of the domain of a signer name.
const MAX_DOMAIN: usize = 253;

/// The maximum length of a signer name: its domain, and a path of two names.
const MAX_SIGNER: usize = MAX_DOMAIN + 1 + 253 + 1 + 63;

pub(super) fn request(root: At<'_>, faults: &mut Faults) {
    root.inner("spec", |spec| {
        let pem = decoded(spec.get("request"));
        if blocks(&pem)
            .next()
            .is_none_or(|block| block.label != "CERTIFICATE REQUEST")
        {
            let why = "PEM block type must be CERTIFICATE REQUEST";
            let found = spec.get("request").cloned().unwrap_or_default();
            faults.invalid(spec.path("request"), &found, why);
        }
        usages(spec, faults);
        signer(spec, faults);
        if let Some(seconds) = spec
            .number("expirationSeconds")
            .filter(|it| *it < MIN_EXPIRATION)
        {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            faults.invalid(spec.path("expirationSeconds"), &seconds.into(), why);
        }
    });
}

fn usages(spec: At<'_>, faults: &mut Faults) {
    let list = spec.list("usages");
    if list.is_empty() {
        faults.required(spec.path("usages"), "");
    }
    let path = |at: usize| format!("{}[{at}]", spec.path("usages"));
    for (at, usage) in list.iter().enumerate() {
        if !usage.as_str().is_some_and(|usage| USAGES.contains(&usage)) {
            faults.add(FieldError::not_supported(path(at), usage, USAGES));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, usage) in list.iter().enumerate() {
        if !seen.insert(usage.as_str()) {
            faults.add(FieldError::duplicate(path(at), usage));
        }
    }
}

fn signer(spec: At<'_>, faults: &mut Faults) {
    let name = spec.text("signerName");
    let path = spec.path("signerName");
    if name.is_empty() {
        faults.required(path, "");
        return;
    }
    if name == "kubernetes.io/legacy-unknown" {
        let why = "the legacy signerName is not allowed via this API version";
        faults.invalid(path, &name.into(), why);
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        faults.invalid(path, &name.into(), why);
        return;
    };
    if domain.len() > MAX_DOMAIN {
        faults.add(FieldError::too_long(path.clone(), MAX_DOMAIN));
    }
    labels(&path, domain, syntax::label, faults);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        faults.invalid(path.clone(), &domain.into(), why);
    }
    labels(&path, rest, syntax::subdomain, faults);
    if name.len() > MAX_SIGNER {
        faults.add(FieldError::too_long(path, MAX_SIGNER));
    }
}

/// Reports the first invalid label in a part of a signer name.
fn labels(path: &str, part: &str, rule: impl Fn(&str) -> Option<String>, faults: &mut Faults) {
    let mut invalid = part
        .split('.')
        .filter_map(|label| Some((label, rule(label)?)));
    if let Some((label, why)) = invalid.next() {
        let why = format!("validating label {label:?}: {why}");
        faults.invalid(path, &part.into(), why);
    }
}

/// Returns why the PEM blocks of the certificate in a status are invalid.
pub(crate) fn invalid_certificate(certificate: Option<&Value>) -> Option<String> {
    let pem = decoded(certificate);
    let mut found = blocks(&pem).peekable();
    if pem.is_empty() {
        return None;
    }
    if found.peek().is_none() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    found.find_map(|block| match block {
        Block { label, .. } if label != "CERTIFICATE" => Some(format!(
            "only CERTIFICATE PEM blocks are allowed, found {label:?}"
        )),
        Block {
            has_headers: true, ..
        } => Some("no PEM block headers are permitted".to_owned()),
        Block { .. } => None,
    })
}

/// A PEM block.
struct Block<'a> {
    label: &'a str,
    has_headers: bool,
}

/// Returns the valid blocks of `pem`.
fn blocks(pem: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = pem;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once("-----BEGIN ")?;
            let (label, body) = after.split_once("-----")?;
            rest = body;
            let end = format!("-----END {label}-----");
            let Some((content, after)) = body.split_once(&end) else {
                continue;
            };
            // An empty line ends the headers.
            let headers = content.contains(':').then(|| content.split_once("\n\n"));
            let text = headers.flatten().map_or(content, |(_, text)| text);
            let text: String = text.split_whitespace().collect();
            if STANDARD.decode(text).is_ok() {
                rest = after;
                return Some(Block {
                    label,
                    has_headers: headers.is_some(),
                });
            }
        }
    })
}

/// Decodes the base64 of a field as text.
fn decoded(field: Option<&Value>) -> String {
    let text = field.and_then(Value::as_str).unwrap_or_default();
    let bytes = STANDARD.decode(text).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

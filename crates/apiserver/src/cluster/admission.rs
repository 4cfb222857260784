//! Admission plugins that read other objects than that of the request: limit ranges, resource quotas,
//! service accounts, and classes of ingresses and claims.
//!
//! Source: `plugin/pkg/admission/limitranger`, `plugin/pkg/admission/serviceaccount`,
//! `plugin/pkg/admission/network/defaultingressclass`,
//! `plugin/pkg/admission/storage/storageclass/setdefault`,
//! `pkg/quota/v1` and `k8s.io/apiserver/pkg/admission/plugin/resourcequota` of Kubernetes v1.36.3.

mod accounts;
mod amounts;
mod classes;
mod limits;
mod quotas;

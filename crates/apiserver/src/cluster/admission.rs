//! Admission plugins that read other objects of the namespace of a request: limit ranges, resource
//! quotas and service accounts.
//!
//! Source: `plugin/pkg/admission/limitranger`, `plugin/pkg/admission/serviceaccount`,
//! `pkg/quota/v1` and `k8s.io/apiserver/pkg/admission/plugin/resourcequota` of Kubernetes v1.36.3.

mod accounts;
mod amounts;
mod limits;
mod quotas;

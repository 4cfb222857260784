//! Each path of kube-runtime that `docs/from-kube-rs.md` offers is a path of this crate.

#![allow(
    unused_imports,
    deprecated,
    reason = "the imports are the test, and kube-runtime exports deprecated items too"
)]

use windlass_runtime::Config as _;
use windlass_runtime::Controller as _;
use windlass_runtime::Predicate as _;
use windlass_runtime::PredicateConfig as _;
use windlass_runtime::WatchStreamExt as _;
use windlass_runtime::conditions as _;
use windlass_runtime::controller as _;
use windlass_runtime::controller::Action as _;
use windlass_runtime::controller::Config as _;
use windlass_runtime::controller::Controller as _;
use windlass_runtime::controller::Error as _;
use windlass_runtime::controller::ReconcileReason as _;
use windlass_runtime::controller::RunnerError as _;
use windlass_runtime::events as _;
use windlass_runtime::events::Event as _;
use windlass_runtime::events::EventType as _;
use windlass_runtime::events::Recorder as _;
use windlass_runtime::events::Reference as _;
use windlass_runtime::events::Reporter as _;
use windlass_runtime::finalizer as _;
use windlass_runtime::finalizer::Error as _;
use windlass_runtime::finalizer::Event as _;
use windlass_runtime::finalizer::finalizer as _;
use windlass_runtime::metadata_watcher as _;
use windlass_runtime::predicates as _;
use windlass_runtime::reflector as _;
use windlass_runtime::reflector::Lookup as _;
use windlass_runtime::reflector::ObjectRef as _;
use windlass_runtime::reflector::ObjectRefExtra as _;
use windlass_runtime::reflector::ReflectHandle as _;
use windlass_runtime::reflector::Store as _;
use windlass_runtime::reflector::reflector as _;
use windlass_runtime::reflector::store as _;
use windlass_runtime::reflector::store::Store as _;
use windlass_runtime::reflector::store::Writer as _;
use windlass_runtime::reflector::store::WriterDropped as _;
use windlass_runtime::reflector::store::store as _;
use windlass_runtime::reflector::store::store_shared as _;
use windlass_runtime::reflector::store_shared as _;
use windlass_runtime::scheduler as _;
use windlass_runtime::scheduler::Hold as _;
use windlass_runtime::scheduler::HoldUnless as _;
use windlass_runtime::scheduler::ScheduleRequest as _;
use windlass_runtime::scheduler::Scheduler as _;
use windlass_runtime::scheduler::debounced_scheduler as _;
use windlass_runtime::scheduler::scheduler as _;
use windlass_runtime::utils as _;
use windlass_runtime::utils::Backoff as _;
use windlass_runtime::utils::CancelableJoinHandle as _;
use windlass_runtime::utils::EventDecode as _;
use windlass_runtime::utils::EventModify as _;
use windlass_runtime::utils::Predicate as _;
use windlass_runtime::utils::PredicateConfig as _;
use windlass_runtime::utils::PredicateFilter as _;
use windlass_runtime::utils::Reflect as _;
use windlass_runtime::utils::ResetTimerBackoff as _;
use windlass_runtime::utils::StreamBackoff as _;
use windlass_runtime::utils::WatchStreamExt as _;
use windlass_runtime::utils::predicates as _;
use windlass_runtime::wait as _;
use windlass_runtime::wait::Condition as _;
use windlass_runtime::wait::Error as _;
use windlass_runtime::wait::await_condition as _;
use windlass_runtime::wait::conditions as _;
use windlass_runtime::wait::delete as _;
use windlass_runtime::watcher as _;
use windlass_runtime::watcher::Config as _;
use windlass_runtime::watcher::DefaultBackoff as _;
use windlass_runtime::watcher::Error as _;
use windlass_runtime::watcher::Event as _;
use windlass_runtime::watcher::ExponentialBackoff as _;
use windlass_runtime::watcher::InitialListStrategy as _;
use windlass_runtime::watcher::ListSemantic as _;
use windlass_runtime::watcher::Result as _;
use windlass_runtime::watcher::metadata_watcher as _;
use windlass_runtime::watcher::watch_object as _;
use windlass_runtime::watcher::watcher as _;

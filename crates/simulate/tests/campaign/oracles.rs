//! The oracles, faults and reports of simulations, tested with small operators.

use std::{
    collections::HashSet,
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Event as RecordedEvent};
use kube::{
    Api, Resource as _,
    api::{Patch, PatchParams, PostParams, WatchParams},
    runtime::events::{Event as NewEvent, EventType, Recorder, Reporter},
};
use serde_json::json;
use tokio::time::sleep;
use windlass_controller::{Failure as Failed, Outcome, Reconciler as _, Request};
use windlass_informer::{Event, Informer};
use windlass_simulate::{EndState, Failure, Fault, Plan, Process, Simulation, Step, Walks};

use crate::{
    operators::{self, Ended},
    site::{NAMESPACE, Site, definition, site, with_steps},
};

/// Does nothing.
async fn idle(_: Process) -> Ended {
    pending().await
}

/// Writes one object, and reads it ten times. Repeats each failed request after one second.
async fn writes_and_reads(process: Process) -> Ended {
    let configs = Api::<ConfigMap>::namespaced(process.client(), NAMESPACE);
    let content = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "blog" },
        "data": { "page": "hello" },
    });
    let params = PatchParams::apply("writer").force();
    while (configs
        .patch("blog", &params, &Patch::Apply(&content))
        .await)
        .is_err()
    {
        sleep(Duration::from_secs(1)).await;
    }
    for _ in 0..10 {
        while configs.get("blog").await.is_err() {
            sleep(Duration::from_secs(1)).await;
        }
    }
    pending().await
}

/// Watches sites, and logs to the trace how each watch ends.
async fn watches(process: Process) -> Ended {
    let sites = Api::<Site>::all(process.client());
    loop {
        let mut events = pin!(sites.watch(&WatchParams::default(), "0").await?);
        let error = loop {
            match events.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => break "no error".to_owned(),
                Err(error) => break format!("{error:?}"),
            }
        };
        process.log(format!("the watch ended with {error}"));
        sleep(Duration::from_secs(5)).await;
    }
}

fn failure(simulation: &Simulation) -> Failure {
    *simulation.run().expect_err("an oracle is broken")
}

/// Creates a config map for each of ten names, in the order of a `HashSet`.
async fn creates_in_random_order(process: Process) -> Ended {
    let configs = Api::<ConfigMap>::namespaced(process.client(), NAMESPACE);
    let names: HashSet<_> = (0..10).map(|number| format!("page-{number}")).collect();
    for name in names {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name);
        configs.create(&PostParams::default(), &config).await?;
    }
    pending().await
}

#[test]
fn an_operator_that_is_not_repeatable_is_reported_with_the_first_difference() {
    let simulation = || {
        Simulation::new("random order", creates_in_random_order)
            .single_faults(0)
            .fault_pairs(0)
            .seeds(0)
    };
    let failure = failure(&simulation());
    assert_eq!(failure.oracle(), "a_run_is_repeatable");
    let report = failure.to_string();
    for text in ["the order of a `HashMap`", "first: ", "again: ", "page-"] {
        assert!(report.contains(text), "{report}");
    }
    let simulation = simulation().without_oracle("a_run_is_repeatable");
    simulation.run().expect("no other oracle is broken");
}

#[test]
fn a_rejected_object_or_step_is_a_violation_without_faults() {
    let simulation = || Simulation::new("idle", idle).seeds(0);
    let invalid = json!({ "spec": { "page": 7 } });
    let known = || simulation().object(&definition());
    for (simulation, reason) in [
        // The definition of its kind is missing.
        (simulation().object(&site("blog", "hello")), "404"),
        // It has no namespace.
        (known().object(&ConfigMap::default()), "405"),
        // There is no object of this name.
        (
            known().step(Step::merge::<Site>(NAMESPACE, "blgo", invalid.clone())),
            "404",
        ),
        (known().step(Step::delete::<Site>(NAMESPACE, "blog")), "404"),
        (
            known().steps([
                Step::create(&site("blog", "hello")),
                Step::merge::<Site>(NAMESPACE, "blog", invalid),
            ]),
            "422",
        ),
    ] {
        let failure = failure(&simulation);
        assert_eq!(failure.oracle(), "every_step_succeeds", "{failure}");
        assert!(failure.violations[0].text.contains(reason), "{failure}");
    }
}

#[test]
fn a_rejected_step_is_no_violation_if_an_earlier_step_is_omitted() {
    let simulation = Simulation::new("idle", idle)
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::delete::<Site>(NAMESPACE, "blog"));
    let plan: Plan = "1: ; without 0".parse().expect("a plan");
    let trace = simulation.trace(&plan).to_string();
    assert!(trace.contains("user: refused with 404"), "{trace}");
    assert!(!trace.contains("every_step_succeeds"), "{trace}");
}

#[test]
fn a_walk_of_an_unknown_kind_is_reported() {
    let walks = Walks::new(&definition(), &site("blog", "hello"));
    let simulation = Simulation::new("idle", idle);
    let failure = simulation.walks(&walks.specs(2).walks(1));
    let failure = failure.expect_err("the kind is unknown");
    assert_eq!(failure.oracle(), "every_step_succeeds", "{failure}");
}

#[test]
fn walks_without_an_attained_spec_are_reported() {
    let fails = |process: Process| async move {
        let (controller, sites) = operators::controller(&process)?;
        controller.add_reconciler(
            &sites,
            process.handler("fails", |_: Request<Site>| async {
                Err::<Outcome, _>(Failed::new("this operator always fails"))
            }),
        )?;
        Ok::<_, operators::Error>(controller.run(process.stop()).await?)
    };
    let walks = Walks::new(&definition(), &site("blog", "hello"));
    let simulation = Simulation::new("fails", fails).object(&definition());
    let failure = simulation.walks(&walks.specs(2).walks(1));
    let failure = failure.expect_err("no spec is attained");
    assert_eq!(failure.oracle(), "a_spec_is_attained", "{failure}");
}

#[test]
fn an_update_that_a_handler_does_not_receive_is_reported() {
    let operator = |process: Process| async move {
        let (controller, sites) = operators::controller(&process)?;
        let done = |_: Request<Site>| async { Ok::<_, Failed>(Outcome::done()) };
        let handler = process.handler("sees", done);
        // After a crash, the handler misses updates.
        let is_first = process.name().ends_with("-1");
        let filter = move |event: &Event<Site>| is_first || matches!(event, Event::Added(_));
        controller.add_reconciler(&sites, handler.filter(filter))?;
        Ok::<_, operators::Error>(controller.run(process.stop()).await?)
    };
    let simulation = with_steps(Simulation::new("misses updates", operator));
    let failure = failure(&simulation.faults([Fault::CrashBefore]).seeds(0));
    assert_eq!(
        failure.oracle(),
        "handlers_see_the_newest_state",
        "{failure}"
    );
}

#[test]
fn a_call_before_an_observed_informer_has_synced_is_reported() {
    let operator = |process: Process| async move {
        let (controller, sites) = operators::controller(&process)?;
        let never_run = Informer::new(Api::<ConfigMap>::all(process.client()));
        process.observe(&never_run);
        let done = |_: Request<Site>| async { Ok::<_, Failed>(Outcome::done()) };
        controller.add_reconciler(&sites, process.handler("early", done))?;
        Ok::<_, operators::Error>(controller.run(process.stop()).await?)
    };
    let simulation = || with_steps(Simulation::new("early", operator)).seeds(0);
    let early = failure(&simulation());
    assert_eq!(
        early.oracle(),
        "calls_begin_after_the_first_lists",
        "{early}"
    );
    let without = failure(&simulation().without_oracle("calls_begin_after_the_first_lists"));
    assert_eq!(
        without.oracle(),
        "informers_say_that_they_are_up",
        "{without}"
    );
}

#[test]
fn a_secret_in_a_log_line_or_a_span_is_reported() {
    for in_span in [false, true] {
        let operator = move |_: Process| async move {
            if in_span {
                let _span = tracing::trace_span!("login", password = "hunter2");
            } else {
                tracing::debug!("the password is {:?}", "hunter2");
            }
            pending::<Ended>().await
        };
        let simulation = || Simulation::new("logs", operator).seeds(0);
        let failure = failure(&simulation().secret("hunter2"));
        assert_eq!(failure.oracle(), "no_secret_is_logged", "{failure}");
        let text = &failure.violations[0].text;
        let place = if in_span {
            r#"the field "password" of the span "login" of campaign::oracles"#
        } else {
            r#"the message "the password is \"<secret>\"" of a log line of campaign::oracles"#
        };
        assert!(text.starts_with(place), "{text}");
        assert!(text.contains("oracles.rs:"), "{text}");
        simulation()
            .secret("another")
            .run()
            .expect("it is not logged");
    }
}

/// Creates events at each start, one of them with the recorder of kube, and a page that has the uid of
/// its site in its name, text and keys.
async fn records_events(process: Process) -> Ended {
    let client = process.client();
    let sites = Api::<Site>::namespaced(client.clone(), NAMESPACE);
    let site = loop {
        match sites.get("blog").await {
            Ok(site) => break site,
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    };
    let recorder = Recorder::new(client.clone(), Reporter::from("sites"));
    let started = NewEvent {
        type_: EventType::Normal,
        reason: "Started".to_owned(),
        note: None,
        action: "Start".to_owned(),
        secondary: None,
    };
    _ = recorder.publish(&started, &site.object_ref(&())).await;
    let uid = site.metadata.uid.unwrap_or_default();
    let event = json!({
        "metadata": { "generateName": "started-", "namespace": NAMESPACE },
        "involvedObject": { "kind": "Site", "namespace": NAMESPACE, "name": "blog", "uid": uid },
        "reason": "Started", "type": "Normal",
    });
    let events = Api::<RecordedEvent>::namespaced(client.clone(), NAMESPACE);
    let event = serde_json::from_value(event)?;
    _ = events.create(&PostParams::default(), &event).await;
    let name = format!("page-{uid}");
    let mut content = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "owner": format!("uid={uid}") },
    });
    content["data"][&uid] = "seen".into();
    let configs = Api::<ConfigMap>::namespaced(client, NAMESPACE);
    let params = PatchParams::apply("writer").force();
    let patch = Patch::Apply(&content);
    while configs.patch(&name, &params, &patch).await.is_err() {
        sleep(Duration::from_secs(1)).await;
    }
    pending().await
}

#[test]
fn events_are_not_counted_and_uids_are_masked_in_names_texts_and_keys() {
    let simulation = Simulation::new("events", records_events)
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .faults([Fault::CrashAfter, Fault::LostReply]);
    let summary = simulation.seeds(20).run();
    let summary = summary.unwrap_or_else(|it| panic!("{it}"));
    assert!(summary.masked.is_empty(), "{:?}", summary.masked);
    assert!(summary.faults[&Fault::CrashAfter] > 0, "{summary}");
}

#[test]
fn a_run_without_faults_that_fails_says_so_and_its_trace_names_what_was_written() {
    let hidden = |end: &EndState| match end.objects("configmaps").next() {
        None => Ok(()),
        Some(_) => Err("configmaps default/blog exists".to_owned()),
    };
    let simulation = Simulation::new("writes", writes_and_reads).oracle("no_page", hidden);
    let failure = failure(&simulation.seeds(0));
    let text = failure.to_string();
    assert!(text.contains("no fault was injected"), "{text}");
    let write = "patch configmaps default/blog: 201 version ";
    let line = text.lines().find(|it| it.contains(write));
    let line = line.unwrap_or_else(|| panic!("no write is shown: {text}"));
    assert!(line.ends_with(": created"), "{line}");
}

#[test]
fn each_step_after_the_faults_has_a_number_of_its_own_and_each_write_its_changes() {
    let simulation = with_steps(Simulation::new("numbers", |process| {
        operators::opinionated_reconciler(process, None)
    }));
    let trace = simulation.trace(&Plan::quiet(1)).to_string();
    let end = "no faults from here on";
    let (_, after) = trace.split_once(end).expect("the end of the faults");
    let number =
        |line: &str| -> Option<u64> { line.split_once(" #")?.1.split(' ').next()?.parse().ok() };
    let numbers: Vec<_> = after.lines().filter_map(number).collect();
    assert!(numbers.len() > 1, "{trace}");
    assert!(numbers.windows(2).all(|it| it[0] < it[1]), "{numbers:?}");
    let changes = |line: &str| line.contains(": 200 version ") && line.contains(" -> ");
    assert!(trace.lines().any(changes), "{trace}");
    assert!(!trace.contains(" body "), "{trace}");
}

/// Stops if its first two requests fail.
async fn stops_after_two_failures(process: Process) -> Ended {
    let configs = Api::<ConfigMap>::namespaced(process.client(), NAMESPACE);
    let content = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "blog" },
    });
    let params = PatchParams::apply("writer").force();
    for _ in 0..2 {
        let patch = Patch::Apply(&content);
        if configs.patch("blog", &params, &patch).await.is_ok() {
            break;
        }
    }
    _ = configs.get("blog").await;
    pending().await
}

#[test]
fn two_coinciding_faults_at_one_object_are_tried() {
    let simulation = || {
        Simulation::new("stops", stops_after_two_failures)
            .faults([Fault::Unavailable, Fault::LostRequest])
            .seeds(0)
    };
    let single = simulation().fault_pairs(0).run();
    single.unwrap_or_else(|it| panic!("one fault breaks nothing: {it}"));
    let failure = failure(&simulation().fault_pairs(10));
    assert_eq!(failure.plan.faults.len(), 2, "{failure}");
}

#[test]
fn the_smallest_plan_has_one_fault_and_the_steps_of_one_object() {
    let operator = |process: Process| async move {
        let (controller, sites) = operators::controller(&process)?;
        let (external, is_first) = (process.external(), process.name().ends_with("-1"));
        let handler = move |request: Request<Site>| {
            let external = external.clone();
            async move {
                // After a crash it forgets the shop.
                if is_first || request.key().name() != "shop" {
                    external.put(&request.key().to_string(), "seen").await?;
                }
                Ok::<_, Failed>(Outcome::done())
            }
        };
        controller.add_reconciler(&sites, process.handler("sees", handler))?;
        Ok::<_, operators::Error>(controller.run(process.stop()).await?)
    };
    let faults = [Fault::CrashBefore, Fault::Delay, Fault::Duplicate];
    let simulation = with_steps(Simulation::new("forgets", operator)).faults(faults);
    let failure = failure(&simulation.single_faults(0).fault_pairs(0).seeds(50));
    assert_eq!(failure.plan.faults.len(), 1, "{failure}");
    assert!(failure.script.len() <= 2, "{failure}");
    assert!(
        failure.script.iter().all(|it| it.contains("shop")),
        "{failure}"
    );
}

#[test]
fn time_passes_while_the_machine_is_frozen() {
    let simulation = with_steps(Simulation::new("frozen", |process| {
        operators::opinionated_reconciler(process, None)
    }));
    let plan: Plan = "1: freeze@9".parse().expect("a plan");
    let trace = simulation.trace(&plan).to_string();
    let lines: Vec<_> = trace.lines().collect();
    let at = lines
        .iter()
        .position(|it| it.ends_with("everything is frozen"));
    let at = at.unwrap_or_else(|| panic!("nothing is frozen: {trace}"));
    let seconds = |line: &str| -> f64 {
        let time = line.split_once('s').expect("a time").0;
        time.trim().parse().expect("a time")
    };
    let frozen = seconds(lines[at + 1]) - seconds(lines[at]);
    assert!((24.9..25.1).contains(&frozen), "{trace}");
}

#[test]
fn a_panic_of_one_of_several_replicas_is_reported() {
    // Without the panic hook: it prints nothing.
    let panics = || std::panic::resume_unwind(Box::new("a panic of the operator"));
    let panics_at_once = move |process: Process| {
        if process.replica() == 1 {
            panics();
        }
        pending::<Ended>()
    };
    let panics_later = move |process: Process| async move {
        sleep(Duration::from_secs(60)).await;
        if process.replica() == 1 {
            panics();
        }
        pending::<Ended>().await
    };
    for simulation in [
        Simulation::new("panics at once", panics_at_once),
        Simulation::new("panics later", panics_later),
    ] {
        let failure = failure(&simulation.replicas(2));
        let oracle = "the_operator_runs_until_it_is_stopped";
        assert_eq!(failure.oracle(), oracle, "{failure}");
    }
}

#[test]
fn a_sample_of_single_faults_has_every_fault() {
    // Both fit the same steps.
    let faults = [Fault::TooManyRequests, Fault::Unavailable];
    let simulation = Simulation::new("sample", writes_and_reads).faults(faults);
    let summary = simulation.single_faults(10).fault_pairs(0).seeds(0).run();
    let summary = summary.unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(summary.single_faults, 10, "{summary}");
    assert_eq!(summary.complete_runs, 10, "{summary}");
    for fault in faults {
        assert!(summary.faults[&fault] > 0, "{:?}", summary.faults);
    }
}

#[test]
fn every_random_plan_has_at_least_one_fault() {
    // Each restart adds steps, so that every planned fault is injected.
    let simulation = Simulation::new("random", writes_and_reads).faults([Fault::CrashBefore]);
    let summary = simulation.single_faults(0).fault_pairs(0).seeds(20).run();
    let summary = summary.unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(summary.random, 20, "{summary}");
    assert_eq!(summary.complete_runs, 20, "{summary}");
}

#[test]
fn a_difference_that_depends_on_the_seed_is_reported() {
    // All other runs are compared with the first two runs. The first one is repeated.
    let runs = Arc::new(AtomicUsize::new(0));
    let operator = move |process: Process| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let value = if run < 3 { "first" } else { "later" };
            process.external().put("value", value).await?;
            pending::<Ended>().await
        }
    };
    let failure = failure(&Simulation::new("seeds", operator).faults([]).seeds(1));
    let oracle = "the_end_state_is_that_of_a_run_without_faults";
    assert_eq!(failure.oracle(), oracle, "{failure}");
    let text = &failure.violations[0].text;
    assert!(text.contains("depends on the seed"), "{failure}");
}

#[test]
fn a_waiting_user_does_not_block_other_clients() {
    let simulation = Simulation::new("wait", operators::quickstart)
        .object(&definition())
        .step(Step::create(&site("blog", "hello")))
        .step(Step::wait(Duration::from_secs(600)))
        // The wait begins before the fault.
        .pace(Duration::ZERO);
    let plan: Plan = "1: recreate@1".parse().expect("a plan");
    let trace = simulation.trace(&plan).to_string();
    let deleted = trace.lines().find(|it| it.contains(" event DELETED "));
    let line = deleted.unwrap_or_else(|| panic!("nothing is deleted: {trace}"));
    let seconds = line.split_once('s').expect("a time").0.trim();
    let seconds: f64 = seconds.parse().expect("a time");
    assert!(seconds < 300.0, "{line}");
}

#[test]
fn a_cut_watch_ends_either_cleanly_or_with_an_error() {
    let simulation = Simulation::new("watches", watches)
        .object(&definition())
        .step(Step::create(&site("blog", "hello")));
    let ends = |fault: Fault, seed: u64| {
        let plan = Plan::single(seed, 1, fault);
        let trace = simulation.trace(&plan).to_string();
        let end = trace
            .lines()
            .find(|it| it.contains("the watch ended with "));
        let end = end.unwrap_or_else(|| panic!("no watch ended: {trace}"));
        assert!(
            end.contains("no error") || end.contains("the connection was reset"),
            "{end}"
        );
        end.contains("no error")
    };
    // With ten seeds, one of the two is missing once in 500 times; the seeds are constant.
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        let cleanly = (0..10).filter(|seed| ends(fault, *seed)).count();
        assert!((1..10).contains(&cleanly), "{fault}: {cleanly}");
    }
    assert!(
        !ends(Fault::Truncate, 1),
        "a half line is followed by an error"
    );
}

#[test]
fn a_trace_counts_dropped_lines() {
    let operator = |process: Process| async move {
        for _ in 0..100_100 {
            process.log("a line");
        }
        pending::<Ended>().await
    };
    let trace = Simulation::new("lines", operator).trace(&Plan::quiet(1));
    let trace = trace.to_string();
    let last = trace.lines().last().unwrap_or_default();
    assert!(last.contains("more lines"), "{last}");
}

//! The settings of an election: identity and timing.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_operator::{
    AdminServer, InvalidElection, LeaderElection, LeaseClient, Operator, OperatorError,
};

use crate::{
    replica::secs,
    server::{NAME, builder},
};

#[tokio::test]
async fn contradictory_settings_are_refused() {
    let client = ApiServer::new().client();
    let timing = |lease, renew, retry| {
        let builder = builder(client.clone(), "us").lease_duration(lease);
        builder.renew_deadline(renew).retry_period(retry).build()
    };
    let refused = |election: Result<LeaderElection, InvalidElection>| {
        let error = election.expect_err("the settings contradict each other");
        // The name of the variant, without its fields.
        let shown = format!("{error:?}");
        let name = shown.split(' ').next().unwrap_or_default();
        name.to_owned()
    };
    assert_eq!(
        refused(timing(secs(10), secs(10), secs(2))),
        "RenewDeadline"
    );
    assert_eq!(refused(timing(secs(15), secs(2), secs(2))), "Tries");
    assert_eq!(refused(timing(secs(15), secs(10), secs(0))), "RetryPeriod");
    assert_eq!(
        refused(timing(Duration::MAX, secs(10), secs(2))),
        "LeaseDuration"
    );
    assert_eq!(refused(builder(client.clone(), "").build()), "Anonymous");
    for (namespace, name) in [("", "web"), ("default", "")] {
        let election = LeaderElection::new(client.clone(), namespace, name);
        assert_eq!(refused(election), "Unnamed");
    }
    assert!(timing(secs(2), secs(1), Duration::from_millis(200)).is_ok());
    // The largest number of seconds that a lease can hold.
    let longest = secs(i32::MAX.unsigned_abs().into());
    assert!(timing(longest, secs(10), secs(2)).is_ok());
}

/// The API server answers 422, which a candidate would repeat without end.
#[tokio::test]
async fn a_name_that_the_api_server_refuses_is_refused() {
    let client = ApiServer::new().client();
    let election = |namespace: &str, name: &str| {
        LeaderElection::new(client.clone(), namespace, name).map_err(|error| error.to_string())
    };
    let (longest, label) = ("a".repeat(253), "a".repeat(63));
    for name in ["web", "web-operator.example.com", "0", &longest] {
        election("default", name).expect(name);
    }
    election(&label, "web").expect("a label");
    for name in [
        "website_operator",
        "Web",
        "web.",
        ".web",
        "a..b",
        "-a",
        "a-",
        "a b",
    ] {
        let error = election("default", name).expect_err(name);
        assert!(error.contains(&format!("the name {name:?}")), "{error}");
        assert!(
            error.contains("lower case letters, digits, '.' and '-'"),
            "{error}"
        );
    }
    election("default", &format!("{longest}a")).expect_err("too long");
    for namespace in ["a.b", "Web", &format!("{label}a")] {
        let error = election(namespace, "web").expect_err(namespace);
        assert!(
            error.contains(&format!("the namespace {namespace:?}")),
            "{error}"
        );
        assert!(
            error.contains("63 lower case letters, digits and '-'"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn default_identities_of_two_replicas_differ() {
    let client = ApiServer::new().client();
    let election = || LeaderElection::new(client.clone(), "default", NAME).expect("names");
    assert_ne!(election().identity(), election().identity());
    let seeded = || {
        let builder = LeaderElection::builder(client.clone(), "default", NAME);
        builder.seed(7).build().expect("valid settings")
    };
    assert_eq!(seeded().identity(), seeded().identity());

    // The name of the host: in a pod, the name of the pod.
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    if let Ok(host) = host.as_deref().map(str::trim)
        && !host.is_empty()
    {
        let identity = seeded().identity().to_owned();
        assert!(identity.starts_with(&format!("{host}_")), "{identity}");
    }
}

#[tokio::test]
async fn an_invalid_client_configuration_ends_the_operator() {
    let mut config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    config.proxy_url = Some("ftp://proxy".parse().expect("a URL"));
    let election = LeaderElection::new(config, "default", NAME).expect("names");
    let operator = Operator::builder().leader_election(election).build();
    let ended = operator.run_until(CancellationToken::new()).await;
    match ended {
        Err(OperatorError::LeaseClient { source }) => {
            assert!(source.to_string().contains("ftp"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

/// A configuration can have credentials.
#[tokio::test]
async fn debug_output_names_what_it_is_and_shows_no_credential() {
    let mut config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    config.auth_info.username = Some("canary".to_owned());
    let settings = LeaderElection::builder(config.clone(), "default", NAME);
    let built = format!("{settings:?}");
    let election = settings.identity("us").build().expect("valid settings");
    let elected = format!("{election:?}");
    let address = "127.0.0.1:8080".parse::<std::net::SocketAddr>();
    let admin = format!("{:?}", AdminServer::new(address.expect("an address")));
    let operator = Operator::builder().leader_election(election).build();
    let client = ApiServer::new().client();
    for (shown, expected) in [
        (
            built,
            "LeaderElectionBuilder { namespace: \"default\", name: \"web\", ",
        ),
        (
            elected,
            "LeaderElection { lease: \"default/web\", identity: \"us\", ",
        ),
        (format!("{:?}", LeaseClient::from(config)), "Config(..)"),
        (format!("{:?}", LeaseClient::from(client)), "Client(..)"),
        (admin, "AdminServer { listen: "),
        (
            format!("{operator:?}"),
            "Operator { controllers: [], election: Some(",
        ),
    ] {
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

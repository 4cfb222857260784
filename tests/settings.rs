//! Settings of an operator from the command line, the environment and a file.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    num::NonZeroU32,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use clap::{CommandFactory as _, Parser};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, Config};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use windlass::{
    Controller, ExponentialBackoff, Failure, Informer, InformerController, ListWatch, Outcome,
    Request, Watch,
    controller::ErrorReport,
    settings::{Settings, SettingsError},
    source::Scripted,
};
use windlass_apiserver::ApiServer;

/// The command line of a user's operator.
#[derive(Debug, Parser)]
struct Cli {
    /// A YAML file with settings.
    #[arg(long, env = "OPERATOR_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

// === impl Cli ===

impl Cli {
    fn settings(self) -> Result<Settings, SettingsError> {
        Ok(match self.config {
            Some(file) => self.settings.with_fallback(&Settings::read(file)?)?,
            None => self.settings,
        })
    }
}

/// Set in a process that prints its settings.
const CHILD: &str = "WINDLASS_SETTINGS_OF_CHILD";

/// The options whose values are no durations, with a value.
const VALUES: [(&str, &str); 32] = [
    ("leader-election", "false"),
    ("lease-namespace", "shop"),
    ("lease-name", "web"),
    ("identity", "web-0"),
    ("admin-address", "127.0.0.1:8080"),
    ("metrics-address", "127.0.0.1:8081"),
    ("tls-certificate", "/tls/tls.crt"),
    ("tls-key", "/tls/tls.key"),
    ("health-details", "all"),
    ("diagnostics", "true"),
    ("authorize-metrics", "true"),
    ("admin-connections", "9"),
    ("requests-per-second", "9"),
    ("request-burst", "9"),
    ("concurrency", "9"),
    ("max-retries", "9"),
    ("calls-per-minute", "9"),
    ("queue-size", "9"),
    ("namespaces", "shop"),
    ("label-selector", "app=web"),
    ("field-selector", "metadata.name=web"),
    ("page-size", "9"),
    ("streamed-lists", "false"),
    ("max-bytes", "9"),
    ("decode-cache", "9"),
    ("decoded", "true"),
    ("decode-threads", "9"),
    ("config", ""),
    ("shards", "9"),
    ("admin-connections-per-client", "9"),
    ("retries-per-second", "9"),
    ("retry-burst", "9"),
];

/// The number of files that were written.
static FILES: AtomicUsize = AtomicUsize::new(0);

/// The settings that a user sets with these arguments, variables and file.
fn settings(arguments: &[String], variables: &[(String, String)], file: Option<&Value>) -> Value {
    let mut command = Command::new(env::current_exe().expect("a test"));
    command.args(["--exact", "the_child_prints_its_settings", "--nocapture"]);
    let arguments = serde_json::to_string(arguments).expect("texts");
    let inherited = env::vars_os().map(|(name, _)| name);
    let is_setting = |name: &str| name.starts_with("OPERATOR_") || name.starts_with("POD_");
    for name in inherited.filter(|name| is_setting(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
        .env(CHILD, arguments)
        .envs(variables.iter().cloned());
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = format!("windlass-settings-{}-{number}.yaml", std::process::id());
    let path = env::temp_dir().join(path);
    if let Some(file) = file {
        fs::write(&path, serde_yaml_ng::to_string(file).expect("YAML")).expect("written");
        command.env("OPERATOR_CONFIG", &path);
    }
    let output = command.output().expect("it runs");
    if file.is_some() {
        fs::remove_file(path).expect("written above");
    }
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find_map(|line| line.split_once("settings: "));
    let (_, line) = line.unwrap_or_else(|| panic!("{text}"));
    without_nulls(serde_json::from_str(line).unwrap_or_else(|_| Value::from(line)))
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        let kept = std::mem::take(fields)
            .into_iter()
            .filter(|(_, it)| !it.is_null());
        *fields = kept.map(|(key, it)| (key, without_nulls(it))).collect();
        fields.retain(|_, it| *it != json!({}));
    }
    value
}

#[test]
fn the_child_prints_its_settings() {
    let Ok(arguments) = env::var(CHILD) else {
        return;
    };
    let arguments: Vec<String> = serde_json::from_str(&arguments).expect("texts");
    let arguments = ["operator".to_owned()].into_iter().chain(arguments);
    let settings = Cli::try_parse_from(arguments).map_err(|error| error.to_string());
    let settings = settings.and_then(|cli| cli.settings().map_err(|error| chain(&error)));
    match settings {
        Ok(settings) => println!("settings: {}", json!(settings)),
        Err(error) => println!("settings: {}", error.replace('\n', " ")),
    }
}

fn chain(error: &dyn Error) -> String {
    let source = error
        .source()
        .map_or_else(String::new, |it| format!(": {}", chain(it)));
    format!("{error}{source}")
}

/// Each setting is read from each of the three sources, with the same result, and the builders take it.
///
/// Rows: BO-56
#[test]
fn each_setting_comes_from_the_command_line_the_environment_or_a_file() {
    let command = Cli::command();
    let mut checked = BTreeMap::new();
    let mut files = json!({});
    for option in command.get_arguments().filter(|it| it.get_id() != "help") {
        let name = option.get_long().expect("a long option");
        let value = VALUES
            .iter()
            .find(|(option, _)| *option == name)
            .map_or("9s", |it| it.1);
        if name == "config" {
            continue;
        }
        let variable = option
            .get_env()
            .expect("a variable")
            .to_str()
            .expect("text")
            .to_owned();
        checked.insert(name.to_owned(), (variable, value.to_owned()));
    }
    let arguments: Vec<_> = checked
        .iter()
        .map(|(name, (_, value))| format!("--{name}={value}"))
        .collect();
    let by_arguments = settings(&arguments, &[], None);
    let variables: Vec<_> = checked.values().cloned().collect();
    let by_variables = settings(&[], &variables, None);
    assert_eq!(by_arguments, by_variables);
    for (section, fields) in by_arguments.as_object().expect("sections") {
        files[section] = fields.clone();
    }
    let by_file = settings(&[], &[], Some(&files));
    assert_eq!(by_file, by_arguments);
    let sections = by_arguments.as_object().expect("sections").values();
    let count: usize = sections
        .filter_map(Value::as_object)
        .map(serde_json::Map::len)
        .sum();
    assert_eq!(
        count,
        checked.len(),
        "each option is a field: {by_arguments}"
    );
    assert_eq!(by_arguments["operator"]["drainTimeout"], "9s");
}

/// Rows: BO-56
#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let file = json!({
        "operator": { "drainTimeout": "1m 30s", "leaseName": "file" },
        "controller": { "concurrency": 1, "maxRetries": 1 },
    });
    let variables = [
        ("OPERATOR_CONCURRENCY".to_owned(), "2".to_owned()),
        ("OPERATOR_LEASE_NAME".to_owned(), "variable".to_owned()),
    ];
    let merged = settings(&["--concurrency=3".to_owned()], &variables, Some(&file));
    assert_eq!(
        merged,
        json!({
            "operator": { "drainTimeout": "1m 30s", "leaseName": "variable" },
            "controller": { "concurrency": 3, "maxRetries": 1 },
        })
    );
    // A flag without a value is true, and can be switched off.
    let flag = settings(&["--diagnostics".to_owned()], &[], None);
    assert_eq!(flag, json!({ "operator": { "diagnostics": true } }));
}

/// Rows: BO-56
#[test]
fn an_empty_variable_of_each_setting_is_not_set_also_without_a_file() {
    let command = Cli::command();
    let options = command.get_arguments().filter(|it| it.get_id() != "config");
    let names: Vec<_> = options.filter_map(clap::Arg::get_env).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let name = name.to_str().expect("text").to_owned();
        let set = settings(&[], &[(name.clone(), String::new())], None);
        assert_eq!(set, json!({}), "{name}");
    }
}

/// A Helm chart sets a variable whose value its user leaves blank.
///
/// Rows: BO-56
#[test]
fn an_empty_value_is_not_set() {
    let file = json!({
        "operator": { "leaseName": "file" },
        "watch": { "namespaces": ["shop"], "labelSelector": "app=web" },
    });
    let blank = |name: &str| (name.to_owned(), String::new());
    let variables = [
        blank("OPERATOR_NAMESPACES"),
        blank("OPERATOR_LABEL_SELECTOR"),
        blank("OPERATOR_LEASE_NAME"),
    ];
    assert_eq!(settings(&[], &variables, Some(&file)), file);
    let arguments = ["--namespaces=".to_owned(), "--identity=".to_owned()];
    assert_eq!(settings(&arguments, &[], Some(&file)), file);
    // Nothing but blanks.
    let merged = Cli::try_parse_from(["operator", "--namespaces="]).expect("valid");
    let merged = merged.settings.with_fallback(&Settings::default());
    assert_eq!(merged.expect("no path").watch.namespaces, None);
    for namespaces in ["--namespaces=shop,,web", "--namespaces="] {
        let cli = Cli::try_parse_from(["operator", namespaces]).expect("it is a list");
        let watch = cli.settings.watch.watch::<ConfigMap>();
        assert!(
            matches!(watch, Err(SettingsError::EmptyNamespace)),
            "{namespaces}"
        );
    }
}

/// Rows: BO-56
#[cfg(unix)]
#[test]
fn a_path_that_cannot_be_merged_is_named() {
    use std::os::unix::ffi::OsStrExt as _;

    let mut settings = Settings::default();
    settings.operator.tls_key = Some(std::ffi::OsStr::from_bytes(b"\xff").into());
    let error = settings.with_fallback(&Settings::default());
    let error = chain(&error.expect_err("it is not UTF-8"));
    let start = "the settings of two sources cannot be merged at `operator.tlsKey`: ";
    assert!(error.starts_with(start), "{error}");
}

/// Rows: BO-56
#[test]
fn an_invalid_setting_is_named() {
    let refused = |arguments: &[&str], file: Option<Value>| {
        let arguments: Vec<_> = arguments.iter().map(|&it| it.to_owned()).collect();
        let error = settings(&arguments, &[], file.as_ref());
        error
            .as_str()
            .unwrap_or_else(|| panic!("{error}"))
            .to_owned()
    };
    let error = refused(&["--drain-timeout=25"], None);
    assert!(
        error.contains("'25' for '--drain-timeout <DURATION>'"),
        "{error}"
    );
    assert!(
        error.contains("write a duration with its unit, such as `30s` or `1h 30m`"),
        "{error}"
    );
    let error = refused(&["--drain-timeout=-1s"], None);
    assert!(
        error.contains("the duration must be longer than zero"),
        "{error}"
    );
    let error = refused(&["--concurrency=0"], None);
    assert!(error.contains("--concurrency"), "{error}");
    let error = refused(&[], Some(json!({ "operator": { "drainTimeOut": "25s" } })));
    assert!(
        error.contains("are invalid at `operator.drainTimeOut`: "),
        "{error}"
    );
    assert!(error.contains("unknown field `drainTimeOut`"), "{error}");
    let error = refused(&[], Some(json!({ "operator": { "drainTimeout": 25 } })));
    assert!(
        error.contains("are invalid at `operator.drainTimeout`: "),
        "{error}"
    );
    let error = refused(&["--config=/no/such/file"], None);
    assert!(
        error.starts_with("cannot read the settings in /no/such/file: "),
        "{error}"
    );
}

/// The settings with one argument.
fn parse(argument: &str) -> Settings {
    let cli = Cli::try_parse_from(["operator", argument]).expect("it is valid alone");
    cli.settings().expect("no file")
}

/// A connection that is not used.
fn config() -> Config {
    Config::new("http://127.0.0.1:1".parse().expect("a URL"))
}

/// Rows: BO-56
#[tokio::test]
async fn a_setting_of_the_operator_without_effect_is_an_error() {
    let config = config();
    for (argument, error) in [
        (
            "--request-burst=9",
            "`requestBurst` (`--request-burst`) has no effect without `requestsPerSecond`",
        ),
        (
            "--diagnostics",
            "`diagnostics` (`--diagnostics`) has no effect without `adminAddress` (`--admin-address`)",
        ),
        (
            "--metrics-address=127.0.0.1:1",
            "`metricsAddress` (`--metrics-address`) has no effect without `adminAddress`",
        ),
        (
            "--tls-key=/tls/tls.key",
            "`tlsKey` (`--tls-key`) has no effect without `tlsCertificate`",
        ),
        (
            "--tls-certificate=/tls/tls.crt",
            "`tlsCertificate` (`--tls-certificate`) has no effect without `tlsKey`",
        ),
        (
            "--lease-duration=1s",
            "the settings of the leader election are invalid: ",
        ),
        (
            "--shards=3",
            "the shard of this pod cannot be found by its name in `POD_NAME`: ",
        ),
    ] {
        let refused = parse(argument).operator.builder(&config, "web").map(drop);
        let refused = chain(&refused.expect_err(argument));
        assert!(refused.contains(error), "{argument}: {refused}");
    }
}

/// The kubelet sends probes without TLS by default.
#[tokio::test]
async fn probes_over_tls_are_an_error() {
    let arguments = [
        "operator",
        "--admin-address=127.0.0.1:1",
        "--tls-certificate=/tls/tls.crt",
        "--tls-key=/tls/tls.key",
        "--metrics-address=127.0.0.1:2",
    ];
    for (count, is_refused) in [(4, true), (5, false)] {
        let cli = Cli::try_parse_from(&arguments[..count]).expect("each is valid alone");
        let builder = cli.settings.operator.builder(&config(), "web").map(drop);
        assert_eq!(builder.is_err(), is_refused, "{builder:?}");
        if let Err(error) = builder {
            let expected = "`tlsCertificate` (`--tls-certificate`) is that of the metrics, and needs \
                            `metricsAddress` (`--metrics-address`): otherwise";
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

#[test]
fn an_address_is_a_port_of_all_addresses_or_an_ip_address_and_a_port() {
    for (address, expected) in [
        (":8080", Ok("[::]:8080")),
        ("127.0.0.1:8080", Ok("127.0.0.1:8080")),
        ("[::1]:8080", Ok("[::1]:8080")),
        (
            "localhost:8080",
            Err("such as `127.0.0.1:8080`, or only `:8080`"),
        ),
        ("8080", Err("such as `127.0.0.1:8080`, or only `:8080`")),
        ("0", Err("to serve nothing, leave the setting out")),
    ] {
        let argument = format!("--admin-address={address}");
        let parsed = Cli::try_parse_from(["operator", &argument]);
        let parsed = parsed.map(|cli| cli.settings.operator.admin_address);
        let file = serde_yaml_ng::from_str::<Settings>(&format!(
            "operator: {{ adminAddress: '{address}' }}"
        ));
        let file = file.map(|settings| settings.operator.admin_address);
        match expected {
            Ok(expected) => {
                let expected = Some(expected.parse().expect("an address"));
                assert_eq!(parsed.expect("an address"), expected);
                assert_eq!(file.expect("an address"), expected);
            }
            Err(expected) => {
                let error = parsed.expect_err("no address").to_string();
                assert!(error.contains(expected), "{error}");
                let error = file.expect_err("no address").to_string();
                assert!(error.contains(expected), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn metrics_are_authorized_by_a_setting() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let arguments = [
        "operator",
        "--leader-election=false",
        "--authorize-metrics",
        &format!("--admin-address={address}"),
    ];
    let cli = Cli::try_parse_from(arguments).expect("valid");
    let builder = cli.settings.operator.builder(&config(), "web");
    let operator = builder.expect("valid").build();
    let stop = tokio_util::sync::CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { operator.run_until(stop).await }
    });
    // The operator opens the port before it does anything else.
    let mut stream = loop {
        assert!(!run.is_finished(), "the operator runs");
        match tokio::net::TcpStream::connect(address).await {
            Ok(stream) => break stream,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let request = b"GET /metrics HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .await
        .expect("a response");
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    stop.cancel();
    run.await.expect("no panic").expect("no error");
}

/// Rows: BO-56
#[tokio::test]
async fn a_page_that_no_client_sees_is_an_error() {
    let address = "--admin-address=127.0.0.1:1";
    for (details, is_refused) in [("none", true), ("all", false), ("loopback", false)] {
        let details = format!("--health-details={details}");
        let arguments = ["operator", address, "--diagnostics", &details];
        let cli = Cli::try_parse_from(arguments).expect("each is valid alone");
        let builder = cli.settings.operator.builder(&config(), "web").map(drop);
        assert_eq!(builder.is_err(), is_refused, "{details}");
        if let Err(error) = builder {
            let expected = "`diagnostics` (`--diagnostics`) has no effect in this operator, because it uses `healthDetails: none`";
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

/// Rows: BO-56
#[tokio::test]
async fn a_setting_of_a_leader_election_that_is_not_used_is_an_error() {
    let config = config();
    for (argument, setting) in [
        ("--lease-namespace=shop", "leaseNamespace"),
        ("--lease-name=web", "leaseName"),
        ("--identity=web-0", "identity"),
        ("--lease-duration=15s", "leaseDuration"),
        ("--lease-renew-deadline=10s", "leaseRenewDeadline"),
        ("--lease-retry-period=2s", "leaseRetryPeriod"),
        ("--resign-blocked-after=60s", "resignBlockedAfter"),
    ] {
        let mut settings = parse(argument).operator;
        let builder = settings.builder(&config, "web").map(drop);
        builder.expect("it has a lease");
        settings.leader_election = Some(false);
        let refused = settings.builder(&config, "web").map(drop);
        let refused = chain(&refused.expect_err(argument));
        let option = argument.split_once('=').map_or(argument, |(name, _)| name);
        let expected = format!(
            "`{setting}` (`{option}`) has no effect in this operator, because it uses no leader"
        );
        assert!(refused.contains(&expected), "{argument}: {refused}");
    }
}

/// Rows: BO-56
#[tokio::test]
async fn a_setting_of_a_controller_without_effect_is_an_error() {
    for (argument, error) in [
        (
            "--debounce=1s",
            "`debounce` (`--debounce`) has no effect in this operator, because it uses an",
        ),
        (
            "--longest-debounce=1s",
            "`longestDebounce` (`--longest-debounce`) has no effect without `debounce`",
        ),
        (
            "--retry-burst=9",
            "`retryBurst` (`--retry-burst`) has no effect without `retriesPerSecond`",
        ),
    ] {
        let builder = InformerController::builder();
        let refused = parse(argument)
            .controller
            .apply_to_informer_controller(builder);
        let refused = chain(&refused.map(drop).expect_err(argument));
        assert!(refused.contains(error), "{argument}: {refused}");
    }
    let client = ApiServer::new().client();
    let builder = Controller::<ConfigMap>::builder(client.clone(), Watch::all());
    let refused = parse("--queue-size=9").controller.apply(builder).map(drop);
    let refused = chain(&refused.expect_err("it has no queue"));
    assert!(
        refused.contains("`queueSize` (`--queue-size`) has no effect in this operator"),
        "{refused}"
    );
    let refused = parse("--namespaces=shop").watch.apply(Watch::<Node>::all());
    let refused = chain(&refused.map(drop).expect_err("a node has no namespace"));
    assert!(
        refused.contains("`namespaces` (`--namespaces`) has no effect in this operator"),
        "{refused}"
    );
    let list = ListWatch::new(Api::<ConfigMap>::all(client));
    let refused = parse("--namespaces=shop")
        .watch
        .apply_to_list_watch(list)
        .map(drop);
    let refused = chain(&refused.expect_err("the namespace is that of the `Api`"));
    assert!(
        refused.contains("`namespaces` (`--namespaces`) has no effect in this operator"),
        "{refused}"
    );
}

/// Rows: BO-56
#[tokio::test]
async fn an_informer_has_a_list_for_each_namespace_of_the_settings() {
    let client = ApiServer::new().client();
    for (argument, namespaces) in [
        ("--page-size=100", vec![None]),
        ("--namespaces=shop", vec![Some("shop")]),
        (
            "--namespaces=shop,blog,shop",
            vec![Some("blog"), Some("shop")],
        ),
    ] {
        let settings = parse(argument).watch;
        let lists = settings.list_watches::<ConfigMap>(&client);
        let lists = lists.unwrap_or_else(|error| panic!("{argument}: {error}"));
        let of: Vec<_> = lists.iter().map(ListWatch::namespace).collect();
        assert_eq!(of, namespaces, "{argument}");
    }
    let mut settings = parse("--namespaces=shop,").watch;
    let refused = settings.list_watches::<ConfigMap>(&client).map(drop);
    let refused = refused.expect_err("a name is empty").to_string();
    assert!(refused.contains("`namespaces`"), "{refused}");
    settings.namespaces = None;
    settings.field_selector = Some("spec.nodeName".to_owned());
    let refused = settings.list_watches::<ConfigMap>(&client).map(drop);
    refused.expect_err("the selector is invalid");
}

/// Rows: BO-56
#[test]
fn an_own_policy_wraps_the_backoff_of_the_settings() {
    assert_eq!(parse("--concurrency=4").controller.backoff(), None);
    let mut settings = parse("--max-retries=3").controller;
    settings.retry_delay = Some(Duration::from_secs(10));
    let backoff = settings.backoff().expect("it is set");
    assert_eq!(
        backoff,
        ExponentialBackoff::new(Duration::from_secs(10), 3)
            .cap(Duration::from_secs(300))
            .jitter(0.1)
    );
    assert_eq!(backoff.delay_after(3, 0.0), None);
}

/// Rows: BO-56
#[tokio::test(start_paused = true)]
async fn a_limit_of_all_retries_also_holds_for_an_own_policy() {
    let mut settings = parse("--retries-per-second=1").controller;
    settings.retry_burst = Some(NonZeroU32::MIN);
    let builder = settings.apply_to_informer_controller(InformerController::builder());
    let controller = builder
        .expect("it has an effect")
        .retry_policy(|failed: &ErrorReport<'_>| {
            (failed.attempt == 0).then_some(Duration::from_millis(10))
        })
        .on_error(|_| {})
        .build()
        .expect("good settings");
    let (sender, mut calls) = tokio::sync::mpsc::channel(16);
    let fails = move |request: Request<ConfigMap>| {
        _ = sender.try_send((request.attempt(), Instant::now()));
        async { Err::<Outcome, _>(Failure::new("not yet")) }
    };
    let kind = controller.kind::<ConfigMap>("configs").expect("a new kind");
    controller.add_reconciler(&kind, fails).expect("added");
    let (script, source) = Scripted::new();
    let informer = Informer::new(source);
    controller.add_informer(&kind, &informer).expect("added");
    let began = Instant::now();
    let running = tokio::spawn(async move { controller.run(CancellationToken::new()).await });
    let objects = ["a", "b", "c", "d"].map(|name| {
        let object = json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "1" } });
        serde_json::from_value(object).expect("a config map")
    });
    script.list(objects).await.expect("it runs");
    let mut retries = Vec::new();
    while retries.len() < 4 {
        let (attempt, at) = calls.recv().await.expect("it runs");
        retries.extend((attempt > 0).then(|| (at - began).as_secs()));
    }
    assert_eq!(retries, [0, 1, 2, 3]);
    running.abort();
}

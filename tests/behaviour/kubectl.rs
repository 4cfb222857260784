//! Commands of kubectl, with the same exit code and the same output on both servers.
//!
//! The commands are in `kubectl/script.txt`, each with the exit code that it has on the real
//! server. kubectl is that of `tests/kubectl`, which `cargo xtask test` builds where Go is;
//! its path is in `WINDLASS_KUBECTL`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use regex::Regex;
use tokio::process::Command;
use windlass_apiserver::{ApiServer, Listening};

use crate::cluster::Cluster;

/// The commands, by part.
const SCRIPT: &str = include_str!("kubectl/script.txt");

/// The manifests that commands name; `NS` in them is the namespace of the test.
const FILES: [(&str, &str); 13] = [
    ("definition.yaml", include_str!("kubectl/definition.yaml")),
    ("sprocket.yaml", include_str!("kubectl/sprocket.yaml")),
    (
        "sprocket-wrong.yaml",
        include_str!("kubectl/sprocket-wrong.yaml"),
    ),
    ("generated.yaml", include_str!("kubectl/generated.yaml")),
    ("list.yaml", include_str!("kubectl/list.yaml")),
    ("missing.yaml", include_str!("kubectl/missing.yaml")),
    ("pod.yaml", include_str!("kubectl/pod.yaml")),
    ("role.yaml", include_str!("kubectl/role.yaml")),
    ("settings.yaml", include_str!("kubectl/settings.yaml")),
    ("unknown.yaml", include_str!("kubectl/unknown.yaml")),
    ("web.yaml", include_str!("kubectl/web.yaml")),
    ("web-changed.yaml", include_str!("kubectl/web-changed.yaml")),
    ("wrong.yaml", include_str!("kubectl/wrong.yaml")),
];

/// One command of the script.
#[derive(Debug)]
struct Line {
    /// The exit code on the real server.
    code: i32,

    /// Whether the output is compared. Where it is not, `docs/apiserver.md` says why.
    compares_output: bool,

    /// The arguments, separated by spaces.
    arguments: &'static str,
}

/// kubectl, as a client of one server.
struct Kubectl {
    program: PathBuf,
    folder: PathBuf,
    namespace: String,
    kubeconfig: String,
    /// Keeps the port of an embedded server open.
    _listening: Option<Listening>,
}

/// What a command came to, without what differs between two runs.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The commands of one part of the script.
fn part(name: &str) -> Vec<Line> {
    let lines = SCRIPT
        .lines()
        .skip_while(|line| *line != format!("[{name}]"));
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (code, arguments) = line.split_once(' ').expect("an exit code and a command");
            let (code, compares_output) = match code.strip_suffix('*') {
                Some(code) => (code, false),
                None => (code, true),
            };
            Line {
                code: code.parse().expect("an exit code"),
                compares_output,
                arguments,
            }
        })
        .collect()
}

/// Replaces what differs between two runs of the same command.
fn masked(text: &str) -> String {
    static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let masks = [
            (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
            (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \S+", "TIME"),
            (r#"(?i)(resource ?version"?: *)"?\d+"?"#, "${1}VERSION"),
            (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
            (r"\b3[0-2]\d{3}\b", "PORT"),
            (r"\b(\d+m)?\d+s\b|<invalid>", "AGE"),
            (r"[^ ]*/(LIVE|MERGED)-\d+", "$1"),
            (r"debugger-\w{5}", "debugger"),
            // Columns are as wide as their cells.
            (r"[ \t]+", " "),
            (r"[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
        ];
        masks
            .map(|(mask, name)| (Regex::new(mask).expect("a good mask"), name))
            .into()
    });
    let mut text = text.to_owned();
    for (mask, name) in MASKS.iter() {
        text = mask.replace_all(&text, *name).into_owned();
    }
    text
}

// === impl Kubectl ===

impl Kubectl {
    /// kubectl for a server that `kubeconfig` names, with its files in a folder of its own.
    async fn new(
        program: &Path,
        namespace: &str,
        server: &str,
        (kubeconfig, listening): (String, Option<Listening>),
    ) -> Self {
        let folder = std::env::temp_dir().join(format!("windlass-{namespace}-{server}"));
        let write = |name: &str, text: String| tokio::fs::write(folder.join(name), text);
        tokio::fs::create_dir_all(&folder).await.expect("a folder");
        for (name, text) in FILES {
            let text = text.replace("NS", namespace);
            write(name, text).await.expect("a file");
        }
        write("kubeconfig", kubeconfig.clone())
            .await
            .expect("a file");
        Self {
            program: program.to_owned(),
            folder,
            namespace: namespace.to_owned(),
            kubeconfig,
            _listening: listening,
        }
    }

    /// Runs one command.
    async fn run(&self, arguments: &str) -> Outcome {
        let folder = self.folder.display().to_string();
        let arguments = arguments.split(' ').map(|argument| {
            let argument = argument.replace("NS", &self.namespace);
            argument.replace("FILES", &folder)
        });
        let output = Command::new(&self.program)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("HOME", &self.folder)
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .env("TZ", "UTC")
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .expect("WINDLASS_KUBECTL names a program");
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(&folder, "FILES");
            masked(&text.replace(&self.server(), "SERVER"))
        };
        Outcome {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// The URL of the server.
    fn server(&self) -> String {
        let lines = self.kubeconfig.lines();
        let mut urls = lines.filter_map(|line| line.trim().strip_prefix("server: "));
        urls.next().expect("a server").to_owned()
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        // What is left of it is in the folder for temporary files.
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs a part of the script on the server of the test and, if that is the real one, on an
/// embedded one beside it.
async fn check(cluster: &Cluster, name: &str) {
    let Some(program) = std::env::var_os("WINDLASS_KUBECTL") else {
        println!("not run: WINDLASS_KUBECTL does not name the program of tests/kubectl");
        return;
    };
    let (program, namespace) = (Path::new(&program), cluster.namespace());
    let first = Kubectl::new(program, namespace, "first", cluster.kubeconfig().await).await;
    let beside = ApiServer::builder();
    let beside = beside.garbage_collection(false).quota_status(false).start();
    let second = if cluster.is_embedded() {
        None
    } else {
        let listening = beside.listen(([127, 0, 0, 1], 0)).await.expect("a port");
        let kubeconfig = (listening.kubeconfig(), Some(listening));
        let second = Kubectl::new(program, namespace, "second", kubeconfig).await;
        let created = second.run(&format!("create namespace {namespace}")).await;
        assert_eq!(created.code, Some(0), "{created:?}");
        Some(second)
    };
    let mut differences = Vec::new();
    for line in part(name) {
        let Line { arguments, .. } = line;
        let (theirs, ours) = tokio::join!(first.run(arguments), async {
            match &second {
                Some(second) => Some(second.run(arguments).await),
                None => None,
            }
        });
        let wrong = |what: &Outcome| what.code != Some(line.code);
        if wrong(&theirs) || ours.as_ref().is_some_and(wrong) {
            differences.push(format!("{line:?}: {theirs:#?}\n{ours:#?}"));
        } else if let Some(ours) = ours
            && line.compares_output
            && theirs != ours
        {
            differences.push(format!(
                "kubectl {arguments}:\n{theirs:#?}\nembedded: {ours:#?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

on_both_servers! {
    async fn kubectl_creates_objects(cluster: Cluster) {
        check(&cluster, "create").await;
    }

    async fn kubectl_prints_objects(cluster: Cluster) {
        check(&cluster, "get").await;
    }

    async fn kubectl_changes_objects(cluster: Cluster) {
        check(&cluster, "change").await;
    }

    async fn kubectl_applies_manifests(cluster: Cluster) {
        check(&cluster, "apply").await;
    }

    async fn kubectl_deletes_objects(cluster: Cluster) {
        check(&cluster, "delete").await;
    }

    async fn kubectl_uses_pods_and_waits_for_them(cluster: Cluster) {
        check(&cluster, "wait").await;
    }

    async fn kubectl_discovers_the_resources_of_the_server(cluster: Cluster) {
        check(&cluster, "server").await;
    }

    async fn kubectl_works_with_custom_resources(cluster: Cluster) {
        check(&cluster, "custom").await;
    }
}

//! Runs commands of clients such as kubectl, and compares their exit codes and their output on
//! both servers.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::LazyLock,
};

use regex::Regex;
use tokio::process::Command;
use windlass_apiserver::{ApiServer, Listening};

use crate::{
    cluster::{Cluster, create_namespace, profile},
    real::RealServer,
    trial::ignore,
};

/// Commands of one or more programs, by part.
///
/// A line `[name]` begins a part. Each other line is an exit code and a command:
///
/// - `1 get nothings`: the exit code on the real server is 1, and the output of both servers is
///   compared.
/// - `1* get nothings`: the output is not compared. `docs/apiserver.md` states the difference.
/// - `0 kubectl get pods`: the command is of the program with this name. Without a name it is of
///   the first program.
/// - `0@1.34=1 get pods`: the exit code is 1 with the programs of version 1.34.
///
/// `NS` in commands and files is the namespace of the test, `FILES` in commands the folder of its
/// files.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,

    /// The programs; the first one is the one that is tested.
    pub(crate) programs: &'static [Program],

    /// Where the tested program was built to behave like another one: its version.
    pub(crate) version: &'static str,

    /// Folders below `tests/behaviour`, and the folder below `FILES` to which their files are
    /// copied, in this order.
    pub(crate) folders: &'static [(&'static str, &'static str)],
}

/// A program that `cargo xtask test` builds.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name in scripts.
    pub(crate) name: &'static str,

    /// The environment variable with the path of its binary.
    pub(crate) variable: &'static str,

    /// Where its sources are.
    pub(crate) sources: &'static str,
}

/// One command of a script.
#[derive(Debug)]
struct Line {
    /// The exit code on the real server.
    code: i32,

    /// Whether the output is compared.
    compares_output: bool,

    program: &'static Program,

    /// The arguments, separated by spaces.
    arguments: &'static str,
}

/// The programs as clients of one server.
struct Client {
    folder: PathBuf,
    namespace: String,
    kubeconfig: String,
    /// Keeps the port of an embedded server open.
    _listening: Option<Listening>,
}

/// The result of a command, without what differs between two runs.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

// === impl Script ===

impl Script {
    /// Runs a part on the server of the test and, if that is the real one, on an embedded one
    /// beside it.
    ///
    /// With a real server, the test of the embedded one is ignored: the test of the real one
    /// runs the same commands on both, and checks the same exit codes.
    pub(crate) async fn check(&self, cluster: &Cluster, part: &str) {
        if cluster.is_embedded() && RealServer::is_available() {
            ignore("the test on kube-apiserver also runs the commands on an embedded server");
        }
        for Program {
            name,
            variable,
            sources,
        } in self.programs
        {
            if std::env::var_os(variable).is_none() {
                ignore(format!(
                    "{variable} does not name the {name} of {sources}: run `cargo xtask test`"
                ));
            }
        }
        let namespace = cluster.namespace();
        let first = Client::new(self, namespace, "first", cluster.kubeconfig().await);
        let beside = ApiServer::builder().profile(profile());
        let beside = beside.garbage_collection(false).quota_status(false).start();
        let second = if cluster.is_embedded() {
            None
        } else {
            create_namespace(beside.client(), namespace).await;
            let listening = beside.listen(([127, 0, 0, 1], 0)).await.expect("a port");
            let kubeconfig = (listening.kubeconfig(), Some(listening));
            Some(Client::new(self, namespace, "second", kubeconfig))
        };
        let mut differences = Vec::new();
        for line in self.part(part) {
            let (theirs, ours) = tokio::join!(first.run(&line), async {
                match &second {
                    Some(second) => Some(second.run(&line).await),
                    None => None,
                }
            });
            let wrong = |outcome: &Outcome| outcome.code != Some(line.code);
            if wrong(&theirs) || ours.as_ref().is_some_and(wrong) {
                differences.push(format!("{line:?}: {theirs:#?}\n{ours:#?}"));
            } else if let Some(ours) = ours
                && line.compares_output
                && theirs != ours
            {
                let Line {
                    program, arguments, ..
                } = line;
                let name = program.name;
                differences.push(format!(
                    "{name} {arguments}:\n{theirs:#?}\nembedded: {ours:#?}"
                ));
            }
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    /// The commands of one part.
    fn part(&self, name: &str) -> Vec<Line> {
        let header = format!("[{name}]");
        let lines = self.text.lines().skip_while(|line| *line != header);
        let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
        let lines: Vec<_> = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| self.line(line))
            .collect();
        assert!(!lines.is_empty(), "the script has no part {name}");
        lines
    }

    fn line(&self, line: &'static str) -> Line {
        let (code, command) = line.split_once(' ').expect("an exit code and a command");
        let (code, other) = code.split_once('@').unwrap_or((code, ""));
        let other = other.strip_prefix(self.version);
        let code = other.and_then(|it| it.strip_prefix('=')).unwrap_or(code);
        let (code, compares_output) = match code.strip_suffix('*') {
            Some(code) => (code, false),
            None => (code, true),
        };
        let named = self.programs.iter().find_map(|it| {
            let arguments = command.strip_prefix(it.name)?.strip_prefix(' ')?;
            Some((it, arguments))
        });
        let (program, arguments) = named.unwrap_or((&self.programs[0], command));
        Line {
            code: code.parse().expect("an exit code"),
            compares_output,
            program,
            arguments,
        }
    }
}

// === impl Client ===

impl Client {
    /// Clients of the server that `kubeconfig` names, with their files in a folder of their own.
    fn new(
        script: &Script,
        namespace: &str,
        server: &str,
        (kubeconfig, listening): (String, Option<Listening>),
    ) -> Self {
        let folder = std::env::temp_dir().join(format!("windlass-{namespace}-{server}"));
        for (from, to) in script.folders {
            let tests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviour"));
            copy(&tests.join(from), &folder.join(to), namespace).expect("a copy of the files");
        }
        std::fs::write(folder.join("kubeconfig"), &kubeconfig).expect("a file");
        Self {
            folder,
            namespace: namespace.to_owned(),
            kubeconfig,
            _listening: listening,
        }
    }

    /// Runs one command.
    async fn run(&self, line: &Line) -> Outcome {
        let folder = self.folder.display().to_string();
        let arguments = line.arguments.split(' ').map(|argument| {
            let argument = argument.replace("NS", &self.namespace);
            argument.replace("FILES", &folder)
        });
        let program = std::env::var_os(line.program.variable);
        let output = Command::new(program.expect("checked before the first command"))
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("HOME", &self.folder)
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .env("HELM_CACHE_HOME", self.folder.join("cache"))
            .env("HELM_CONFIG_HOME", self.folder.join("config"))
            .env("HELM_DATA_HOME", self.folder.join("data"))
            .env("TZ", "UTC")
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .expect("the variable names a program");
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

impl Drop for Client {
    fn drop(&mut self) {
        // What is left of it is in the folder for temporary files.
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Copies a folder of text files; `NS` in them becomes the namespace.
fn copy(from: &Path, to: &Path, namespace: &str) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to, namespace)?;
        } else {
            let text = std::fs::read_to_string(&from)?;
            std::fs::write(&to, text.replace("NS", namespace))?;
        }
    }
    Ok(())
}

/// Replaces what differs between two runs of the same command.
fn masked(text: &str) -> String {
    static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let masks = [
            (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
            (
                r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
                "TIME",
            ),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4}", "TIME"),
            (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \S+", "TIME"),
            (r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}", "TIME"),
            (r#"(?i)(resource ?version"?: *)"?\d+"?"#, "${1}VERSION"),
            (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
            (r"\b3[0-2]\d{3}\b", "PORT"),
            (r"\b(\d+m\d+s|\d+s|[1-9]m)\b|<invalid>", "AGE"),
            (r"[^ ]*/(LIVE|MERGED)-\d+", "$1"),
            (r"debugger-\w{5}", "debugger"),
            (r"modifiedAt=\d+", "modifiedAt=TIME"),
            // Helm ends its watches when it has seen enough, at any point of a response.
            (r"I\d{4} .*watch ended with error.*context canceled.*\n", ""),
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
    with_sorted_managers(&text)
}

/// A text whose lists of `managedFields` in YAML are sorted. On both servers, entries of the same
/// second are in the order of their managers, and others in the order of time.
fn with_sorted_managers(text: &str) -> String {
    let mut sorted = String::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        sorted.push_str(line);
        if line.trim() != "managedFields:" {
            continue;
        }
        let mut entries = Vec::new();
        while let Some(first) = lines.next_if(|it| it.trim().starts_with("- apiVersion:")) {
            let mut entry = first.to_owned();
            // The time is the last field of an entry.
            for line in lines.by_ref() {
                entry.push_str(line);
                if line.trim().starts_with("time:") {
                    break;
                }
            }
            entries.push(entry);
        }
        entries.sort();
        sorted.extend(entries);
    }
    sorted
}

//! The clients in Python, JavaScript and Java that the tests run: installs what they need.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, progress, repository::Repository};

/// Clients of a server whose packages are installed by a tool of their language.
#[derive(Debug)]
pub(crate) struct ScriptClient {
    /// How errors and progress name it.
    pub(crate) name: &'static str,

    /// The variable in which the tests find the path that [`find`](Self::find) returns.
    pub(crate) variable: &'static str,

    /// The interpreter or compiler, and the lowest version with which the clients were tried.
    interpreter: (&'static str, [u32; 2]),

    /// A command that succeeds if packages can be installed, and the error if it does not.
    installer: (&'static [&'static str], &'static str),

    /// Where the sources are.
    folder: &'static str,

    /// The files that are copied and decide what is installed.
    files: &'static [&'static str],

    /// Where the packages are installed, in the folder that cargo builds to.
    target: &'static str,

    /// The commands that install the packages, in the target folder.
    install: &'static [&'static [&'static str]],

    /// What the tests run, in the target folder.
    entry: &'static str,
}

/// The official Python client, and kopf.
pub(crate) const PYTHON: ScriptClient = ScriptClient {
    name: "clients in Python",
    variable: "WINDLASS_PYTHON",
    interpreter: ("python3", [3, 11]),
    installer: (
        &["python3", "-c", "import ensurepip, venv"],
        "Python has no module venv (Debian: python3-venv)",
    ),
    folder: "tests/python-clients",
    files: &["requirements.txt"],
    target: "python-clients",
    install: &[
        &["python3", "-m", "venv", "."],
        &["bin/pip", "install", "--requirement", "requirements.txt"],
    ],
    entry: "bin/python",
};

/// The official JavaScript client.
pub(crate) const NODE: ScriptClient = ScriptClient {
    name: "clients in JavaScript",
    variable: "WINDLASS_NODE_CLIENTS",
    interpreter: ("node", [20, 0]),
    installer: (&["npm", "--version"], "npm is not installed"),
    folder: "tests/node-clients",
    files: &[
        ".npmrc",
        "package.json",
        "package-lock.json",
        "client.js",
        "start.test.js",
    ],
    target: "node-clients",
    install: &[&["npm", "ci"]],
    entry: "client.js",
};

/// The fabric8 client.
pub(crate) const JAVA: ScriptClient = ScriptClient {
    name: "clients in Java",
    variable: "WINDLASS_JAVA_CLIENTS",
    interpreter: ("javac", [17, 0]),
    installer: (&["mvn", "--version"], "Maven is not installed"),
    folder: "tests/java-clients",
    files: &[
        "pom.xml",
        "Clients.java",
        "Objects.java",
        "Paint.java",
        "Paints.java",
        "Watches.java",
    ],
    target: "java-clients",
    install: &[
        &["mvn", "--batch-mode", "dependency:copy-dependencies"],
        &[
            "javac",
            "-sourcepath",
            ".",
            "-cp",
            "lib/*",
            "-d",
            "classes",
            "Clients.java",
        ],
    ],
    entry: "",
};

/// Present in the target folder after all packages were installed.
const INSTALLED: &str = "installed";

// === impl ScriptClient ===

impl ScriptClient {
    /// Installs the packages of the clients if that has not been done: the path that the tests run,
    /// or why they cannot be installed here.
    pub(crate) fn find(
        &self,
        repository: &Repository,
    ) -> Result<std::result::Result<PathBuf, String>> {
        if let Some(reason) = self.missing() {
            return Ok(Err(reason));
        }
        let source = repository.join(self.folder);
        let target = repository.target()?.join(self.target);
        if !self.is_installed(&source, &target) {
            if target.exists() {
                fs::remove_dir_all(&target)?;
            }
            fs::create_dir_all(&target)?;
            for file in self.files {
                fs::copy(source.join(file), target.join(file))?;
            }
            for command in self.install {
                self.install(command, &target)?;
            }
            fs::write(target.join(INSTALLED), "")?;
        }
        Ok(Ok(target.join(self.entry)))
    }

    fn install(&self, command: &[&str], target: &Path) -> Result<()> {
        let title = format!("installing {}", self.name);
        let mut command = program(command);
        let ran = progress::run(&title, command.current_dir(target), |line| {
            Some(line.to_owned())
        })?;
        if !ran.status.success() {
            return Err(format!("cannot install {}:\n{}", self.name, ran.output).into());
        }
        Ok(())
    }

    fn is_installed(&self, source: &Path, target: &Path) -> bool {
        let is_same = |file: &&str| {
            let source = fs::read(source.join(file));
            source.is_ok_and(|source| fs::read(target.join(file)).is_ok_and(|it| it == source))
        };
        target.join(INSTALLED).exists() && self.files.iter().all(is_same)
    }

    /// Why the clients cannot run here.
    fn missing(&self) -> Option<String> {
        let (interpreter, lowest) = self.interpreter;
        let Ok(output) = Command::new(interpreter).arg("--version").output() else {
            return Some(format!("{interpreter} is not installed"));
        };
        let version = String::from_utf8_lossy(&output.stdout);
        let numbers = version.split(|it: char| !it.is_ascii_digit());
        let numbers: Vec<u32> = numbers.filter_map(|it| it.parse().ok()).collect();
        if numbers[..] < lowest[..] {
            let [major, minor] = lowest;
            let version = version.trim();
            return Some(format!(
                "{version} is too old, they require {major}.{minor}"
            ));
        }
        let (command, error) = self.installer;
        let output = program(command).output();
        let is_there = output.is_ok_and(|output| output.status.success());
        (!is_there).then(|| error.to_owned())
    }
}

fn program(words: &[&str]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().copied().unwrap_or_default());
    command.args(words);
    command
}

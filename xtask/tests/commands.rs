//! Runs the commands that the documents name.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// README, CONTRIBUTING and the pages in docs/ name only existing commands.
#[test]
fn every_documented_command_of_xtask_has_a_help_text() {
    let root = root();
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    let folder = fs::read_dir(root.join("docs")).expect("there are documents");
    pages.extend(folder.map(|entry| entry.expect("it can be read").path()));
    pages.retain(|page| page.extension().is_some_and(|it| it == "md"));
    let mut tried = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for rest in text.split("cargo xtask ").skip(1) {
            let letters = |c: char| !(c.is_ascii_lowercase() || c == '-');
            let command = rest.split(letters).next().unwrap_or_default().to_owned();
            if command.is_empty() || tried.contains(&command) {
                continue;
            }
            let output = xtask()
                .args([&command, "--help"])
                .output()
                .expect("it runs");
            assert!(
                output.status.success(),
                "{}: `cargo xtask {command}` does not exist",
                page.display()
            );
            tried.push(command);
        }
    }
    assert!(tried.contains(&"test".to_owned()), "{tried:?}");
}

/// `cargo xtask kube-apiserver` keeps the stdin of its server open until it ends.
#[test]
#[cfg(target_os = "linux")]
fn kube_apiserver_prints_a_kubeconfig_and_stays() {
    let folder = Folder::new();
    // This fake server writes 124, the exit code of `timeout`, if its stdin is still open a second
    // after it was ready.
    let program = folder.0.join("server");
    let script = "#!/bin/sh\n\
        if [ \"$1\" = --version ]; then echo v0.0.0; exit; fi\n\
        touch \"$0.kubeconfig\"\n\
        echo '{\"version\":\"v0.0.0\",\"server\":\"https://here\",\"kubeconfig\":\"'\"$0.kubeconfig\"'\"}'\n\
        timeout 1 cat > /dev/null\n\
        echo $? > \"$0.part\" && mv \"$0.part\" \"$0.open\"\n\
        cat > /dev/null\n\
        rm \"$0.kubeconfig\"\n";
    fs::write(&program, script).expect("a script");
    let executable = Command::new("chmod").arg("+x").arg(&program).status();
    assert!(executable.expect("chmod runs").success());

    let mut command = xtask();
    command
        .arg("kube-apiserver")
        .env("WINDLASS_KUBE_APISERVER", &program)
        .stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("it runs"));
    let mut lines = BufReader::new(running.0.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "kube-apiserver v0.0.0 at https://here");
    let kubeconfig = line();
    let kubeconfig = kubeconfig.strip_prefix("export KUBECONFIG=");
    let kubeconfig = PathBuf::from(kubeconfig.expect("a path"));
    assert_eq!(
        line(),
        "Press Ctrl-C to stop the server and remove its data."
    );

    let open = program.with_extension("open");
    until("the server is ready for a second", || {
        assert!(running.0.try_wait().expect("it can be asked").is_none());
        open.is_file()
    });
    assert_eq!(fs::read_to_string(open).expect("a number").trim(), "124");
    assert!(kubeconfig.is_file());

    // The server notices the end of the command and removes its files.
    drop(running);
    until("the server removes its files", || !kubeconfig.is_file());
}

/// Waits until `holds`, for a minute at most.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("waited 60 s until {what}");
}

fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.current_dir(root());
    command
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("xtask is a folder of the repository")
        .to_owned()
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A folder that is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("windlass-commands-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

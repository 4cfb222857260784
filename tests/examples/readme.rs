//! The README's manifest and first program, as a reader copies them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PAGE: &str = include_str!("../../README.md");

/// A page of an admin server.
const PAGE_OF_AN_OPERATOR: &str = r#"
use windlass::admin::{AdminServer, bytes::Bytes, http::{Request, Response}};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = AdminServer::new(([127, 0, 0, 1], 8080));
    let server = server.route("/page", |_: Request<Bytes>| async { Response::new(Bytes::new()) })?;
    drop(server);
    Ok(())
}
"#;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A package of a reader, with nothing but the crates of the README's manifest. It is deleted when
/// this is dropped.
pub(crate) struct Reader(PathBuf);

/// The program, the quickstart, which is one file to copy, and a page of an admin server compile with
/// nothing but the crates of the manifest. The repository on this machine stands for that on the network.
#[test]
fn the_first_program_of_the_readme_compiles_with_its_manifest() {
    let reader = Reader::new("readme");
    reader.write("src/main.rs", block("rust"));
    reader.write("src/bin/page.rs", PAGE_OF_AN_OPERATOR);
    for name in ["main.rs", "user.rs"] {
        let from = Path::new(ROOT).join("examples/quickstart").join(name);
        let text = fs::read_to_string(from).expect("an example");
        reader.write(&format!("src/bin/quickstart/{name}"), &text);
    }
    let (succeeded, errors) = reader.check();
    assert!(succeeded, "{errors}");
    assert!(!errors.contains("\nwarning: unused"), "{errors}");
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(name: &str) -> Self {
        // Outside of this repository: its .cargo/config.toml does not apply to a reader.
        let folder = std::env::temp_dir().join(format!("windlass-{name}-{}", std::process::id()));
        let reader = Self(folder);
        let manifest = block("toml");
        // With the profile of the workspace, dependencies that it has checked are not checked again.
        let mut local = format!(
            "[package]\nname = \"reader\"\nedition = \"2024\"\n\n[workspace]\n\n{manifest}\n\
             [profile.dev]\ndebug = \"line-tables-only\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n"
        );
        for (crate_name, path) in [
            ("windlass", ""),
            ("windlass-apiserver", "/crates/apiserver"),
        ] {
            let published = format!(
                "\n{crate_name} = {{ git = \"{}\"",
                env!("CARGO_PKG_REPOSITORY")
            );
            assert!(local.contains(&published), "{published} is not in {local}");
            let path = format!("\n{crate_name} = {{ path = \"{ROOT}{path}\"");
            local = local.replace(&published, &path);
        }
        reader.write("Cargo.toml", &local);
        // The versions of this workspace, which are on this machine.
        let lock = fs::read_to_string(Path::new(ROOT).join("Cargo.lock")).expect("a lock file");
        reader.write("Cargo.lock", &lock);
        reader
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Compiles each program. Returns whether all compile, and what the compiler says.
    pub(crate) fn check(&self) -> (bool, String) {
        let output = Command::new(env!("CARGO"))
            .args(["check", "--offline", "--bins", "--keep-going", "--target-dir"])
            .arg(target())
            .current_dir(&self.0)
            // Cargo sets it for this test; the manifest of a reader selects the version.
            .env_remove("K8S_OPENAPI_ENABLED_VERSION")
            .output()
            .expect("cargo runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), errors)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// The first block of the page in this language.
fn block(language: &str) -> &'static str {
    let fence = format!("\n```{language}\n");
    let (_, after) = PAGE.split_once(&fence).expect("a block");
    after.split_once("```").expect("its end").0
}

/// The target directory of this test.
fn target() -> PathBuf {
    let here = std::env::current_exe().expect("a path");
    let folder = here.ancestors().nth(3).expect("the target directory");
    folder.to_owned()
}

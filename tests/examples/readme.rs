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

/// The program, the quickstart, which is one file to copy, and a page of an admin server compile with
/// nothing but the crates of the manifest. The repository on this machine stands for that on the network.
#[test]
fn the_first_program_of_the_readme_compiles_with_its_manifest() {
    // Outside of this repository: its .cargo/config.toml does not apply to a reader.
    let folder = std::env::temp_dir().join(format!("windlass-readme-{}", std::process::id()));
    let binary = folder.join("src/bin/quickstart");
    fs::create_dir_all(&binary).expect("a folder");
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
    fs::write(folder.join("Cargo.toml"), local).expect("a file");
    fs::write(folder.join("src/main.rs"), block("rust")).expect("a file");
    fs::write(folder.join("src/bin/page.rs"), PAGE_OF_AN_OPERATOR).expect("a file");
    for name in ["main.rs", "user.rs"] {
        let from = Path::new(ROOT).join("examples/quickstart").join(name);
        fs::copy(from, binary.join(name)).expect("a copy");
    }
    // The versions of this workspace, which are on this machine.
    fs::copy(
        Path::new(ROOT).join("Cargo.lock"),
        folder.join("Cargo.lock"),
    )
    .expect("a copy");
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--bins", "--target-dir"])
        .arg(target())
        .current_dir(&folder)
        // Cargo sets it for this test; the manifest of a reader selects the version.
        .env_remove("K8S_OPENAPI_ENABLED_VERSION")
        .output()
        .expect("cargo runs");
    _ = fs::remove_dir_all(&folder);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("\nwarning: unused"), "{errors}");
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

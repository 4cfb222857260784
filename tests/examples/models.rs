//! The examples of the models of `docs/choosing.md`.

use super::run;

/// `tests/models` tests them further.
#[test]
fn each_model_publishes_moves_and_removes_a_website() {
    for example in ["apply_cleanup", "keyed_resource"] {
        let output = run(example, &[]);
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{example}: {printed}\n{errors}");
        let lines: Vec<_> = printed.lines().collect();
        assert_eq!(
            lines,
            [
                "user: create the website blog",
                "dns:  blog.default.example 192.0.2.1",
                "user: move it, while the DNS provider does not answer",
                "dns:  blog.default.example 192.0.2.2",
                "user: delete it",
                "dns:  no record",
                "user: the website, its deployment and its record are deleted",
            ],
            "{example}"
        );
    }
}

#[test]
fn composite_reports_the_servers_of_a_website_and_deletes_them() {
    let output = run("composite", &[]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            "user:       create the website blog with 2 servers",
            "status:     blog is not ready",
            "deployment: start 2 servers of blog",
            "status:     blog is ready",
            "user:       delete the website",
            "user:       the website and its deployment are deleted",
        ],
    );
}

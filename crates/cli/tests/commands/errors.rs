//! What went wrong, what to do next, and the exit code.

use crate::canned::{problem, run, transcript};
use insta::assert_snapshot;
use serde_json::json;
use std::net::TcpListener;

fn refused() -> (u16, serde_json::Value) {
    problem(
        409,
        "address-taken",
        "address 10.77.0.5 is taken by pod web/shop-0",
        "`berth show ADDRESS` tells who has it",
        12,
    )
}

#[test]
fn a_problem_is_shown_with_its_hint_and_exit_code() {
    assert_snapshot!(
        [
            transcript("allocate --holder x --address 10.77.0.5", &[refused()]),
            transcript("--color always show 10.77.0.5", &[refused()]),
            transcript("-q show 10.77.0.5", &[refused()])
        ]
        .join("\n\n")
    );
}

#[test]
fn a_problem_names_the_field_once() {
    let (status, mut body) = problem(422, "invalid", "\"soon\" is not a duration", "mend the field and try again", 2);
    body["field"] = json!("keep");
    let first = transcript("allocate --holder x --keep soon", &[(status, body.clone())]);
    body["detail"] = json!("keep: \"soon\" is not a duration");
    assert_snapshot!([first, transcript("allocate --holder x --keep soon", &[(status, body)])].join("\n\n"));
}

#[test]
fn a_problem_without_a_code_is_still_a_failure() {
    let bare = (500, json!({ "detail": "boom" }));
    assert_snapshot!(transcript("check", &[bare]));
}

#[test]
fn a_daemon_that_is_down_is_to_be_started() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let shown = run(&format!("berth --server http://{port} check"));
    assert_snapshot!(shown.replace(&port.to_string(), "SERVER"));
}

#[test]
fn a_stranger_is_not_taken_for_berth() {
    assert_snapshot!(
        [
            transcript("check", &[(404, json!("not here"))]),
            transcript("check", &[(200, json!({ "hello": "world" }))]),
            run("berth --server https://berth.example check")
        ]
        .join("\n\n")
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    assert_snapshot!(run("berth apply -f /nonexistent/pools.yaml"));
}

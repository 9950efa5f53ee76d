//! Help texts, and command lines that are not understood.

use clap::error::ErrorKind;
use insta::assert_snapshot;

fn said(line: &str) -> String {
    berth_cli::parse(line.split_whitespace()).unwrap_err().to_string()
}

#[test]
fn help_is_a_pleasure_to_read() {
    assert_snapshot!(
        [said("berth --help"), said("berth allocate --help"), said("berth serve --help"), said("berth delete -h")]
            .join("\n\n")
    );
}

#[test]
fn the_reference_is_generated() {
    assert_snapshot!(berth_cli::markdown());
}

#[test]
fn what_cannot_be_meant_is_refused_with_2() {
    for line in [
        "berth delete pool",
        "berth delete pool blue -f pools.yaml",
        "berth release",
        "berth release 10.77.0.5 --holder printer",
        "berth release --holder printer --network lab",
        "berth show 10.77.0.5 --pool blue",
        "berth show ten",
        "berth get claims -A -n web",
        "berth allocate --count 0",
        "berth allocate --pod-label =x",
        "berth allocate --family ipx",
        "berth status --watch 0",
        "berth serve --listen 8090",
        "berth sevre",
    ] {
        let error = berth_cli::parse(line.split_whitespace()).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    assert_snapshot!([said("berth show ten"), said("berth sevre")].join("\n\n"));
}

#[test]
fn no_command_shows_the_help() {
    let error = berth_cli::parse(["berth"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DisplayHelp);
}

#[test]
fn serve_reads_its_options() {
    use berth_cli::args::{Command, Durability, Listen};
    let parse = |line: &str| match berth_cli::parse(line.split_whitespace()).unwrap().command {
        Command::Serve(args) => args,
        _ => panic!("{line} is not serve"),
    };
    let args = parse("berth serve --listen none --durability always --node-name n1 --state-dir /tmp/b");
    assert_eq!((args.listen, args.durability, args.node_name()), (Listen(None), Durability::Always, "n1".to_owned()));
    let args = parse("berth serve");
    assert_eq!(args.listen, Listen(Some("127.0.0.1:8090".parse().unwrap())));
    assert!(!args.node_name().is_empty());
}

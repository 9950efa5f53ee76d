use super::*;

fn parse(text: &str) -> Config<'_> {
    Config::parse(text.as_bytes()).unwrap()
}

fn addresses<const N: usize>(texts: [&str; N]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn sets(text: &str) -> std::result::Result<Vec<String>, String> {
    let sets = parse(text).sets().map_err(|error| error.to_string())?;
    Ok(sets.iter().map(ToString::to_string).collect())
}

#[test]
fn b4_old_style() {
    let text = r#"{"cniVersion":"0.3.1","name":"mynet","type":"ipvlan","ipam":{"type":"host-local",
        "subnet":"10.1.2.0/24","rangeStart":"10.1.2.9","rangeEnd":"10.1.2.20","gateway":"10.1.2.30"}}"#;
    let config = parse(text);
    let sets = config.sets().unwrap();
    assert_eq!(sets.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.1.2.9-10.1.2.20"]);
    let link = sets[0].link(addresses(["10.1.2.9"])[0]).unwrap();
    assert_eq!((link.prefix_len, link.gateway), (24, addresses(["10.1.2.30"])[0]));
    assert_eq!((config.name(), config.data_dir().unwrap()), ("mynet", PathBuf::from(DEFAULT_DATA_DIR)));
}

#[test]
fn b4_new_style_and_mixed() {
    let ranges = r#""ranges":[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.9","rangeEnd":"10.1.2.20"},
        {"subnet":"10.1.4.0/24"}],[{"subnet":"11.1.2.0/24"}]]"#;
    let new = ["10.1.2.9-10.1.2.20,10.1.4.1-10.1.4.254", "11.1.2.1-11.1.2.254"];
    assert_eq!(sets(&format!(r#"{{"cniVersion":"0.3.1","name":"n","ipam":{{{ranges}}}}}"#)).unwrap(), new);
    let mixed = format!(
        r#"{{"cniVersion":"0.3.1","name":"n","RuntimeConfig":{{"IPRanges":[[{{"subnet":"16.1.0.0/24"}}],
            [{{"Subnet":"2001:db8::/64"}}]]}},"ipam":{{"subnet":"10.9.0.0/24",{ranges}}}}}"#
    );
    let first = ["16.1.0.1-16.1.0.254", "2001:db8::1-2001:db8::ffff:ffff:ffff:ffff", "10.9.0.1-10.9.0.254"];
    assert_eq!(sets(&mixed).unwrap(), [&first[..], &new].concat());
}

#[test]
fn b4_refusals() {
    let of = |rest: &str| sets(&format!(r#"{{"cniVersion":"0.3.1","name":"n","ipam":{{{rest}}}}}"#)).unwrap_err();
    assert_eq!(of(""), "no IP ranges specified");
    assert_eq!(of(r#""ranges":[[]]"#), "invalid range set 0: empty range set");
    assert_eq!(
        of(r#""ranges":[[{"subnet":"10.1.0.0/22"}],[{"subnet":"10.1.2.0/24"}]]"#),
        "range set 0 overlaps with 1"
    );
    assert_eq!(of(r#""subnet":"usePodCidr""#), "invalid CIDR address: usePodCidr");
    assert_eq!(of(r#""subnet":"""#), "invalid CIDR address: ");
    assert_eq!(of(r#""subnet":"10.0.0.0/24","gateway":"x""#), "invalid IP address: x");
    assert!(of(r#""ranges":[null]"#).contains("ipam.ranges[0]"));
    assert!(of(r#""ranges":[[null]]"#).contains("ipam.ranges[0]"));
    assert!(of(r#""ranges":5"#).contains("ipam.ranges"));
    assert!(of(r#""subnet":5"#).contains("subnet"));
    let Err(error) = Config::parse(br#"{"name":"n"}"#) else { panic!("there is no ipam") };
    assert_eq!(error.to_string(), "IPAM config missing 'ipam' key");
}

#[test]
fn empty_texts_are_absent() {
    let text = r#"{"name":"n","ipam":{"subnet":"10.0.0.0/24","rangeStart":"","rangeEnd":null,"gateway":"",
        "dataDir":"","resolvConf":""}}"#;
    assert_eq!(sets(text).unwrap(), ["10.0.0.1-10.0.0.254"]);
    assert_eq!(parse(text).data_dir().unwrap(), PathBuf::from(DEFAULT_DATA_DIR));
    assert_eq!(parse(text).resolv_conf().unwrap(), None);
}

#[test]
fn b4_requested() {
    let of =
        |rest: &str| parse(&format!(r#"{{"name":"n","ipam":{{}},{rest}}}"#)).requested().map_err(|e| e.to_string());
    let ips = r#""ips":["10.1.2.11/24","11.11.11.11","2001:db8:1::11/64"]"#;
    let expected = addresses(["10.1.2.11", "11.11.11.11", "2001:db8:1::11"]);
    assert_eq!(of(&format!(r#""args":{{"cni":{{{ips}}}}}"#)).unwrap(), expected);
    let runtime = r#""runtimeConfig":{"ips":["192.168.0.1","192.168.0.5/24","2001:db8::1/64","::ffff:10.0.0.9"]}"#;
    let more = addresses(["192.168.0.1", "192.168.0.5", "2001:db8::1", "10.0.0.9"]);
    assert_eq!(of(&format!(r#"{runtime},"args":{{"cni":{{{ips}}}}}"#)).unwrap(), [expected, more].concat());
    assert!(of(r#""args":null,"runtimeConfig":{"ips":null}"#).unwrap().is_empty());
    assert!(of(r#""runtimeConfig":{"ips":["10.0.0.1",null]}"#).unwrap_err().contains("runtimeConfig.ips[1]"));
    assert!(of(r#""args":{"cni":{"ips":[null]}}"#).unwrap_err().contains("args.cni.ips[0]"));
    assert_eq!(of(r#""runtimeConfig":{"ips":["ten"]}"#).unwrap_err(), "invalid IP address ten");
    assert_eq!(of(r#""runtimeConfig":{"ips":[""]}"#).unwrap_err(), "invalid IP address ");
}

#[test]
fn routes_are_read_whole() {
    let of = |routes: &str| parse(&format!(r#"{{"name":"n","ipam":{{"routes":{routes}}}}}"#)).routes();
    let routes = of(r#"[{"dst":"0::0/0"},{"dst":"10.0.0.0/8","gw":"10.0.0.1","mtu":1400,"advmss":2,"priority":3,
        "table":4,"scope":0}]"#)
    .unwrap();
    assert_eq!(routes[0], Route { dst: "::/0".to_owned(), ..Route::default() });
    assert_eq!((routes[1].gw, routes[1].mtu, routes[1].table), (Some(addresses(["10.0.0.1"])[0]), Some(1400), Some(4)));
    assert_eq!(routes[1].scope, Some(0));
    assert!(of("[null]").unwrap_err().to_string().contains("ipam.routes[0]"));
    assert_eq!(of(r#"[{"gw":"10.0.0.1"}]"#).unwrap_err().to_string(), "a route in ipam.routes has no dst");
    assert_eq!(of(r#"[{"dst":"10.0.0.0"}]"#).unwrap_err().to_string(), "invalid CIDR address: 10.0.0.0");
}

proptest::proptest! {
    #[test]
    fn any_configuration_is_read_or_refused(
        key in "subnet|rangeStart|gateway|ranges|routes|dataDir|resolvConf|x",
        value in r#"(\[|\{|"[a-f0-9./:]{0,9}"|"subnet"|"dst"|[0-9]{1,3}|null|,|:|\]|\}){0,12}"#,
    ) {
        let text = format!(r#"{{"name":"n","ipam":{{"{key}":{value}}},"runtimeConfig":{{"ipRanges":{value}}}}}"#);
        if let Ok(config) = Config::parse(text.as_bytes()) {
            let _ = (config.sets(), config.routes(), config.data_dir(), config.requested(), config.prev_addresses());
        }
    }
}

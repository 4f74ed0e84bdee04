//! Names and addresses in a network of the test's own: what a name leads to is checked, and dialled as it was checked.

use std::net::Ipv4Addr;

use serde_json::json;

use crate::country::{BAD, GOOD, OTHER, SIXTH, within};
use crate::scene::has;

const PORT: u16 = 8080;

fn request(host: &str) -> String {
    format!("hosts {host}:{PORT} {host}:{PORT}")
}

/// A name that leads to a public address when it is checked and to the loopback afterwards.
#[test]
fn a_name_that_changes_its_address() {
    within("names::a_name_that_changes_its_address", |country| {
        let (good, inside) = (country.server(GOOD, PORT), country.server(Ipv4Addr::LOCALHOST, PORT));
        let options = ["--allow-host", "turn.test"];
        for scene in country.scenes() {
            let came = good.asked().len();
            country.names().set("turn.test", &[GOOD, Ipv4Addr::LOCALHOST]);
            let both = format!("python3 probe.py {0}; python3 probe.py {0}", request("turn.test"));
            let seen = scene.run(&options, &both);
            assert_eq!(seen.out(), "200\n403", "{:#}", seen.result);
            assert_eq!(country.names().asked("turn.test"), 2, "one look-up a connection");
            let denial = seen.fact("net.resolve", "turn.test", Some(PORT));
            assert_eq!(denial["grant"]["network"], json!([format!("127.0.0.1:{PORT}")]));
            assert_eq!((good.asked().len() - came, inside.asked().len()), (2, 0), "it went where it was checked");
        }
    });
}

#[test]
fn names_that_lead_inside() {
    within("names::names_that_lead_inside", |country| {
        let server = country.server(Ipv4Addr::UNSPECIFIED, PORT);
        for scene in country.scenes() {
            let came = server.asked().len();
            for address in [[127, 0, 0, 1], [10, 1, 2, 3], [169, 254, 169, 254], [192, 168, 0, 1], [0, 0, 0, 0]] {
                country.names().set("inside.test", &[address.into()]);
                let seen = scene.probe(&["--allow-host", "inside.test"], &request("inside.test"));
                assert_eq!(seen.out(), "403", "{address:?}");
                let denial = seen.fact("net.resolve", "inside.test", Some(PORT));
                assert_eq!(denial["grant"]["network"], json!([format!("{}:{PORT}", Ipv4Addr::from(address))]));
            }
            assert_eq!(server.asked().len(), came, "nobody came");
            let named = ["--allow-host", "inside.test", "--allow-host", "127.0.0.1"];
            country.names().set("inside.test", &[Ipv4Addr::LOCALHOST]);
            assert_eq!(scene.probe(&named, &request("inside.test")).works(), "200", "the control");
            assert_eq!(server.asked().len(), came + 2);
            country.names().set("inside.test", &[GOOD]);
            assert_eq!(scene.probe(&["--allow-host", "inside.test"], &request("inside.test")).works(), "200");
        }
    });
}

/// The address of an allowed name is not that name, however it is written.
#[test]
fn addresses_in_place_of_a_name() {
    within("names::addresses_in_place_of_a_name", |country| {
        let servers = [country.server(GOOD, PORT), country.server(SIXTH.parse::<std::net::Ipv6Addr>().unwrap(), PORT)];
        let options = ["--allow-host", "good.test"];
        let plain = GOOD.to_string();
        for scene in country.scenes() {
            for written in [&plain, &format!("[::ffff:{plain}]"), "[::ffff:5db8:d822]", "[0:0:0:0:0:ffff:5db8:d822]"] {
                let seen = scene.probe(&options, &format!("connect {written}:{PORT}"));
                assert_eq!(seen.out(), "403", "{written}");
                let denial = seen.fact("net.connect", &plain, Some(PORT));
                assert_eq!(denial["grant"]["network"], json!([format!("{plain}:{PORT}")]));
            }
            let seen = scene.probe(&options, &format!("connect [{SIXTH}]:{PORT}"));
            assert_eq!(seen.out(), "403");
            seen.fact("net.connect", SIXTH, Some(PORT));
            for other in ["1572395042", "0x5db8d822", "0135.0270.0330.042", "93.12113954", "[fe80::1%25lo]"] {
                let seen = scene.probe(&options, &format!("connect {other}:{PORT}"));
                assert_eq!(seen.out(), "400", "{other}");
                let [denial] = seen.denials() else { panic!("{other}: {:#}", seen.result) };
                assert!(denial["host"].as_str().unwrap().contains(other.trim_matches(['[', ']'])), "{denial:#}");
            }
            // The C library reads each of these as the same address.
            for past in ["1572395042", "0x5db8d822", "0135.0270.0330.042", "93.12113954", &plain] {
                let seen = scene.probe(&options, &format!("tcp {past} {PORT}"));
                seen.refused("net.connect", &plain, Some(PORT));
            }
            let seen = scene.probe(&options, &format!("tcp ::ffff:{plain} {PORT}"));
            seen.refused("net.connect", &plain, Some(PORT));
            scene.probe(&options, &format!("tcp {SIXTH} {PORT}")).refused("net.connect", SIXTH, Some(PORT));
            scene.probe(&options, &format!("udp {plain} 443")).refused("net.connect", &plain, Some(443));
            scene.probe(&options, &format!("udp {SIXTH} 443")).refused("net.connect", SIXTH, Some(443));
            for server in &servers {
                assert_eq!(server.asked(), [""; 0]);
            }
        }
    });
}

/// Spellings of one name, and names that only look like it.
#[test]
fn spellings_of_a_name() {
    within("names::spellings_of_a_name", |country| {
        let _good = country.server(GOOD, PORT);
        let bad = country.server(BAD, PORT);
        // Cyrillic letters in place of two Latin ones.
        let alike = idna::domain_to_ascii("g\u{43e}\u{43e}d.test").unwrap();
        for name in [&alike, "good.test.evil.test", "notgood.test"] {
            country.names().set(name, &[BAD]);
        }
        let options = ["--allow-host", "good.test", "--allow-host", "*.below.test"];
        country.names().set("a.b.below.test", &[OTHER]);
        let _other = country.server(OTHER, PORT);
        for scene in country.scenes() {
            for same in ["GOOD.test", "good.test.", "Good.Test.", "A.b.BELOW.test"] {
                assert_eq!(scene.probe(&options, &request(same)).works(), "200", "{same}");
            }
            for other in [&alike, "good.test.evil.test", "notgood.test", "below.test"] {
                let seen = scene.probe(&options, &request(other));
                assert_eq!(seen.out(), "403", "{other}");
                seen.fact("net.connect", other, Some(PORT));
            }
            assert_eq!(bad.asked(), [""; 0]);
        }
    });
}

/// A client that goes past the proxy to what the rules allow needs no further entry.
#[test]
fn allowed_but_not_that_way() {
    if !has("curl") {
        return;
    }
    within("names::allowed_but_not_that_way", |country| {
        let good = country.server(GOOD, PORT);
        let port = good.port();
        for scene in country.scenes() {
            let unset = "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; curl -sS";
            let (entry, named) = (format!("{GOOD}:{port}"), ["--allow-host", "good.test"]);
            for (options, host, kind, shown) in [
                (&named, "good.test", "net.resolve", None),
                (&["--allow-host", &entry], &GOOD.to_string()[..], "net.connect", Some(port)),
            ] {
                let seen = scene.run(options, &format!("{unset} http://{host}:{port}/a.txt"));
                let denial = seen.refused(kind, host, shown);
                assert_eq!(denial["blocking"], true, "{denial:#}");
                assert_eq!(denial["widenTo"], "danger-full-access", "{denial:#}");
                assert!(denial.get("grant").is_none_or(serde_json::Value::is_null), "{denial:#}");
                let seen = scene.run(options, &format!("curl -sSf http://{host}:{port}/a.txt"));
                assert_eq!(seen.works(), "hello from outside", "the control");
            }
        }
    });
}

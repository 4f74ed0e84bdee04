use super::*;

fn masked(text: &str) -> String {
    Masker::default().text(text)
}

#[test]
fn secrets_are_masked_wherever_a_name_announces_them() {
    for (given, expected) in [
        ("GITHUB_TOKEN=abc make", "GITHUB_TOKEN=*** make"),
        ("export API_KEY='a b c' && x", "export API_KEY=*** && x"),
        ("env FOO=bar PGPASSWORD=\"p q\" psql", "env FOO=bar PGPASSWORD=*** psql"),
        ("gh auth --token abc --json", "gh auth --token *** --json"),
        ("tool --api-key=abc,def rest", "tool --api-key=*** rest"),
        ("curl -H 'Authorization: Bearer abc.def' u", "curl -H 'Authorization: ***' u"),
        ("curl -H \"X-Api-Key: k1\" -H 'Accept: json'", "curl -H \"X-Api-Key: ***\" -H 'Accept: json'"),
        ("curl -u me:hush https://h/", "curl -u me:*** https://h/"),
        ("curl --user 'me:hush' h", "curl --user 'me:***' h"),
        ("echo Authorization: Bearer abc; ls", "echo Authorization: Bearer ***; ls"),
        ("git clone https://u:p@h/r.git", "git clone https://u:***@h/r.git"),
        ("git clone https://abc@h/r.git", "git clone https://***@h/r.git"),
        ("wget 'https://h/?access_token=abc&x=1'", "wget 'https://h/?access_token=***&x=1'"),
        ("curl -d '{\"password\": \"a b\", \"n\": 1}' h", "curl -d '{\"password\": \"***\", \"n\": 1}' h"),
        ("bash -c 'SECRET=abc run' done", "bash -c 'SECRET=*** run' done"),
        ("echo ghp_0123456789abcdef0123 x", "echo *** x"),
    ] {
        assert_eq!(masked(given), expected, "{given}");
    }
}

#[test]
fn ordinary_commands_stay_as_they_are() {
    for text in [
        "git commit --author 'A <a@b>' -m 'x: y'",
        "sort -k 2 --parallel=2",
        "make KEYBOARD=de -j4",
        "git clone ssh://git@host/r && git push git@host:r",
        "curl https://example.com/a@b?x=1",
        "ls 'a b' \"c\\\"d\" | wc -l > out",
        "échec=\u{201c}ä\u{201d} \\",
        "",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn arguments_and_known_values() {
    let environment: Variables =
        [("MY_TOKEN".into(), "opensesame".into()), ("HOME".into(), "/home/somebody".into())].into();
    let masker = Masker::knowing(&environment);
    assert_eq!(masker.text("echo xopensesamex /home/somebody"), "echo x***x /home/somebody");
    let arguments = ["curl", "--password", "a b", "-H", "Authorization: Basic x y"].map(str::to_owned);
    assert_eq!(masker.arguments(arguments.into_iter()), ["curl", "--password", "***", "-H", "Authorization: ***"]);
}

proptest::proptest! {
    #[test]
    fn what_is_not_masked_stays_in_place(text in "[a-zKEY_=:/@'\"\\\\ &;{}\u{e9}\u{4e2d}-]{0,60}") {
        // What stands between the masks is the text itself, in its order.
        let mut rest = text.as_str();
        for kept in masked(&text).split(MASK) {
            let at = rest.find(kept);
            proptest::prop_assert!(at.is_some(), "{:?} not in {:?}", kept, rest);
            rest = &rest[at.unwrap_or(0) + kept.len()..];
        }
    }

    #[test]
    fn an_assignment_never_keeps_its_value(value in "[a-z]{6,12}") {
        for text in [
            format!("A_TOKEN={value} x"), format!("x --secret {value}"), format!("x 'password: {value}'"),
            format!("http://u:{value}@h"), format!("export K='a' B_KEY=\"{value}\""),
        ] {
            let hidden = !masked(&text).contains(&value);
            proptest::prop_assert!(hidden, "{}", text);
        }
    }
}

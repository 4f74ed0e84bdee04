//! Real clients, confined, in a network of the test's own with public addresses: what the rules name works, what they do
//! not name yields one fact that names host and port, is why the command failed, and says what to ask for.

use std::path::Path;
use std::process::Command;

use crate::country::{BAD, Country, GOOD, within};
use crate::scene::{PATH, Scene, has};

const ALLOW: &[&str] = &["--allow-host", "good.test"];

/// One client: `command` for an URL of the server at `good.test`, then for `bad.test` by `http` and by `https`, which
/// leads through a tunnel.
struct Trial<'a> {
    country: &'a Country,
    content: &'a dyn Fn(&Path),
    command: &'a dyn Fn(&str) -> String,
    landed: &'a dyn Fn(&Scene, &str),
}

impl Trial<'_> {
    fn run(&self) {
        let (good, bad) = (self.country.server(GOOD, 8080), self.country.server(BAD, 8080));
        (self.content)(good.root());
        for scene in self.country.scenes() {
            (self.landed)(&scene, scene.run(ALLOW, &(self.command)("http://good.test:8080")).works());
            let asked = good.asked().len();
            assert!(asked > 0, "the control");
            scene.run(ALLOW, &(self.command)("http://bad.test:8080")).refused_by_proxy("bad.test", 8080);
            scene.run(ALLOW, &(self.command)("https://bad.test")).refused_by_proxy("bad.test", 443);
            assert_eq!((good.asked().len(), bad.asked().len()), (asked, 0), "nobody was asked");
            assert_eq!(self.country.names().asked("bad.test"), 0, "what is refused is not looked up");
        }
    }
}

fn here(program: &str, arguments: &[&str], directory: &Path) {
    let output = Command::new(program).args(arguments).current_dir(directory).env("PATH", PATH).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// A client that prints what it was given.
fn prints(test: &str, client: &'static str, command: &'static str) {
    if !has(client) {
        return;
    }
    within(test, move |country| {
        Trial {
            country,
            content: &|_| {},
            command: &|url| command.replace("URL", &format!("{url}/a.txt")),
            landed: &|_, out| assert_eq!(out, "hello from outside"),
        }
        .run();
    });
}

#[test]
fn curl() {
    prints("clients::curl", "curl", "curl -sSf URL");
}

#[test]
fn curl_by_socks() {
    prints("clients::curl_by_socks", "curl", "curl -sSf -x ${ALL_PROXY/http:/socks5h:} URL");
}

#[test]
fn python_urllib() {
    let script = r#"python3 -c 'import urllib.request as r; print(r.urlopen("URL").read().decode())'"#;
    prints("clients::python_urllib", "python3", script);
}

/// The requests of this system, or pip's own copy of it.
#[test]
fn python_requests() {
    let script = r#"python3 -c '
try: import requests
except ImportError: from pip._vendor import requests
answer = requests.get("URL")
answer.raise_for_status()
print(answer.text)'"#;
    prints("clients::python_requests", "python3", script);
}

#[test]
fn wget() {
    if std::fs::metadata("/usr/bin/wget").is_ok() {
        prints("clients::wget", "wget", "wget -q -t 1 -O - URL || wget -nv -t 1 -O - URL");
    } else {
        println!("NOT TESTED: wget is not installed");
    }
}

/// From 22.21 and 24.0 on node reads the variables; before, its `fetch` has no way to the proxy, and none round it.
#[test]
fn node_fetch() {
    const FETCH: &str = "node -e 'fetch(\"URL\").then(async r => { if (!r.ok) throw new Error(await r.text()); \
                         console.log(await r.text()) }).catch(e => { console.error(e); process.exit(1) })'";
    if !has("node") {
        return;
    }
    let flag = "process.exit(process.allowedNodeEnvironmentFlags.has('--use-env-proxy') ? 0 : 1)";
    if Command::new("node").args(["-e", flag]).env("PATH", PATH).status().unwrap().success() {
        return prints("clients::node_fetch", "node", FETCH);
    }
    within("clients::node_fetch", |country| {
        let good = country.server(GOOD, 8080);
        for scene in country.scenes() {
            let fetch = |url| scene.run(ALLOW, &FETCH.replace("URL", url));
            let denial = fetch("http://bad.test:8080/").refused("net.resolve", "bad.test", None).clone();
            assert_eq!((&denial["blocking"], &denial["grant"]["network"][0]), (&true.into(), &"bad.test".into()));
            let denial = fetch("http://good.test:8080/").refused("net.resolve", "good.test", None).clone();
            assert_eq!(denial["blocking"], true);
            assert!(denial.get("grant").is_none_or(serde_json::Value::is_null), "it is granted already: {denial:#}");
            assert_eq!(good.asked(), [""; 0]);
        }
    });
}

#[test]
fn git_over_http() {
    if !has("git") {
        return;
    }
    within("clients::git_over_http", |country| {
        let content = |root: &Path| {
            let source = tempfile::tempdir().unwrap();
            std::fs::write(source.path().join("file"), "content").unwrap();
            here("git", &["init", "-q", "-b", "main"], source.path());
            here("git", &["add", "file"], source.path());
            let commit = ["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-q", "-m", "one"];
            here("git", &commit, source.path());
            let bare = root.join("repo.git");
            here("git", &["clone", "-q", "--bare", ".", bare.to_str().unwrap()], source.path());
            here("git", &["update-server-info"], &bare);
        };
        Trial {
            country,
            content: &content,
            command: &|url| format!("git clone -q {url}/repo.git copy"),
            landed: &|scene, _| {
                assert_eq!(std::fs::read_to_string(scene.path("copy/file")).unwrap(), "content");
                std::fs::remove_dir_all(scene.path("copy")).unwrap();
            },
        }
        .run();
    });
}

#[test]
fn pip_from_an_index() {
    let pip = ["-m", "pip", "--version"];
    let has_pip =
        has("python3") && Command::new("python3").args(pip).env("PATH", PATH).output().unwrap().status.success();
    if !has_pip {
        assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "pip is not installed for {PATH}");
        println!("NOT TESTED: pip is not installed for {PATH}");
        return;
    }
    const WHEEL: &str = "demo-1.0-py3-none-any.whl";
    within("clients::pip_from_an_index", |country| {
        let content = |root: &Path| {
            let make = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w')\nd = 'demo-1.0.dist-info/'\n\
                        z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')\n\
                        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
                        z.writestr(d + 'RECORD', '')\nz.close()";
            std::fs::create_dir_all(root.join("simple/demo")).unwrap();
            here("python3", &["-c", make, WHEEL], root);
            std::fs::write(root.join("simple/demo/index.html"), format!("<a href=\"/{WHEEL}\">{WHEEL}</a>")).unwrap();
        };
        Trial {
            country,
            content: &content,
            command: &|url| {
                format!(
                    "python3 -m pip --isolated download -q --no-deps --no-cache-dir --retries 0 \
                     --disable-pip-version-check --trusted-host good.test --trusted-host bad.test --index-url {url}/simple demo"
                )
            },
            landed: &|scene, _| std::fs::remove_file(scene.path(WHEEL)).unwrap(),
        }
        .run();
    });
}

#[test]
fn npm_from_a_registry() {
    if !has("npm") {
        return;
    }
    within("clients::npm_from_a_registry", |country| {
        let content = |root: &Path| {
            let package = tempfile::tempdir().unwrap();
            std::fs::write(package.path().join("package.json"), r#"{"name":"demo","version":"1.0.0"}"#).unwrap();
            here("npm", &["pack", "--silent", "--offline"], package.path());
            std::fs::create_dir_all(root.join("demo/-")).unwrap();
            std::fs::copy(package.path().join("demo-1.0.0.tgz"), root.join("demo/-/demo-1.0.0.tgz")).unwrap();
            let tarball = "http://good.test:8080/demo/-/demo-1.0.0.tgz";
            let document = format!(
                r#"{{"name":"demo","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"demo","version":"1.0.0","dist":{{"tarball":"{tarball}"}}}}}}}}"#
            );
            std::fs::write(root.join("demo/index.html"), document).unwrap();
        };
        Trial {
            country,
            content: &content,
            command: &|url| {
                format!(
                    "rm -rf node_modules package-lock.json; echo '{{}}' >package.json; \
                     npm install --cache /tmp/npm --no-audit --no-fund --no-update-notifier --fetch-retries=0 \
                     --registry {url}/ demo >/dev/null"
                )
            },
            landed: &|scene, _| assert!(scene.path("node_modules/demo/package.json").is_file()),
        }
        .run();
    });
}

#[test]
fn go_from_a_module_proxy() {
    if std::fs::metadata("/usr/bin/go").is_err() {
        println!("NOT TESTED: go is not installed");
        return;
    }
    within("clients::go_from_a_module_proxy", |country| {
        let content = |root: &Path| {
            let versions = root.join("demo.test/m/@v");
            std::fs::create_dir_all(&versions).unwrap();
            std::fs::write(versions.join("list"), "v1.0.0\n").unwrap();
            std::fs::write(versions.join("v1.0.0.info"), r#"{"Version":"v1.0.0"}"#).unwrap();
            std::fs::write(versions.join("v1.0.0.mod"), "module demo.test/m\n").unwrap();
        };
        Trial {
            country,
            content: &content,
            command: &|url| {
                format!(
                    "HOME=/tmp GOPATH=/tmp/go GOFLAGS=-mod=mod GONOSUMDB=* GONOSUMCHECK=1 GOSUMDB=off GOPROXY={url} \
                     go list -m -versions demo.test/m"
                )
            },
            landed: &|_, out| assert_eq!(out, "demo.test/m v1.0.0"),
        }
        .run();
    });
}

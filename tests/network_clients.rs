//! Real clients in a network namespace with nothing but its loopback: the proxy's socket was made inside it, the
//! servers are outside. What is allowed works, what is not yields one fact that names host and port.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program: failures are panics")]

mod network_support;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use network_support::files::{Files, serve_file};
use network_support::namespace::{Namespace, client, owns_namespaces, python, run_here, text};
use stockade::network::proxy::Token;

const ALLOW: &[&str] = &["good.test", "127.0.0.1"];

#[test]
fn curl_by_http_tunnel_and_socks() {
    let (true, Some(curl)) = (owns_namespaces("curl_by_http_tunnel_and_socks"), client("curl")) else { return };
    let files = Files::start();
    files.write("a.txt", "hello from outside");
    let (good, bad) = (files.url("good.test", "a.txt"), files.url("bad.test", "a.txt"));
    let namespace = Namespace::new(ALLOW);
    let socks = namespace.environment()["ALL_PROXY"].replace("http://", "socks5h://");
    for way in [&["-sSf"][..], &["-sSf", "-p"], &["-sSf", "--proxy-anyauth"], &["-sSf", "-x", &socks]] {
        assert_eq!(namespace.works(&curl, &[way, &[&good]].concat()), "hello from outside", "{way:?}");
        let other = Namespace::new(ALLOW);
        let mut way: Vec<&str> = way.to_vec();
        let other_socks = other.environment()["ALL_PROXY"].replace("http://", "socks5h://");
        if way.contains(&"-x") {
            way = vec!["-sSf", "-x", &other_socks];
        }
        way.push(&bad);
        other.is_refused(files.address.port(), &curl, &way);
    }
    assert_eq!(files.asked().len(), 4, "{:?}", files.asked());
}

#[test]
fn without_the_proxy_there_is_nothing() {
    let (true, Some(curl)) = (owns_namespaces("without_the_proxy_there_is_nothing"), client("curl")) else { return };
    let files = Files::start();
    files.write("a.txt", "x");
    let namespace = Namespace::new(ALLOW);
    let none = BTreeMap::new();
    let url = files.url("127.0.0.1", "a.txt");
    let start = Instant::now();
    for url in [&*url, &files.url("good.test", "a.txt"), "http://192.0.2.1/", "http://[2001:db8::1]/"] {
        let output = namespace.run_with(&curl, &["-sS", "--max-time", "20", url], &none);
        assert!(!output.status.success(), "{url}: {}", text(&output));
    }
    let datagram = namespace.inside(|| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"query", "192.0.2.53:53").map_err(|error| error.raw_os_error())
    });
    assert_eq!(datagram, Err(Some(nix::libc::ENETUNREACH)), "no datagram leaves");
    assert!(start.elapsed() < Duration::from_secs(15), "refused at once, not after a timeout: {:?}", start.elapsed());
    // Other credentials than its own do not help, whoever presents them.
    let other = Token::random().unwrap().credentials();
    let proxy = format!("http://{other}@{}", namespace.proxy.address());
    let output = namespace.run_with(&curl, &["-sSf", "-x", &proxy, &files.url("good.test", "a.txt")], &none);
    assert!(text(&output).contains("407"), "{}", text(&output));
    assert_eq!(files.asked(), [""; 0]);
    assert_eq!(namespace.works_after_refusal(&curl, &files.url("good.test", "a.txt")), "x");
}

#[test]
fn the_sandbox_reaches_its_own_servers_directly() {
    let (true, Some(curl)) = (owns_namespaces("the_sandbox_reaches_its_own_servers_directly"), client("curl")) else {
        return;
    };
    let namespace = Namespace::new(&[]);
    let ports = namespace.inside(|| {
        ["127.0.0.1:0", "[::1]:0"].map(|address| {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    serve_file(stream, Path::new("/nowhere"), &Mutex::default());
                }
            });
            port
        })
    });
    let urls = [
        format!("http://127.0.0.1:{}/", ports[0]),
        format!("http://localhost:{}/", ports[0]),
        format!("http://[::1]:{}/", ports[1]),
    ];
    for url in &urls {
        let code = namespace.works(&curl, &["-sS", "-o", "/dev/null", "-w", "%{http_code}", url]);
        assert_eq!(code, "404", "{url}: the server inside answered");
    }
    if let Some(python) = python() {
        for url in &urls {
            let script = "import sys, urllib.request, urllib.error\ntry: urllib.request.urlopen(sys.argv[1])\n\
                          except urllib.error.HTTPError as e: print(e.code)";
            assert_eq!(namespace.works(&python, &["-c", script, url]).trim(), "404", "{url}");
        }
    }
}

#[test]
fn python_urllib_and_requests() {
    let (true, Some(python)) = (owns_namespaces("python_urllib_and_requests"), python()) else { return };
    let files = Files::start();
    files.write("a.txt", "hello");
    let (good, bad) = (files.url("good.test", "a.txt"), files.url("bad.test", "a.txt"));
    let urllib = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())";
    let requests = "import sys, requests; r = requests.get(sys.argv[1]); r.raise_for_status(); print(r.text)";
    let tunnel = "import os, sys, http.client, urllib.parse, base64\n\
                  p = urllib.parse.urlsplit(os.environ['HTTPS_PROXY']); u = urllib.parse.urlsplit(sys.argv[1])\n\
                  c = http.client.HTTPConnection(p.hostname, p.port)\n\
                  a = base64.b64encode(f'{p.username}:{p.password}'.encode()).decode()\n\
                  c.set_tunnel(u.hostname, u.port, {'Proxy-Authorization': 'Basic ' + a})\n\
                  c.request('GET', u.path); print(c.getresponse().read().decode())";
    let mut scripts = vec![urllib, tunnel];
    let has_requests = Command::new(&python).args(["-c", "import requests"]).output().unwrap().status.success();
    if has_requests {
        scripts.push(requests);
    } else {
        assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "python requests is not installed here");
        println!("NOT TESTED: python requests is not installed here");
    }
    for script in scripts {
        assert_eq!(Namespace::new(ALLOW).works(&python, &["-c", script, &good]).trim(), "hello");
        Namespace::new(ALLOW).is_refused(files.address.port(), &python, &["-c", script, &bad]);
    }
}

#[test]
fn node_fetch() {
    let (true, Some(node)) = (owns_namespaces("node_fetch"), client("node")) else { return };
    let files = Files::start();
    files.write("a.txt", "hello");
    let (good, bad) = (files.url("good.test", "a.txt"), files.url("bad.test", "a.txt"));
    let supports = "process.exit(process.allowedNodeEnvironmentFlags.has('--use-env-proxy') ? 0 : 1)";
    let fetch = "fetch(process.argv[1]).then(async r => { if (!r.ok) throw r.status; console.log(await r.text()) })";
    // Before the setting existed: the same proxy by hand, and a fetch that fails because there is no way round.
    let by_hand = "const p = new URL(process.env.HTTP_PROXY); require('http').get({host: p.hostname, port: p.port, \
                   path: process.argv[1], headers: {host: new URL(process.argv[1]).host, 'proxy-authorization': \
                   'Basic ' + Buffer.from(p.username + ':' + p.password).toString('base64')}}, r => { \
                   if (r.statusCode != 200) process.exit(1); r.pipe(process.stdout) })";
    let reads_environment = Command::new(&node).args(["-e", supports]).status().unwrap().success();
    let script = if reads_environment { fetch } else { by_hand };
    if !reads_environment {
        println!("this node does not read NODE_USE_ENV_PROXY: http.get by hand instead of fetch");
        let output = Namespace::new(ALLOW).run(&node, &["-e", fetch, &good]);
        assert!(!output.status.success() && files.asked().is_empty(), "{}", text(&output));
    }
    assert_eq!(Namespace::new(ALLOW).works(&node, &["-e", script, &good]).trim(), "hello");
    Namespace::new(ALLOW).is_refused(files.address.port(), &node, &["-e", script, &bad]);
}

#[test]
fn git_clones_over_http() {
    let (true, Some(git)) = (owns_namespaces("git_clones_over_http"), client("git")) else { return };
    let files = Files::start();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("file"), "content").unwrap();
    run_here(&git, &["init", "-q", "-b", "main"], source.path());
    run_here(&git, &["add", "file"], source.path());
    let commit = ["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-q", "-m", "one"];
    run_here(&git, &commit, source.path());
    let bare = files.root.path().join("repo.git");
    run_here(&git, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()], source.path());
    run_here(&git, &["update-server-info"], &bare);
    let namespace = Namespace::new(ALLOW);
    namespace.works(&git, &["clone", "-q", &files.url("good.test", "repo.git"), "copy"]);
    assert_eq!(std::fs::read_to_string(namespace.home.path().join("copy/file")).unwrap(), "content");
    let refused = files.url("bad.test", "repo.git");
    Namespace::new(ALLOW).is_refused(files.address.port(), &git, &["clone", "-q", &refused, "copy"]);
}

#[test]
fn pip_downloads_from_an_index() {
    let (true, Some(python)) = (owns_namespaces("pip_downloads_from_an_index"), python()) else { return };
    let files = Files::start();
    let wheel = "demo-1.0-py3-none-any.whl";
    let make = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w')\nz.writestr('demo.py', 'x = 1\\n')\n\
                d = 'demo-1.0.dist-info/'\nz.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')\n\
                z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
                z.writestr(d + 'RECORD', '')\nz.close()";
    let path = files.write(&format!("files/{wheel}"), "");
    run_here(&python, &["-c", make, path.to_str().unwrap()], files.root.path());
    files.write("simple/demo/index.html", format!("<a href=\"/files/{wheel}\">{wheel}</a>"));
    let download = |host: &str| -> Vec<String> {
        let index = files.url(host, "simple");
        [
            "-m",
            "pip",
            "--isolated",
            "download",
            "--no-deps",
            "--no-cache-dir",
            "--retries",
            "0",
            "--disable-pip-version-check",
            "--trusted-host",
            host,
            "--index-url",
            &index,
            "demo",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let namespace = Namespace::new(ALLOW);
    let args = download("good.test");
    namespace.works(&python, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(namespace.home.path().join(wheel).is_file());
    let args = download("bad.test");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    Namespace::new(ALLOW).is_refused(files.address.port(), &python, &args);
}

#[test]
fn npm_installs_from_a_registry() {
    let (true, Some(npm)) = (owns_namespaces("npm_installs_from_a_registry"), client("npm")) else { return };
    let files = Files::start();
    let package = tempfile::tempdir().unwrap();
    std::fs::write(package.path().join("package.json"), r#"{"name":"demo","version":"1.0.0"}"#).unwrap();
    run_here(&npm, &["pack", "--silent", "--offline"], package.path());
    files.write("demo/-/demo-1.0.0.tgz", std::fs::read(package.path().join("demo-1.0.0.tgz")).unwrap());
    let tarball = files.url("good.test", "demo/-/demo-1.0.0.tgz");
    let document = format!(
        r#"{{"name":"demo","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"demo","version":"1.0.0","dist":{{"tarball":"{tarball}"}}}}}}}}"#
    );
    files.write("demo/index.html", document);
    let install = |host: &str| {
        let registry = files.url(host, "");
        [
            "install",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--fetch-retries=0",
            "--registry",
            &registry,
            "demo",
        ]
        .map(str::to_owned)
    };
    let namespace = Namespace::new(ALLOW);
    std::fs::write(namespace.home.path().join("package.json"), "{}").unwrap();
    let args = install("good.test");
    namespace.works(&npm, &args.each_ref().map(String::as_str));
    assert!(namespace.home.path().join("node_modules/demo/package.json").is_file());
    let other = Namespace::new(ALLOW);
    std::fs::write(other.home.path().join("package.json"), "{}").unwrap();
    let args = install("bad.test");
    other.is_refused(files.address.port(), &npm, &args.each_ref().map(String::as_str));
}

#[test]
fn cargo_fetches_from_a_registry() {
    let (true, Some(python)) = (owns_namespaces("cargo_fetches_from_a_registry"), python()) else { return };
    let cargo = env!("CARGO");
    if std::fs::metadata(cargo).is_err() {
        assert!(std::env::var_os("STOCKADE_REQUIRE_CLIENTS").is_none(), "cargo is out of this user's reach");
        println!("NOT TESTED: cargo is out of this user's reach");
        return;
    }
    let files = Files::start();
    let make = "import hashlib, io, json, sys, tarfile\nroot = sys.argv[1]\n\
                t = tarfile.open(root + '/demo-0.1.0.crate', 'w:gz')\n\
                for n, c in (('Cargo.toml', b'[package]\\nname = \"demo\"\\nversion = \"0.1.0\"\\n'), ('src/lib.rs', b'')):\n\
                \x20   i = tarfile.TarInfo('demo-0.1.0/' + n); i.size = len(c); t.addfile(i, io.BytesIO(c))\n\
                t.close()\n\
                h = hashlib.sha256(open(root + '/demo-0.1.0.crate', 'rb').read()).hexdigest()\n\
                print(json.dumps({'name': 'demo', 'vers': '0.1.0', 'deps': [], 'cksum': h, 'features': {}, 'yanked': False}))";
    let root = files.root.path().to_str().unwrap();
    let line = Command::new(&python).args(["-c", make, root]).output().unwrap();
    assert!(line.status.success(), "{}", text(&line));
    files.write("index/de/mo/demo", line.stdout);
    let prepare = |host: &str| {
        let namespace = Namespace::new(ALLOW);
        let home = namespace.home.path();
        let index = files.url(host, "index/");
        std::fs::create_dir_all(home.join("src")).unwrap();
        std::fs::create_dir_all(home.join(".cargo")).unwrap();
        std::fs::write(home.join("src/lib.rs"), "").unwrap();
        let config = format!("[registries.local]\nindex = \"sparse+{index}\"\n[net]\nretry = 0\n");
        std::fs::write(home.join(".cargo/config.toml"), config).unwrap();
        let manifest = "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n\
                        demo = { version = \"0.1\", registry = \"local\" }\n";
        std::fs::write(home.join("Cargo.toml"), manifest).unwrap();
        namespace
    };
    let crate_url = files.url("good.test", "{crate}-{version}.crate");
    files.write("index/config.json", format!("{{\"dl\":\"{crate_url}\"}}"));
    prepare("good.test").works(cargo, &["fetch"]);
    assert!(files.asked().iter().any(|path| path == "/demo-0.1.0.crate"), "{:?}", files.asked());
    prepare("bad.test").is_refused(files.address.port(), cargo, &["fetch"]);
}

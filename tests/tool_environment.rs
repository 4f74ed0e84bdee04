//! The managed environment: one owner a name, computed per call, loud when wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use stockade::session::Session;
use stockade::tool::{
    EnvContributor, EnvError, EnvRegistry, EnvVariable, FailureCode, ToolExecution, ToolHost, ToolOutput,
};
use support::FakeExecutor;
use tokio_util::sync::CancellationToken;

struct Contributor {
    name: &'static str,
    declared: Vec<&'static str>,
    gives: Vec<(&'static str, &'static str)>,
    asked: AtomicU32,
}

impl Contributor {
    fn new(name: &'static str, declared: &[&'static str], gives: &[(&'static str, &'static str)]) -> Arc<Self> {
        Arc::new(Self { name, declared: declared.to_vec(), gives: gives.to_vec(), asked: AtomicU32::new(0) })
    }
}

impl EnvContributor for Contributor {
    fn name(&self) -> &str {
        self.name
    }

    fn variables(&self) -> Vec<EnvVariable> {
        let variable = |name: &&str| EnvVariable { name: (*name).to_owned(), description: "test".to_owned() };
        self.declared.iter().map(variable).collect()
    }

    fn resolve(&self, execution: &ToolExecution<'_>) -> BTreeMap<String, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let suffix = execution.session.map_or_else(String::new, |session| format!("-{}", session.id()));
        self.gives.iter().map(|(name, value)| ((*name).to_owned(), format!("{value}{suffix}"))).collect()
    }
}

#[test]
fn names_have_one_owner_and_reserved_ones_are_taken() {
    let registry = EnvRegistry::new(Some(Path::new("/h"))).unwrap();
    let kept = registry.register(Contributor::new("region", &["DSH_REGION"], &[])).unwrap();
    let fails = |contributor| registry.register(contributor).err();
    assert!(matches!(fails(Contributor::new("region", &["DSH_OTHER"], &[])), Some(EnvError::Registered { .. })));
    assert!(
        matches!(fails(Contributor::new("b", &["DSH_REGION"], &[])), Some(EnvError::Owned { owner, .. }) if owner == "region")
    );
    assert!(matches!(fails(Contributor::new("b", &["DSH_X", "DSH_X"], &[])), Some(EnvError::Owned { .. })));
    for reserved in ["DSH_HOME", "DSH_SHELL", "DSH_SESSION_ID", "DSH_SESSION_JSONL"] {
        assert!(matches!(fails(Contributor::new("b", &[reserved], &[])), Some(EnvError::Owned { .. })), "{reserved}");
    }
    for bad in ["PATH", "DSH_", "DSH_a", "DSH_A=B", "dsh_A", "DSH_A B", ""] {
        assert!(matches!(fails(Contributor::new("b", &[bad], &[])), Some(EnvError::Name { .. })), "{bad:?}");
    }
    // A refused registration leaves nothing behind; a dropped one makes room.
    assert_eq!(registry.list().len(), 5);
    drop(kept);
    assert_eq!(registry.list().len(), 4);
    assert!(registry.register(Contributor::new("b", &["DSH_REGION"], &[])).is_ok());
    assert!(matches!(EnvRegistry::new(Some(Path::new("relative"))), Err(EnvError::NoHome)));
}

#[test]
fn listing_runs_nothing() {
    let registry = EnvRegistry::new(Some(Path::new("/h"))).unwrap();
    let contributor = Contributor::new("a", &["DSH_A"], &[("DSH_A", "1")]);
    let _kept = registry.register(contributor.clone()).unwrap();
    assert_eq!(registry.list().last().unwrap().1.name, "DSH_A");
    assert_eq!(contributor.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn values_are_computed_for_each_call_and_an_undeclared_one_stops_it() {
    let executor = FakeExecutor::unconfined();
    let host = ToolHost::builder(executor.clone()).home("/h").build().unwrap();
    let good = Contributor::new("good", &["DSH_A", "DSH_UNUSED"], &[("DSH_A", "v")]);
    let _kept = host.environment().register(good.clone()).unwrap();
    let session = Session::in_memory("s".parse().unwrap(), "/").unwrap();
    for (n, session) in [None, Some(&session), Some(&session)].into_iter().enumerate() {
        let args = json!({ "command": "true", "description": "x", "run_in_background": n == 2 });
        assert!(!host.call(session, "bash", args, &CancellationToken::new()).await.is_error);
        let env = &executor.ran()[n].managed_env;
        assert_eq!(env["DSH_A"], if n == 0 { "v" } else { "v-s" });
        assert_eq!(env.get("DSH_SESSION_ID").map(String::as_str), session.map(|_| "s"));
        assert_eq!((env["DSH_SHELL"].as_str(), env["DSH_HOME"].as_str(), env.get("DSH_UNUSED")), ("1", "/h", None));
    }
    assert_eq!(good.asked.load(Ordering::Relaxed), 3);
    for (name, declared, gives) in [("undeclared", "DSH_B", ("DSH_C", "v")), ("nul", "DSH_D", ("DSH_D", "a\0b"))] {
        let bad = host.environment().register(Contributor::new(name, &[declared], &[gives])).unwrap();
        let result =
            host.call(None, "bash", json!({ "command": "true", "description": "x" }), &CancellationToken::new()).await;
        assert!(
            matches!(result.structured, ToolOutput::Failure { code: FailureCode::Environment, .. }),
            "{}",
            result.text
        );
        assert!(result.text.contains(name), "{}", result.text);
        drop(bad);
    }
    assert_eq!(executor.ran().len(), 3, "nothing ran");
}

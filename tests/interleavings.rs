//! Every order in which threads can take the locks of two modules, tried by loom: the table of background tasks, and the
//! way to the trace supervisor's thread. Their source is compiled here once more, with loom's locks in the place of the
//! standard library's.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by it")]
#![allow(missing_docs, unreachable_pub, dead_code, reason = "each model uses a part of the source that it tries")]

// Where the sources expect them.
use stockade::{approval, denial, executor, policy, session};

#[path = "interleavings/tool.rs"]
mod tool;
#[path = "interleavings/trace.rs"]
mod trace;

/// Tries every order of what `model` starts, and says how many there were.
fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&orders);
    loom::model(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    println!("figure: {orders} orders");
    assert!(orders > 10, "one order is no model: {orders}");
}

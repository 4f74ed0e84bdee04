#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::sync::Arc; use std::time::{Duration,Instant};
use stockade::executor::*; 
use stockade::sandboxed::*;
#[path="../benches/paired/spawn.rs"] #[allow(dead_code,unused)] mod spawn;
#[path="../benches/paired/figures.rs"] #[allow(dead_code,unused)] mod figures;
fn main(){
  stockade::launcher::enter();
  let a: Vec<String> = std::env::args().collect();
  let at: usize = a[1].parse().unwrap(); let n: usize = a[2].parse().unwrap(); let gap: u64 = a[3].parse().unwrap();
  let trace = if a[4]=="on" {TraceChoice::Auto} else {TraceChoice::Off};
  let ex: Arc<dyn BashExecutor> = if a[4]=="local" { Arc::new(spawn::local()) } else { Arc::new(spawn::confined(trace)) };
  spawn::runtime().block_on(async {
    for _ in 0..4 { spawn::run_true(&*ex).await; tokio::time::sleep(Duration::from_millis(15)).await; }
    let b=Instant::now(); let mut all=vec![];
    let ws=(0..at).map(|_|{let ex=Arc::clone(&ex); tokio::spawn(async move{ let mut v=vec![]; for _ in 0..n/at { let t=Instant::now(); spawn::run_true(&*ex).await; v.push(t.elapsed().as_secs_f64()*1e3); if gap>0 {tokio::time::sleep(Duration::from_millis(gap)).await;} } v})}).collect::<Vec<_>>();
    for w in ws { all.extend(w.await.unwrap()); }
    let e=b.elapsed().as_secs_f64()*1e3; all.sort_by(f64::total_cmp);
    println!("{} at once {at}: {:.3} ms each, latency min {:.2} med {:.2}", a[4], e/n as f64, all[0], all[all.len()/2]);
    ex.dispose().await;
  });
}

//! Plans of the last calls, for as long as what they were made from is the same.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::executor::ExecError;
use crate::host::{HostSupport, socket_names};
use crate::plan::Planned;
use crate::policy::EffectivePolicy;
use crate::policy::look::Ground;

/// Plans kept at any one time.
const MOST_KEPT: usize = 8;

/// What differs between the plans of one executor.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) policy: Arc<EffectivePolicy>,
    pub(super) host: Arc<HostSupport>,
    pub(super) traced: bool,
    pub(super) audited: bool,
    pub(super) cgroup: bool,
    pub(super) session_tmp: Option<PathBuf>,
}

impl Given {
    /// The very same policy and host, not equal ones: both are kept where they come from.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy)
            && Arc::ptr_eq(&self.host, &other.host)
            && (self.traced, self.audited, self.cgroup) == (other.traced, other.audited, other.cgroup)
            && self.session_tmp == other.session_tmp
    }
}

/// Those of one executor.
#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    given: Given,
    /// Names of the host's sockets, which a plan covers one by one.
    sockets: BTreeSet<PathBuf>,
    ground: Ground,
    planned: Planned,
}

impl Plans {
    /// The plan kept for this, or a new one.
    pub(super) fn of(
        &self,
        given: Given,
        make: impl FnOnce(&Given) -> Result<Planned, ExecError>,
    ) -> Result<Planned, ExecError> {
        // Looked at before the plan does: what changes in between is seen by the next call.
        let Ok(sockets) = socket_names() else { return make(&given) };
        if let Some(planned) = self.kept(&given, &sockets) {
            return Ok(planned);
        }
        let (planned, ground) = Ground::record(|| make(&given));
        let planned = planned?;
        if let Some(ground) = ground {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= MOST_KEPT {
                all.pop_front();
            }
            all.push_back(Kept { given, sockets, ground, planned: planned.clone() });
        }
        Ok(planned)
    }

    fn kept(&self, given: &Given, sockets: &BTreeSet<PathBuf>) -> Option<Planned> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|kept| kept.given.is(given))?;
        let kept = all.remove(at).filter(|kept| kept.sockets == *sockets && kept.ground.stands())?;
        let planned = kept.planned.clone();
        all.push_back(kept);
        Some(planned)
    }
}

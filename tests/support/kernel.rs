//! The kernel that the tests run on: an old one leaves gaps although there are namespaces.

use std::sync::OnceLock;

use stockade::executor::Gap;
use stockade::host::{HostSupport, leaf_place};

pub(crate) fn host() -> &'static HostSupport {
    static HOST: OnceLock<HostSupport> = OnceLock::new();
    HOST.get_or_init(|| HostSupport::detect().unwrap())
}

/// What is missing with namespaces: nothing on a current kernel.
pub(crate) fn gaps_with_namespaces(root: bool) -> Vec<Gap> {
    let ioctl = (host().landlock_abi == 0).then_some(Gap::Ioctl);
    // Before, nothing but a control group limits the processes of root.
    let limits = (root && host().kernel < (6, 14) && leaf_place().is_err()).then_some(Gap::Limits);
    ioctl.into_iter().chain(limits).collect()
}

/// What the namespaces backend cannot do without: mounts are made read-only by `mount_setattr(2)`.
#[allow(dead_code, reason = "each test file uses its own part")]
pub(crate) fn has_all_mount_calls() -> bool {
    host().kernel >= (5, 12)
}
